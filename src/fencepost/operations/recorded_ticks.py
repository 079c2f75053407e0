"""A schedule's recorded ticks with what became of each, told from a handful of questions however many ticks there are."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fencepost.model.definition import schedule_from_json
from fencepost.model.disposition import DispositionKind
from fencepost.model.instants import FOREVER_US
from fencepost.model.zone import Zone, find_zone
from fencepost.operations.run_queries import Store, unknown
from fencepost.operations.tick_stories import Storyteller, behind_of
from fencepost.ports.read_rows import AuditRow, PauseFacts, ScheduleFacts, TickRow
from fencepost.ports.runs import RunRow

if TYPE_CHECKING:
    from fencepost.stores.reads import SqlReads

RUNS_MAX = 200  # looked through for what was in the way of the ticks of one page
PAUSES_MAX = 200


@dataclass(frozen=True, slots=True)
class ToldTick:
    """A tick, the run that was made for it, or the sentences that say why there is none."""

    tick: TickRow
    run: RunRow | None
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Timeline:
    """Ticks, newest first; `before` is where the next page begins."""

    now_us: int
    zone: Zone | None
    told: list[ToldTick] = field(default_factory=list)
    before: tuple[int, str] | None = None


def timeline(
    store: Store,
    tenant: str,
    schedule: str,
    *,
    disposition: str = "",
    before: tuple[int, str] = (FOREVER_US, ""),
    limit: int,
) -> Timeline:
    """Return one page of a schedule's ticks."""
    look = store.reads(tenant)
    facts = look.schedule(schedule)
    if facts is None:
        raise unknown(look, schedule, kinds=("schedule",))
    rows = look.ticks(schedule, disposition=disposition, before=before, limit=limit + 1)
    kept, more = rows[:limit], len(rows) > limit
    now_us = look.clock_us()
    told = tell_ticks(look, facts, kept, now_us)
    return Timeline(now_us, _zone(facts), told, (kept[-1].tick_us, kept[-1].occurrence) if more else None)


def tell_ticks(look: "SqlReads", facts: ScheduleFacts, kept: Sequence[TickRow], now_us: int) -> list[ToldTick]:
    """Tell what became of some ticks of one schedule, newest first."""
    definition = schedule_from_json(facts.definition)
    runs = look.named_runs(row.run_id for row in kept if row.run_id)
    definitions = {one.version: schedule_from_json(one.definition) for one in look.versions(facts.name)}
    teller = Storyteller(_Remembered(look, kept), _zone(facts), now_us)
    return [
        ToldTick(row, runs.get(row.run_id or ""), tuple(teller.tell(row, definitions.get(row.version, definition))))
        for row in kept
    ]


def _zone(facts: ScheduleFacts) -> Zone | None:
    timezone = schedule_from_json(facts.definition).timezone
    return find_zone(timezone) if timezone else None


class _Remembered:
    """Answers what a story needs from what was asked for the whole page at once."""

    def __init__(self, look: "SqlReads", kept: Sequence[TickRow]) -> None:
        self._look = look
        self._kept = kept
        self._alive: list[RunRow] | None = None
        self._named: dict[str, RunRow] | None = None
        self._pauses: list[PauseFacts] | None = None
        self._audit: dict[str, list[AuditRow]] = {}  # by verb

    def alive_at(self, schedule: str, at_us: int, *, limit: int) -> list[RunRow]:
        """Return the runs that had not ended at an instant; ask the store only beyond what was read before."""
        if self._alive is None:
            newest_us = max(one.decided_us for one in self._kept if one.disposition == DispositionKind.OVERLAP)
            self._alive = self._look.runs(schedule=schedule, before=(newest_us + 1, ""), limit=RUNS_MAX)
        if len(self._alive) == RUNS_MAX and self._alive[-1].created_us > at_us:
            return self._look.alive_at(schedule, at_us, limit=limit)
        found = [
            run for run in self._alive if run.created_us <= at_us and (run.ended_us is None or run.ended_us >= at_us)
        ]
        return found[::-1][:limit]

    def named_runs(self, run_ids: Iterable[str]) -> dict[str, RunRow]:
        """Return some of the runs that were in the way of ticks on this page."""
        if self._named is None:
            self._named = self._look.named_runs(one for row in self._kept for one in behind_of(row))
        return {one: self._named[one] for one in run_ids if one in self._named}

    def ticks(self, schedule: str, *, from_us: int, until_us: int, limit: int) -> list[TickRow]:
        """Return the recorded ticks of an instant."""
        here = [one for one in self._kept if one.tick_us < until_us and one.tick_until_us >= from_us]
        return here[:limit] or self._look.ticks(schedule, from_us=from_us, until_us=until_us, limit=limit)

    def following_tick(self, schedule: str, at_us: int) -> TickRow | None:
        """Return the first recorded tick after an instant."""
        newer = [one for one in self._kept if one.tick_us > at_us]
        return newer[-1] if newer else self._look.following_tick(schedule, at_us)

    def pauses_at(self, schedule: str, at_us: int) -> list[PauseFacts]:
        """Return the pauses that cover an instant."""
        if self._pauses is None:
            self._pauses = self._look.pauses_ever(schedule, limit=PAUSES_MAX)
        if len(self._pauses) == PAUSES_MAX:
            return self._look.pauses_at(schedule, at_us)
        return [one for one in self._pauses if one.since_us <= at_us < one.until_us]

    def audit(self, *, verb: str, subject: str, until_us: int = FOREVER_US, limit: int) -> list[AuditRow]:
        """Return what was asked or decided last before an instant."""
        if verb not in self._audit:
            self._audit[verb] = self._look.audit(verb=verb, subject=subject, limit=PAUSES_MAX)
        return [one for one in self._audit[verb] if one.at_us <= until_us][:limit]
