"""What an apply would change: the registry as it is, and the file as it is now, make changes and conflicts.

Definitions are compared by the hash of the form in which they are kept. A schedule gets a new version when its own
definition or its agent's changes. What a file once defined and no longer does is retired, never deleted.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, TypeVar

from fencepost.model.definition import AgentDefinition, ScheduleDefinition, hash_of, to_json
from fencepost.model.instants import format_instant, from_us
from fencepost.model.nearest_name import nearest
from fencepost.model.ownership import FileId, Owner, Replaced, digest_of


class ChangeKind(StrEnum):
    """What becomes of a definition."""

    ADDED = "added"
    CHANGED = "changed"
    REVIVED = "revived"  # it was retired, and is back
    MOVED = "moved"  # the same, now defined by another file
    RETIRED = "retired"
    UNCHANGED = "unchanged"


class Spelled(NamedTuple):
    """A definition in the form in which it is kept."""

    text: str
    hash: str


class WantedSchedule(NamedTuple):
    """A schedule as its file wants it."""

    definition: ScheduleDefinition
    spelled: Spelled
    place: str = ""  # file:line:column, for a person


@dataclass(frozen=True, slots=True)
class Wanted:
    """Everything that one file wants for one tenant."""

    tenant: str
    source: str
    agents: Mapping[str, Spelled]
    schedules: Mapping[str, WantedSchedule]
    hooks: Mapping[str, str] = field(default_factory=dict)  # JSON by name
    file: FileId | None = None  # where it lies; None: the source is an owner in its own right
    is_new: bool = False  # the registry has not seen this file with this owner

    def owned_by(self, owner: Owner) -> "Wanted":
        """Return the same in the name of an owner."""
        return replace(self, source=owner.source, is_new=owner.is_new)

    @property
    def digest(self) -> str:
        """What tells this content from others."""
        return digest_of(
            (
                *(("agent", name, one.hash) for name, one in self.agents.items()),
                *(("schedule", name, one.spelled.hash) for name, one in self.schedules.items()),
                *(("hook", name, text) for name, text in self.hooks.items()),
            )
        )


def want(
    tenant: str,
    source: str,
    *,
    agents: Mapping[str, AgentDefinition],
    schedules: Mapping[str, ScheduleDefinition],
    places: Mapping[str, str] | None = None,
    hooks: Mapping[str, Mapping[str, object]] | None = None,
    file: FileId | None = None,
) -> Wanted:
    """Spell what a file defines."""
    places = places or {}
    return Wanted(
        tenant,
        source,
        {name: spell(agent) for name, agent in agents.items()},
        {name: WantedSchedule(one, spell(one), places.get(name, "")) for name, one in schedules.items()},
        {name: json.dumps(one, sort_keys=True) for name, one in (hooks or {}).items()},
        file,
    )


def spell(definition: AgentDefinition | ScheduleDefinition) -> Spelled:
    """Return a definition as it is kept, with its hash."""
    text = to_json(definition)
    return Spelled(text, hash_of(text))


class KnownAgent(NamedTuple):
    """An agent as the registry has it."""

    name: str
    hash: str
    definition: str
    source: str
    retired: bool


class KnownSchedule(NamedTuple):
    """A schedule as the registry has it."""

    name: str
    version: int
    hash: str
    agent: str
    definition: str
    manifest_hash: str
    source: str
    retired: bool


class KnownHook(NamedTuple):
    """A webhook as the registry has it."""

    name: str
    agent: str
    definition: str
    source: str


K = TypeVar("K", KnownAgent, KnownSchedule)
M = TypeVar("M", KnownAgent, KnownSchedule, KnownHook)


@dataclass(frozen=True, slots=True)
class KnownDefinitions:
    """What the registry holds that a file may touch: all agents, the file's schedules, their namesakes, their kin.

    If the file has a concurrency key, all schedules with one are there too.
    """

    agents: Mapping[str, KnownAgent]
    schedules: Mapping[str, KnownSchedule]
    hooks: Mapping[str, KnownHook] = field(default_factory=dict)

    def renamed(self, old: str, new: str) -> "KnownDefinitions":
        """Return the same with another name for an owner."""

        def moved(known: Mapping[str, M]) -> dict[str, M]:
            return {name: one._replace(source=new) if one.source == old else one for name, one in known.items()}

        return KnownDefinitions(moved(self.agents), moved(self.schedules), moved(self.hooks)) if old else self

    def names_of(self, source: str) -> set[tuple[str, str]]:
        """Return what an owner defines now, each with its kind."""
        return {(kind, name) for kind, name, _ in self._content(source)}

    def digest_of(self, source: str) -> str:
        """Return the digest of what an owner defines now, as a file with just that would have it."""
        return digest_of(self._content(source))

    def _content(self, source: str) -> Iterator[tuple[str, str, str]]:
        for kind, known in (("agent", self.agents), ("schedule", self.schedules)):
            yield from (
                (kind, one.name, one.hash) for one in known.values() if one.source == source and not one.retired
            )
        yield from (("hook", one.name, one.definition) for one in self.hooks.values() if one.source == source)


class FieldChange(NamedTuple):
    """One field of a definition, before and after; None where it was left out."""

    field: str
    old: object
    new: object


class AgentChange(NamedTuple):
    """What becomes of an agent."""

    kind: ChangeKind
    name: str
    spelled: Spelled
    before: str = ""  # the definition that it replaces

    @property
    def fields(self) -> tuple[FieldChange, ...]:
        """What is different now."""
        return fields_between(self.before, self.spelled.text)


class ScheduleChange(NamedTuple):
    """What becomes of a schedule. `source` is another file's when only its agent has changed."""

    kind: ChangeKind
    name: str
    version: int
    agent: str
    spelled: Spelled
    source: str
    before: str = ""  # the definition that it replaces
    agent_changed: bool = False

    @property
    def fields(self) -> tuple[FieldChange, ...]:
        """What is different now."""
        return fields_between(self.before, self.spelled.text)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that an apply would do, or why it must not."""

    wanted: Wanted
    agents: tuple[AgentChange, ...]
    schedules: tuple[ScheduleChange, ...]
    conflicts: tuple[str, ...]
    rollback: str = ""  # why it would take the registry back to an earlier version, if it would

    @property
    def changes_anything(self) -> bool:
        """Whether an apply would write."""
        return any(kind is not ChangeKind.UNCHANGED for kind in self._kinds())

    def counts(self) -> Counter[ChangeKind]:
        """Count agents and schedules by kind."""
        return Counter(self._kinds())

    def _kinds(self) -> Iterator[ChangeKind]:
        yield from (one.kind for one in self.agents)
        yield from (one.kind for one in self.schedules)


def plan(known: KnownDefinitions, wanted: Wanted, *, take_over: bool = False, replaced: Replaced | None = None) -> Plan:
    """Compare what is with what is wanted; `replaced` is set if this very content was in force before the present one."""
    desk = _Desk(known, wanted, take_over=take_over)
    desk.refuse_strangers()
    agents = tuple(desk.agents())
    schedules = tuple(desk.schedules())
    return Plan(wanted, agents, schedules, tuple(desk.conflicts), _rollback(wanted, replaced) if replaced else "")


def joins(known: KnownDefinitions, wanted: Wanted) -> str | None:
    """Return the one owner of everything that a file defines, if each is there already just so."""
    names = [("agent", name) for name in wanted.agents] + [("schedule", name) for name in wanted.schedules]
    there = [known.agents.get(name) if kind == "agent" else known.schedules.get(name) for kind, name in names]
    owners = {one.source if one and not one.retired else "" for one in there}
    return owners.pop() or None if len(owners) == 1 else None


def _rollback(wanted: Wanted, replaced: Replaced) -> str:
    where = wanted.file.path if wanted.file else wanted.source
    return (
        f"{where} is what {replaced.applied_by} applied at {format_instant(from_us(replaced.applied_us))}, and a later version has "
        "replaced it. If this file is out of date, bring it up to date; to go back to it, say 'fencepost apply --rollback'."
    )


class _Desk:
    """Goes through both lists, and collects what stands in the way."""

    def __init__(self, known: KnownDefinitions, wanted: Wanted, *, take_over: bool) -> None:
        self._known = known
        self._wanted = wanted
        self._take_over = take_over
        self._manifests = _manifests(known, wanted)
        self._limits: dict[str, tuple[str, int, str]] = dict(self._elsewhere())
        self.conflicts: list[str] = []

    def refuse_strangers(self) -> None:
        """Refuse a file that has only the name in common with the one that defined something under it."""
        wanted = self._wanted
        if self._take_over or not wanted.is_new or wanted.file is None or wanted.source != wanted.file.named:
            return
        there = self._known.names_of(wanted.source)
        ours = {("agent", name) for name in wanted.agents} | {("schedule", name) for name in wanted.schedules}
        if there and not there & (ours | {("hook", name) for name in wanted.hooks}):
            kind, name = min(there)
            self.conflicts.append(
                f'another file is named "{wanted.file.name}" too, and has nothing in common with {wanted.file.path}: it '
                f'defines {kind} "{name}". Give this one another name, or let it replace the other with '
                "'fencepost apply --take-over'."
            )

    def agents(self) -> Iterator[AgentChange]:
        for name, spelled in self._wanted.agents.items():
            known = self._known.agents.get(name)
            self._refuse_twins("agent", name, self._known.schedules.get(name))
            if known and not self._ours("agent", known):
                continue
            kind = _kind(known, self._wanted.source, same=known is not None and known.hash == spelled.hash)
            yield AgentChange(kind, name, spelled, known.definition if known else "")
        for gone in self._gone(self._known.agents, self._wanted.agents):
            self._refuse_widows(gone.name)
            yield AgentChange(ChangeKind.RETIRED, gone.name, Spelled(gone.definition, gone.hash))

    def schedules(self) -> Iterator[ScheduleChange]:
        for name, wanted in self._wanted.schedules.items():
            known = self._known.schedules.get(name)
            if known is not None and self._is_as_it_was(wanted, known):
                spelled, source = wanted.spelled, known.source
                yield ScheduleChange(
                    ChangeKind.UNCHANGED, name, known.version, known.agent, spelled, source, known.definition
                )
                continue
            self._refuse_twins("schedule", name, self._known.agents.get(name))
            if (known and not self._ours("schedule", known)) or not self._has_agent(wanted):
                continue
            self._agree(wanted)
            yield self._change(wanted, known)
        for gone in self._gone(self._known.schedules, self._wanted.schedules):
            spelled = Spelled(gone.definition, gone.hash)
            yield ScheduleChange(ChangeKind.RETIRED, gone.name, gone.version, gone.agent, spelled, gone.source)
        yield from self._kin()

    def _is_as_it_was(self, wanted: WantedSchedule, known: KnownSchedule) -> bool:
        """Tell at one look what most schedules of a large file are: ours, just so, and nothing in the way."""
        manifest = self._manifests.get(known.agent)
        return (
            known.hash == wanted.spelled.hash
            and manifest is not None
            and known.manifest_hash == manifest.hash
            and known.source == self._wanted.source
            and not known.retired
            and not wanted.definition.concurrency_key
            and known.name not in self._known.agents
        )

    def _change(self, wanted: WantedSchedule, known: KnownSchedule | None) -> ScheduleChange:
        name, agent, spelled = wanted.definition.name, wanted.definition.agent, wanted.spelled
        manifest_hash = self._manifests[agent].hash
        same = known is not None and (known.hash, known.manifest_hash) == (spelled.hash, manifest_hash)
        kind = _kind(known, self._wanted.source, same=same)
        if known is None:
            return ScheduleChange(kind, name, 1, agent, spelled, self._wanted.source)
        keeps = kind in (ChangeKind.UNCHANGED, ChangeKind.MOVED)
        return ScheduleChange(
            kind,
            name,
            known.version if keeps else known.version + 1,
            agent,
            spelled,
            self._wanted.source,
            known.definition,
            known.manifest_hash != manifest_hash,
        )

    def _kin(self) -> Iterator[ScheduleChange]:
        """Give schedules of other files a new version when their agent, which is ours, has changed."""
        for known in self._known.schedules.values():
            manifest = self._wanted.agents.get(known.agent)
            if known.retired or known.source == self._wanted.source or known.name in self._wanted.schedules:
                continue
            if manifest and manifest.hash != known.manifest_hash:
                spelled = Spelled(known.definition, known.hash)
                yield ScheduleChange(
                    ChangeKind.CHANGED,
                    known.name,
                    known.version + 1,
                    known.agent,
                    spelled,
                    known.source,
                    agent_changed=True,
                )

    def _gone(self, known: Mapping[str, K], wanted: Mapping[str, object]) -> Iterator[K]:
        for one in known.values():
            if one.source == self._wanted.source and not one.retired and one.name not in wanted:
                yield one

    def _ours(self, what: str, known: KnownAgent | KnownSchedule) -> bool:
        if known.retired or known.source == self._wanted.source or self._take_over:
            return True
        self.conflicts.append(
            f'{what} "{known.name}" is defined by {known.source} too, and this is {self._wanted.source}; '
            "rename one of them, or move it here with 'fencepost apply --take-over'."
        )
        return False

    def _refuse_twins(self, what: str, name: str, twin: KnownAgent | KnownSchedule | None) -> None:
        if twin is None or twin.retired or twin.source == self._wanted.source:
            return
        other = "an agent" if what == "schedule" else "a schedule"
        self.conflicts.append(
            f'{what} "{name}" has the name of {other} in {twin.source}, and "fencepost run {name}" could mean either; '
            "rename one of them."
        )

    def _refuse_widows(self, agent: str) -> None:
        for known in self._known.schedules.values():
            if known.agent == agent and not known.retired and known.source != self._wanted.source:
                self.conflicts.append(
                    f'agent "{agent}" is gone from {self._wanted.source}, but schedule "{known.name}" in {known.source} '
                    "runs it; keep it, or change that schedule first."
                )

    def _agree(self, wanted: WantedSchedule) -> None:
        """Refuse two limits for one concurrency key: which of them counted would be chance."""
        schedule, limit = wanted.definition, wanted.definition.concurrency or 1
        if not schedule.concurrency_key:
            return
        other, said, where = self._limits.setdefault(schedule.concurrency_key, (schedule.name, limit, ""))
        if said != limit:
            place = f"{wanted.place}: " if wanted.place else ""
            elsewhere = f" in {where}" if where else ""
            self.conflicts.append(
                f'{place}schedule "{schedule.name}" lets {limit} runs with the key "{schedule.concurrency_key}" go at '
                f'once, and schedule "{other}"{elsewhere} {said}; write the same concurrency for both, or another key.'
            )

    def _elsewhere(self) -> Iterator[tuple[str, tuple[str, int, str]]]:
        """Yield the limits of concurrency keys that other files have set."""
        for known in self._known.schedules.values():
            if known.retired or known.source == self._wanted.source or known.name in self._wanted.schedules:
                continue
            if '"concurrency_key"' in known.definition:
                definition = json.loads(known.definition)
                limit = definition.get("concurrency") or 1
                yield definition["concurrency_key"], (known.name, limit, known.source)

    def _has_agent(self, wanted: WantedSchedule) -> bool:
        schedule = wanted.definition
        if schedule.agent in self._manifests:
            return True
        near = nearest(schedule.agent, self._manifests)
        hint = f'did you mean "{near}"?' if near else f"define it as [agents.{schedule.agent}]."
        place = f"{wanted.place}: " if wanted.place else ""
        self.conflicts.append(f'{place}schedule "{schedule.name}" runs the unknown agent "{schedule.agent}"; {hint}')
        return False


def _manifests(known: KnownDefinitions, wanted: Wanted) -> dict[str, Spelled]:
    """Return every agent that there will be: the file's own, and those that other files define."""
    others = {
        one.name: Spelled(one.definition, one.hash)
        for one in known.agents.values()
        if not one.retired and one.source != wanted.source
    }
    return {**others, **wanted.agents}


def _kind(known: KnownAgent | KnownSchedule | None, source: str, *, same: bool) -> ChangeKind:
    if known is None:
        return ChangeKind.ADDED
    if known.retired:
        return ChangeKind.REVIVED
    if not same:
        return ChangeKind.CHANGED
    return ChangeKind.UNCHANGED if known.source == source else ChangeKind.MOVED


def fields_between(old: str, new: str) -> tuple[FieldChange, ...]:
    """Return what is different in two definitions; nothing if there was none before."""
    if not old or old == new:
        return ()
    before, after = json.loads(old), json.loads(new)
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return tuple(FieldChange(name, before.get(name), after.get(name)) for name in names)
