"""What may be looked at: runs and where they stand, dead letters, ticks, the audit, and how a run ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from fencepost.model.definition import schedule_from_json
from fencepost.model.errors import Invalid, Unknown
from fencepost.model.instants import FOREVER_US, parse_instant
from fencepost.model.lease import Held, Turn, unattended_since_us
from fencepost.model.nearest_name import nearest
from fencepost.model.run import Reason, RunState
from fencepost.model.zone import find_zone
from fencepost.operations.phrases import fate, kept_words, rfc3339, span
from fencepost.operations.preview import parse_moment
from fencepost.operations.project_commands import Command, commands
from fencepost.operations.queue_positions import QueuePosition, line_up
from fencepost.ports.read_rows import AuditRow, Replay, TickRow
from fencepost.ports.runs import AttemptRow, RunRow
from fencepost.stores.runtime import RuntimeStore

if TYPE_CHECKING:
    from fencepost.stores.reads import SqlReads

Store = RuntimeStore  # what a door holds open and hands to operations
LIVE_MAX = 10_000
LIKE_MAX = 5
LINKS_MAX = 20
UNSTARTABLE = (126, 127)  # the shell's codes: not executable, not found

EXIT_CODES: Mapping[str, int] = {
    Reason.TIMEOUT.value: 124,
    Reason.STALL_TIMEOUT.value: 124,
    Reason.LOST.value: 76,
    Reason.QUEUE_TIMEOUT.value: 75,
    Reason.FENCE_REFUSED.value: 77,
    Reason.IN_DOUBT.value: 77,
    Reason.DIVERGED.value: 77,
    Reason.FENCE_REGRESS.value: 78,
    Reason.MISCONFIGURED.value: 78,
}


@dataclass(frozen=True, slots=True)
class Unattended:
    """A run that goes on under its guard, although the worker that kept its lease is gone."""

    since_us: int
    ends_us: int

    def words(self, now_us: int) -> str:
        """Say since when, and until when a worker has time to adopt it."""
        ends = "ends" if self.ends_us > now_us else "ended"
        return f"unattended since {rfc3339(self.since_us)}, {ends} {rfc3339(self.ends_us)} unless adopted"


@dataclass(frozen=True, slots=True)
class SeenRun:
    """A run as people see it."""

    run: RunRow
    place: QueuePosition | None = None  # of a waiting run
    attempts: Sequence[AttemptRow] = ()
    replays: Sequence[Replay] = ()  # made of it, oldest first
    unattended: "Unattended | None" = None  # of a running run whose worker is gone

    @property
    def last_log(self) -> str:
        """What its last try printed at the end."""
        return next((one.last_log for one in reversed(self.attempts) if one.last_log), "")


@dataclass(frozen=True, slots=True)
class RunListing:
    """Runs, and the store's time when they were looked at."""

    now_us: int
    runs: list[SeenRun] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)  # of people, in projects and in line for them
    depths: Mapping[str, int] = field(default_factory=dict)  # how many wait in each project

    @property
    def inside(self) -> list[SeenRun | Command]:
        """What runs, and the commands that are in a project."""
        held = [one for one in self.commands if one.place is None]
        return [*(one for one in self.runs if one.run.state == RunState.RUNNING), *held]

    @property
    def waiting(self) -> list[SeenRun | Command]:
        """What waits, runs and commands in one order: that in which they will go."""
        line: list[SeenRun | Command] = [one for one in self.runs if one.run.state == RunState.READY]
        return sorted([*line, *(one for one in self.commands if one.place is not None)], key=_turn)


@dataclass(frozen=True, slots=True)
class Detail:
    """Everything about one run."""

    now_us: int
    seen: SeenRun
    held: Held | None


@dataclass(frozen=True, slots=True)
class Filter:
    """Which runs are wanted; what is empty does not matter."""

    schedule: str = ""
    agent: str = ""
    state: str = ""
    since_us: int = 0
    before: tuple[int, str] = (FOREVER_US, "")  # when and by which id the last one of an earlier page was made


def list_runs(store: Store, tenant: str, wanted: Filter, *, limit: int) -> RunListing:
    """Return runs, newest first."""
    look = store.reads(tenant)
    found = look.runs(
        state=wanted.state,
        schedule=wanted.schedule,
        agent=wanted.agent,
        since_us=wanted.since_us,
        before=wanted.before,
        limit=limit,
    )
    if not found:
        _check_names(look, wanted)
    listing, tries = _listing(store, look, tenant, found), look.attempts(run.id for run in found)
    return replace(listing, runs=[replace(seen, attempts=tries.get(seen.run.id, ())) for seen in listing.runs])


def list_live(store: Store, tenant: str, *, limit: int, waiting_only: bool = False) -> RunListing:
    """Return what runs and what waits, in the order in which it will be leased, and who else is in the projects."""
    look = store.reads(tenant)
    live = look.live(limit=LIVE_MAX)
    wanted = [run for run in live if not waiting_only or run.state == RunState.READY]
    held, waiters, workplaces, now_us = store.leases(), store.waiters(), store.workplaces(), look.clock_us()
    halted = bool(look.pauses_at("", now_us))
    lines = line_up(live, held, tenant=tenant, now_us=now_us, halted=halted, waiters=waiters, workplaces=workplaces)
    people = commands(
        held, waiters, tenant=tenant, runs=(run.id for run in live), workplaces=workplaces, places=lines.places
    )
    kept = {one.id: one for one in held if not one.lost}
    seen = [
        SeenRun(run, lines.places.get(run.id), unattended=_unattended(kept.get(run.lease_id or ""), now_us))
        for run in wanted[:limit]
    ]
    return RunListing(now_us, seen, people, lines.depths)


def _unattended(held: Held | None, now_us: int) -> Unattended | None:
    since_us = unattended_since_us(held, now_us) if held is not None else None
    if held is None or since_us is None:
        return None
    return Unattended(since_us, now_us + round(held.remaining_seconds * 1e6))


def dead_waiting(store: Store, tenant: str) -> int:
    """Count the dead letters that wait for a person."""
    return store.reads(tenant).health(late_us=0).dead


def list_dead(
    store: Store, tenant: str, *, schedule: str = "", before: tuple[int, str] = (FOREVER_US, ""), limit: int
) -> RunListing:
    """Return the dead letters that are still open, newest first, each with its last log lines."""
    look = store.reads(tenant)
    found = look.runs(state=RunState.DEAD.value, schedule=schedule, kept=True, before=before, limit=limit)
    if not found:
        _check_names(look, Filter(schedule=schedule))
    attempts = look.attempts(run.id for run in found)
    return RunListing(look.clock_us(), [SeenRun(run, attempts=attempts.get(run.id, ())) for run in found])


def list_ticks(
    store: Store,
    tenant: str,
    schedule: str,
    *,
    from_us: int = 0,
    until_us: int = FOREVER_US,
    disposition: str = "",
    before: tuple[int, str] = (FOREVER_US, ""),
    limit: int,
) -> list[TickRow]:
    """Return the recorded ticks of a schedule, newest first."""
    look = store.reads(tenant)
    if look.schedule(schedule) is None:
        raise unknown(look, schedule, kinds=("schedule",))
    return look.ticks(schedule, from_us=from_us, until_us=until_us, disposition=disposition, before=before, limit=limit)


def list_audit(
    store: Store, tenant: str, *, verb: str = "", subject: str = "", before_seq: int = FOREVER_US, limit: int
) -> list[AuditRow]:
    """Return audit rows, newest first."""
    return store.reads(tenant).audit(verb=verb, subject=subject, before_seq=before_seq, limit=limit)


def show(store: Store, tenant: str, text: str) -> Detail:
    """Return everything about the run that an id, or the unique beginning of one, means."""
    run = find_run(store, tenant, text)
    look = store.reads(tenant)
    listing = _listing(store, look, tenant, [run])
    attempts = look.attempts([run.id]).get(run.id, ())
    replays = look.replays([run], limit=LINKS_MAX).get(run.id, ())
    held = next((one for one in store.leases() if one.id == run.lease_id and not one.lost), None)
    unattended = _unattended(held, listing.now_us)
    return Detail(listing.now_us, SeenRun(run, listing.runs[0].place, attempts, replays, unattended), held)


def with_attempts(store: Store, run: RunRow) -> SeenRun:
    """Return a run that was just changed, with its attempts; its place in the line was not looked up."""
    if not run.attempt:
        return SeenRun(run)
    return SeenRun(run, attempts=store.reads(run.tenant).attempts([run.id]).get(run.id, ()))


def find_run(store: Store, tenant: str, text: str) -> RunRow:
    """Return the run that an id, or the unique beginning of one, means."""
    exact = store.run(text, tenant=tenant)
    if exact is not None:
        return exact
    found = store.reads(tenant).runs_like(text, limit=LIKE_MAX + 1) if text else []
    if len(found) == 1:
        return found[0]
    if not found:
        raise Unknown(f"there is no run {text!r}; {_pruned(store, tenant)}see: fencepost runs")
    more = ", …" if len(found) > LIKE_MAX else ""
    raise Invalid(f"several runs begin with {text!r}: {', '.join(run.id for run in found[:LIKE_MAX])}{more}")


def _pruned(store: Store, tenant: str) -> str:
    mark = store.watermark(tenant, "")
    return f"what ended before {rfc3339(mark.pruned_us)} was pruned ({kept_words(mark.kept_for_us)}); " if mark else ""


def moment(store: Store, tenant: str, schedule: str, text: str) -> datetime:
    """Read an instant, or a wall time of a schedule's zone."""
    facts = store.reads(tenant).schedule(schedule)
    zone = schedule_from_json(facts.definition).timezone if facts else ""
    return parse_moment(text, find_zone(zone)) if zone else parse_instant(text)


def unknown(look: "SqlReads", name: str, *, kinds: Sequence[str]) -> Invalid:
    """Return the error that says that there is no such name, and which one is near."""
    names = [one.name for one in look.names() if one.kind in kinds and not one.retired]
    near = nearest(name, names)
    hint = f"did you mean {near!r}?" if near else "see: fencepost schedule list"
    return Unknown(f"there is no {' or '.join(kinds)} {name!r}; {hint}")


def exit_code_of(run: RunRow) -> int:
    """Return the exit code with which `run --wait` tells how a run ended."""
    if run.state == RunState.SUCCEEDED:
        return 0
    if run.state == RunState.CANCELLED:
        return 1
    if run.reason == Reason.MISCONFIGURED and run.exit_code in UNSTARTABLE:
        return run.exit_code
    own = run.exit_code or 1  # it did not succeed, so a zero of the agent's cannot stand
    return EXIT_CODES.get(run.reason or "", own)


def ending_words(run: RunRow) -> str:
    """Say how a run ended, for the person who waited for it."""
    if run.state == RunState.SUCCEEDED:
        return f"succeeded after {span((run.ended_us or 0) - (run.started_us or run.created_us))}"
    return f"{run.state}: {fate(run.reason, run.exit_code)}"


def _check_names(look: "SqlReads", wanted: Filter) -> None:
    """Say so if nothing was found because no run ever had that name."""
    if wanted.schedule and look.schedule(wanted.schedule) is None:
        raise unknown(look, wanted.schedule, kinds=("schedule",))
    if wanted.agent and wanted.agent not in {one.name for one in look.names() if one.kind == "agent"}:
        raise unknown(look, wanted.agent, kinds=("agent",))


def _listing(store: Store, look: "SqlReads", tenant: str, runs: list[RunRow]) -> RunListing:
    """Add to each waiting run where it stands; what has ended needs no look at the queue."""
    now_us = look.clock_us()
    if not any(run.state == RunState.READY for run in runs):
        return RunListing(now_us, [SeenRun(run) for run in runs])
    lines = line_up(
        look.live(limit=LIVE_MAX),
        store.leases(),
        tenant=tenant,
        now_us=now_us,
        halted=bool(look.pauses_at("", now_us)),
        waiters=store.waiters(),
        workplaces=store.workplaces(),
    )
    return RunListing(now_us, [SeenRun(run, lines.places.get(run.id)) for run in runs])


def _turn(one: SeenRun | Command) -> Turn:
    return one.turn if isinstance(one, Command) else Turn(one.run.rank, one.run.place_us, one.run.id)
