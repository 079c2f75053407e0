"""One definition at a time, as JSON: for a platform whose own screens manage schedules and agents.

Each is owned by itself (`http:schedule/NAME`), so that putting one never retires another, and a file's stay the file's.
What is checked, and how versions come about, is the same as with a whole file.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost.config.load import Config, check
from fencepost.config.read import Document
from fencepost.model.errors import Busy, Invalid, Outdated, Unknown
from fencepost.model.registry_plan import KnownAgent, KnownDefinitions, KnownSchedule, Wanted
from fencepost.model.secret_rights import Rights
from fencepost.operations.schedule_registry import Planned, apply_config, find_schedule
from fencepost.ports.registry import AgentRow

if TYPE_CHECKING:
    from fencepost.stores.registry import SqlRegistry

KINDS = ("agent", "schedule")
ABSENT = "absent"  # what is expected of something that shall be new


class SentDefinition(NamedTuple):
    """A definition as it came, and what it refers to."""

    definition: Mapping[str, Any]
    gates: Mapping[str, Any] = {}
    projects: Mapping[str, Any] = {}
    engines: Mapping[str, Any] = {}
    files: Mapping[str, str] = {}


class Put(NamedTuple):
    """What came of it, and the tag of what stands now."""

    planned: Planned
    config: Config
    tag: str


def put_definition(
    registry: "SqlRegistry",
    kind: str,
    name: str,
    sent: SentDefinition,
    *,
    tenant: str,
    actor: str,
    rights: Rights,
    expected: str | None = None,
    take_over: bool = False,
) -> Put:
    """Put one agent or schedule into the registry; `expected` is the tag that the caller has seen, or ABSENT."""
    config = _config(kind, name, sent, (tenant, rights))
    seen = _seen_as(kind, name, expected)
    done = apply_config(registry, config, tenant=tenant, actor=actor, take_over=take_over, seen=seen)
    return Put(done, config, tag_of(registry, kind, name, tenant=tenant))


def drop_definition(
    registry: "SqlRegistry", kind: str, name: str, *, tenant: str, actor: str, expected: str | None = None
) -> None:
    """Retire one agent or schedule; one that a file or another owner defines is retired there."""
    source = _source_of(registry, kind, name, tenant)
    if source != _owner(kind, name):
        raise Busy(
            f"{kind} {name!r} is defined by {source}; remove it there, or put it here first, with take_over = true."
        )
    registry.apply(Wanted(tenant, source, {}, {}), actor=actor, seen=_seen_as(kind, name, expected))


def tag_of(registry: "SqlRegistry", kind: str, name: str, *, tenant: str) -> str:
    """Return a short text that changes with the definition: a caller that sends it back changes only what it has seen."""
    if kind == "agent":
        return agent_tag(find_agent(registry, name, tenant=tenant).hash)
    row = find_schedule(registry, name, tenant=tenant).row
    return _schedule_tag(row.version, row.hash)


def find_agent(registry: "SqlRegistry", name: str, *, tenant: str) -> AgentRow:
    """Return one agent; raise Unknown if there is none."""
    found = registry.agent(tenant, name)
    if found is None or found.retired_us is not None:
        raise Unknown(f"there is no agent {name!r}.")
    return found


def _config(kind: str, name: str, sent: SentDefinition, whose: tuple[str, Rights]) -> Config:
    parts = {"gates": sent.gates, "projects": sent.projects, "engines": sent.engines}
    table = {f"{kind}s": {name: _exact(sent.definition)}, **{key: _exact(one) for key, one in parts.items() if one}}
    owner = _owner(kind, name)
    return check(Document(owner, "", table, files=sent.files), owner, whose=whose, alone=True)


def _exact(value: Any) -> Any:  # noqa: ANN401  # whatever JSON holds
    """Return what JSON holds as a file would hold it: amounts as they were written, and nothing for null."""
    if isinstance(value, Mapping):
        return {str(name): _exact(one) for name, one in value.items() if one is not None}
    if isinstance(value, list | tuple):
        return [_exact(one) for one in value]
    return Decimal(repr(value)) if isinstance(value, float) else value


def _owner(kind: str, name: str) -> str:
    assert kind in KINDS, kind
    return f"http:{kind}/{name}"


def _source_of(registry: "SqlRegistry", kind: str, name: str, tenant: str) -> str:
    if kind == "agent":
        return find_agent(registry, name, tenant=tenant).source
    row = find_schedule(registry, name, tenant=tenant).row
    if row.retired_us is not None:
        raise Unknown(f"schedule {name!r} is retired already.")
    return row.source


def _seen_as(kind: str, name: str, expected: str | None) -> Callable[[KnownDefinitions], None] | None:
    """Return a check, inside of the transaction, that the definition is still the one that the caller saw."""
    if expected is None:
        return None

    def look(known: KnownDefinitions) -> None:
        found = known.agents.get(name) if kind == "agent" else known.schedules.get(name)
        now = ABSENT if found is None or found.retired else _tag(found)
        if now != expected:
            told = (
                "it is not there"
                if now == ABSENT
                else "it is there already"
                if expected == ABSENT
                else "it was changed"
            )
            raise Outdated(f"{kind} {name!r} is not what you have seen: {told}. Look at it again, then change it.")

    return look


def _tag(found: KnownAgent | KnownSchedule) -> str:
    return _schedule_tag(found.version, found.hash) if isinstance(found, KnownSchedule) else agent_tag(found.hash)


def _schedule_tag(version: int, digest: str) -> str:
    return f"{version}-{digest[:12]}"


def agent_tag(digest: str) -> str:
    """Return the tag of an agent's definition."""
    return digest[:16]


def check_sent(kind: str, definition: Mapping[str, Any], name: str) -> None:
    """Refuse a definition that names itself otherwise than its address does."""
    said = definition.get("name", name)
    if said != name:
        raise Invalid(f"the definition is named {said!r}, and the {kind}'s address {name!r}; leave the name out.")
