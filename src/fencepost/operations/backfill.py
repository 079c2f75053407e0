"""Runs for a range of ticks that are over: bounded, in order, each once under the backfill's name."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from fencepost.model.budget import Counted
from fencepost.model.definition import ScheduleDefinition, schedule_from_json, trigger_of
from fencepost.model.duration import parse_duration
from fencepost.model.errors import Invalid
from fencepost.model.instants import format_instant, from_us, to_us
from fencepost.model.merged_triggers import MergedTrigger
from fencepost.model.new_run import NewRun, RunRecipe, RunTarget, Stretch, make_run, own_key
from fencepost.model.occurrence import Occurrence
from fencepost.model.overlap import LINE_MAX
from fencepost.model.request_key import backfill_key
from fencepost.model.run import TriggerKind
from fencepost.model.trigger import AtTrigger, CronTrigger, EveryTrigger
from fencepost.operations.run_requests import afford
from fencepost.ports.requests import Ask, Grounds, VersionFact

if TYPE_CHECKING:
    from fencepost.stores.requests import SqlRequests

BACKFILL_MAX = 1000


class Backfilled(NamedTuple):
    """What a backfill has made: the new runs, oldest tick first, and how many it had made before."""

    name: str
    ticks: int
    known: int
    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What a backfill would come to: how many ticks, and the first and the last of them."""

    ticks: int
    first: datetime | None = None
    last: datetime | None = None


class _Looked(Exception):
    """Everything was seen that there is to see, and nothing shall be written."""


def foresee_backfill(
    store: "SqlRequests",
    *,
    tenant: str,
    schedule: str,
    from_: datetime,
    until: datetime,
    current: bool = False,
    again: bool = False,
    new_run_id: Callable[[], str],
    by: str,
) -> Foreseen:
    """Say what a backfill would make, or raise what it would raise; nothing is written."""
    _check(from_, until, BACKFILL_MAX)
    order = _Order(tenant, "", from_, until, current, BACKFILL_MAX, None, again)
    seen: list[NewRun] = []

    def decide(grounds: Grounds) -> list[NewRun]:
        seen[:] = order.runs(grounds, new_run_id)
        raise _Looked

    with suppress(_Looked):  # it undoes the transaction, which is the point
        store.ask_many(Ask(tenant, schedule, by), decide, line_max=LINE_MAX)
    ticks = [from_us(run.tick_us) for run in seen if run.tick_us is not None]
    return Foreseen(len(ticks), ticks[0], ticks[-1]) if ticks else Foreseen(0)


def backfill(
    store: "SqlRequests",
    *,
    tenant: str,
    schedule: str,
    from_: datetime,
    until: datetime,
    current: bool = False,
    name: str | None = None,
    limit: int = BACKFILL_MAX,
    stagger: timedelta | None = None,
    again: bool = False,
    new_run_id: Callable[[], str],
    by: str,
) -> Backfilled:
    """Make a run for every tick in [from_, until), with the version in force then, or with `current` today's.

    Asking again with the same name adds only what is missing; without a name, the range itself is the name. Where
    records were pruned it is not known what is missing, so such a range is refused unless `again` is said.
    """
    _check(from_, until, limit)
    title = name or f"{format_instant(from_)}..{format_instant(until)}{' current' if current else ''}"
    order = _Order(tenant, title, from_, until, current, limit, stagger, again)
    wanted: list[NewRun] = []

    def decide(grounds: Grounds) -> list[NewRun]:
        wanted[:] = order.runs(grounds, new_run_id)
        return wanted

    made = store.ask_many(Ask(tenant, schedule, by), decide, line_max=LINE_MAX)
    return Backfilled(title, len(wanted), len(wanted) - len(made), tuple(made))


def _check(from_: datetime, until: datetime, limit: int) -> None:
    if until <= from_:
        raise Invalid(f"--until {format_instant(until)} is not after --from {format_instant(from_)}; swap them.")
    if not 1 <= limit <= BACKFILL_MAX:
        raise Invalid(f"a backfill makes 1 to {BACKFILL_MAX} runs at once, not {limit}.")


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the range, and by whose rules it is run."""

    recipe: RunRecipe
    schedule: ScheduleDefinition
    trigger: CronTrigger | AtTrigger | MergedTrigger
    start: datetime
    end: datetime

    def count(self) -> int:
        return self.trigger.count_between(self.start, self.end) if self.start < self.end else 0

    def occurrences(self) -> Iterator[Occurrence]:
        if self.start < self.end:
            yield from (one for one in self.trigger.occurrences(self.start, self.end) if not one.missing)


@dataclass(frozen=True, slots=True)
class _Order:
    """What was asked for."""

    tenant: str
    title: str
    from_: datetime
    until: datetime
    current: bool
    limit: int
    stagger: timedelta | None
    again: bool

    def runs(self, grounds: Grounds, new_run_id: Callable[[], str]) -> list[NewRun]:
        """Spell the runs, each starting a little after the one before it."""
        self._check_kept(grounds)
        parts = list(self._parts(grounds))
        total = sum(part.count() for part in parts)
        if total > self.limit:
            raise Invalid(
                f"{grounds.target.schedule} has {total:,} ticks from {format_instant(self.from_)} to "
                f"{format_instant(self.until)}, more than {self.limit:,}; ask for a shorter range."
            )
        made: list[NewRun] = []
        ids = sorted(new_run_id() for _ in range(total))  # without a stagger they go in the order of their ids
        for part in parts:
            gap = timedelta(seconds=parse_duration(part.schedule.stagger)) if self.stagger is None else self.stagger
            for occurrence in part.occurrences():
                ready = from_us(grounds.now_us) + gap * len(made)
                run_id = ids[len(made)]
                made.append(self._run(part, _after(grounds, part, made), occurrence, ready=ready, run_id=run_id))
        return made

    def _check_kept(self, grounds: Grounds) -> None:
        if self.again or grounds.pruned_us is None or to_us(self.from_) > grounds.pruned_us:
            return
        until = format_instant(from_us(grounds.pruned_us))
        raise Invalid(
            f"records of {grounds.target.schedule} up to {until} were pruned, so it is not known any more which of these "
            "ticks were done; begin the range after that, or say --again to run them all."
        )

    def _run(self, part: _Part, grounds: Grounds, occurrence: Occurrence, *, ready: datetime, run_id: str) -> NewRun:
        start, end = part.trigger.period(occurrence.tick_at)
        run = make_run(
            part.recipe,
            run_id=run_id,
            tenant=self.tenant,
            trigger=TriggerKind.BACKFILL,
            ready_us=to_us(ready),
            idempotency_key=own_key(self.tenant, "backfill", self.title, part.schedule.name, occurrence.key),
            reservation=afford(part.recipe, grounds, counted_at=ready),
            stretch=Stretch(to_us(occurrence.tick_at), occurrence.key, to_us(start), to_us(end)),
            request_key=backfill_key(self.title, occurrence.key),
        )
        return run._replace(lines_up=True)

    def _parts(self, grounds: Grounds) -> Iterator[_Part]:
        """Yield who decided which part of the range, oldest first; what lies beyond the cursor is yet to be decided."""
        target = grounds.target
        if target.schedule is None:
            raise Invalid(f"{target.agent!r} is an agent and has no ticks; name a schedule.")
        until = min(self.until, from_us(target.cursor_us + 1))
        if self.current:
            yield _part(target, self.from_, until)
            return
        for version in grounds.versions:
            schedule = schedule_from_json(version.definition)
            if schedule.enabled:
                ends = until if version.until_us is None else min(until, from_us(version.until_us + 1))
                yield _part(_as_then(target, version), max(self.from_, from_us(version.after_us + 1)), ends)


def _after(grounds: Grounds, part: _Part, made: Sequence[NewRun]) -> Grounds:
    """Add what the runs before have set aside, where anything is limited."""
    budget = part.recipe.policies.budget
    if budget.per_day is None and budget.per_month is None and budget.max_runs_per_hour is None:
        return grounds
    spent = (Counted(run.counted_us, run.reserved_micro) for run in made)
    return grounds._replace(spending=(*grounds.spending, *spent))


def _as_then(target: RunTarget, version: VersionFact) -> RunTarget:
    return target._replace(
        agent=schedule_from_json(version.definition).agent,
        manifest=version.manifest,
        manifest_hash=version.manifest_hash,
        version=version.version,
        definition=version.definition,
    )


def _part(target: RunTarget, start: datetime, end: datetime) -> _Part:
    recipe = RunRecipe.of(target)
    assert recipe.schedule is not None, "the target is a schedule"
    trigger = trigger_of(recipe.schedule)
    if isinstance(trigger, EveryTrigger):
        raise Invalid(
            f"{target.schedule} waits for the end of its last run: its ticks are not known beforehand, so none can "
            "be backfilled."
        )
    return _Part(recipe, recipe.schedule, trigger, start, end)
