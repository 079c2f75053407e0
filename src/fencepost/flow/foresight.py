"""What the next ticks will come to if nothing is in their way, worked out before they are due.

Many schedules are due at the same instant: at midnight, on the hour. What a tick means (its definition, its occurrence,
its period, its rows) is known before, and only that it is due, and that nothing else is going on, has to be seen then.
What was worked out counts for exactly the row that it was worked out from; any other row is decided anew.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from fencepost.flow.tick_rows import Meaning, meaning_of
from fencepost.model.budget import BudgetPolicy
from fencepost.model.errors import FencepostError
from fencepost.model.instants import EPOCH, from_us, to_us
from fencepost.model.missed import INSTANT
from fencepost.model.new_run import NewRun, resources_of
from fencepost.model.overlap import OverlapRule
from fencepost.model.trigger import AtTrigger, CronTrigger
from fencepost.model.tzdata_shift import Noted
from fencepost.model.zone import Zone
from fencepost.ports.ticks import Around, DueSchedule, NewTick, TickPlan

AHEAD_US = 3_000_000  # how early
AGAIN_US = 1_000_000  # schedules come and change: how often to look for others
KEPT_MAX = 2_000
AT_ONCE = 50  # in one step: ticks that come due meanwhile wait for it
NO_RUN = ""  # in place of the id of a run that is not made yet
WALLS_KEPT = 256

Thorough = Callable[[DueSchedule, Around, Callable[[], str]], TickPlan]


class ForeseenTick(NamedTuple):
    """What a schedule's next tick comes to at any instant in [since_us, until_us)."""

    since_us: int
    until_us: int
    tick: NewTick
    run: NewRun
    due_us: int | None
    meaning: Meaning


class Foresight:
    """Keeps what was worked out until it is due: a bounded number, of the next few seconds."""

    def __init__(self, decide: Thorough) -> None:
        """`decide` is the thorough way, which is only gone earlier."""
        self._decide = decide
        self._waiting: list[DueSchedule] = []
        self._foreseen: dict[DueSchedule, ForeseenTick | None] = {}
        self._again_us = 0

    def wants(self, now_us: int, next_due_us: int | None) -> bool:
        """Tell whether there is something to look at before it is due."""
        soon = next_due_us is not None and next_due_us < now_us + AHEAD_US
        return bool(self._waiting) or (soon and now_us >= self._again_us)

    def look(self, now_us: int, coming: Callable[[int, int], Sequence[DueSchedule]]) -> None:
        """Work out some of what comes next; what has become known for the same row stays."""
        if not self._waiting:
            rows = coming(AHEAD_US, KEPT_MAX)
            self._foreseen = {due: self._foreseen[due] for due in rows if due in self._foreseen}
            self._waiting = [due for due in rows if due not in self._foreseen]
            self._again_us = now_us + AGAIN_US
        some, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
        self._foreseen.update((due, foresee(due, self._decide)) for due in some)

    def plan(self, due: DueSchedule, around: Around, new_run_id: Callable[[], str]) -> TickPlan | None:
        """Return what was foreseen, if that is what has come."""
        foreseen = self._foreseen.pop(due, None)
        if foreseen is None or not foreseen.since_us <= around.now_us < foreseen.until_us or _busy(due, around):
            return None
        return _filled(due, foreseen, around.now_us, new_run_id())


def foresee(due: DueSchedule, decide: Thorough) -> ForeseenTick | None:
    """Decide a schedule's next tick as if it were due right now; None if that is no simple matter."""
    try:
        meaning = meaning_of(due.definition, due.manifest)
        first_us = _first_us(due, meaning)
        if first_us is None:
            return None
        plan = decide(due, Around(first_us, {}, {}, {}), lambda: NO_RUN)
    except FencepostError:
        return None  # the ticker says what is wrong when it is due
    if len(plan.ticks) != 1 or len(plan.runs) != 1:
        return None
    late_us = first_us + to_us(EPOCH + meaning.policies.missed.grace) + 1  # exactly `grace` old is not yet late
    until_us = late_us if plan.due_us is None else min(late_us, plan.due_us)
    if isinstance(meaning.trigger, CronTrigger) and _jumps(meaning.trigger, first_us, until_us):
        return None
    return ForeseenTick(first_us, until_us, plan.ticks[0], plan.runs[0], plan.due_us, meaning)


def _first_us(due: DueSchedule, meaning: Meaning) -> int | None:
    """Return when the next tick is due, where its decision rests on nothing that can change until then."""
    limited = replace(meaning.policies.budget, per_run=None) != BudgetPolicy()
    if due.skip_next is not None or meaning.calendar is not None or limited or not meaning.schedule.enabled:
        return None
    if isinstance(meaning.trigger, AtTrigger):
        return to_us(meaning.trigger.occurrence.tick_at)
    if not isinstance(meaning.trigger, CronTrigger):
        return None
    first = meaning.trigger.next_after(from_us(due.cursor_us))
    return to_us(first.tick_at) if first else None


def _jumps(trigger: CronTrigger, since_us: int, until_us: int) -> bool:
    """Tell whether slots are skipped that would have to be recorded as well."""
    return any(trigger.skipped(from_us(since_us) + INSTANT, from_us(until_us) + INSTANT))


def _busy(due: DueSchedule, around: Around) -> Sequence[object]:
    return around.live.get(due.key) or around.pauses.get(due.key) or around.pauses.get((due.tenant, "")) or ()


def _filled(due: DueSchedule, foreseen: ForeseenTick, now_us: int, run_id: str) -> TickPlan:
    run, meaning = foreseen.run._replace(id=run_id), foreseen.meaning
    if meaning.policies.overlap.rule is OverlapRule.ALLOW_PARALLEL:  # then it leases nothing but itself
        run = run._replace(resources=resources_of(due.tenant, meaning.schedule, meaning.policies, run_id))
    zone = meaning.trigger.zone if isinstance(meaning.trigger, CronTrigger) else None
    return TickPlan(
        due,
        cursor_us=now_us,
        due_us=foreseen.due_us,
        skip_next=None,
        ticks=(foreseen.tick._replace(run_id=run_id),),
        runs=(run,),
        seen=seen_at(zone, now_us, foreseen.tick.tzdata) if zone else None,
    )


@lru_cache(maxsize=WALLS_KEPT)
def seen_at(zone: Zone, cursor_us: int, tzdata: str) -> str:
    """Note what the wall shows at a cursor, once for all schedules of a zone."""
    return str(Noted(cursor_us, tzdata, zone.local(from_us(cursor_us)).replace(tzinfo=None)))
