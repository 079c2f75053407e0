"""Stretches of time in which only the usual can happen: each tick runs at once, and no other run is in its way.

Such ticks are counted instead of being carried out one by one; the store is left as it would be afterwards, with what is
still at work. What meets anything else (a full machine, a busy project, another run of its schedule, a budget, a blackout,
an outage) goes through the store.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from fencepost.flow.tick_rows import Meaning
from fencepost.flow.ticker import plan_of
from fencepost.model.budget import BudgetPolicy, MicroUsd
from fencepost.model.disposition import DispositionKind
from fencepost.model.instants import from_us, to_us
from fencepost.model.merged_triggers import MergedTrigger
from fencepost.model.missed import INSTANT
from fencepost.model.overlap import OverlapRule
from fencepost.model.run import RunState
from fencepost.model.trigger import CronTrigger, EndedRun, EveryTrigger
from fencepost.operations.simulation.lookahead import Plain, Quiet, look_ahead
from fencepost.operations.simulation.workers import Workers
from fencepost.operations.simulation.world import EVER_US, SimulatedRun, Stage, in_us
from fencepost.ports.ticks import Around, DueSchedule, TickPlan

BATCH = 500


class QuietTimes:
    """Counts the runs of a stretch of time in which every tick can go only one way."""

    def __init__(self, stage: Stage, workers: Workers) -> None:
        self._stage = stage
        self._workers = workers
        self._plain = {one.name: one for one in _plain_ones(stage)}
        self._room = {group: room for name in stage.meanings for group, room in stage.shared(name).items()}
        self._met_us = 0

    def skip(self, reached: Callable[[int], None]) -> bool:
        """Go to the end of the quiet stretch that begins now; return whether there was one.

        A stretch may be the whole span: `reached` hears on the way how far it has got.
        """
        stage = self._stage
        if stage.scenario.thorough or stage.live or stage.now_us < self._met_us:
            return False
        stage.settle_purses()
        looks = self._looks()
        limits = [stage.end_us, *(to_us(one.start) for one in stage.outages[:1])]
        limits += [at_us for name, at_us in looks.items() if name not in self._plain]
        if min(limits) <= stage.now_us + 1:
            return False
        quiet = look_ahead(
            [one.due(looks.get(one.name)) for one in self._plain.values()],
            self._room,
            since_us=stage.now_us,
            limit_us=min(limits),
            slots=stage.scenario.workers,
            reached=reached,
        )
        self._met_us = quiet.met_us
        if quiet.met_us - 1 <= stage.now_us:
            return False
        self._pass(quiet)
        return True

    def _looks(self) -> dict[str, int]:
        """Return when to look at each schedule next; empty if all of them can be counted."""
        stage = self._stage
        found: dict[str, int] = {}
        if len(self._plain) == len(stage.meanings) and not any(one.chained for one in self._plain.values()):
            return found
        for due in stage.store.coming(EVER_US, len(stage.meanings)):
            at = _next_look(stage.meanings[due.name], stage.brought_up(due))
            found[due.name] = stage.end_us if at is None else to_us(at)
        return found

    def _pass(self, quiet: Quiet) -> None:
        """Move the clock, bring the store to that moment, and count what has happened."""
        stage = self._stage
        stage.clock.move(quiet.met_us - 1)
        stage.ended_us.update(quiet.ended_us)
        began_us: dict[str, int] = {}

        def passed(due: Sequence[DueSchedule], around: Around) -> list[TickPlan]:
            return [self._passed(one, around, quiet, began_us) for one in due]

        while stage.store.tick(BATCH, passed):
            pass
        self._workers.take_up(began_us)
        for name, runs in quiet.runs.items():
            self._count(name, runs)
        for (name, why), skips in quiet.skips.items():
            stage.tallies[name].ticks[why.value] += skips
        for name, at_us in quiet.first_budget_us.items():
            tally = stage.tallies[name]
            tally.first_budget_at = tally.first_budget_at or from_us(at_us)

    def _passed(self, due: DueSchedule, around: Around, quiet: Quiet, began_us: dict[str, int]) -> TickPlan:
        """Move a schedule's cursor; a tick whose run is still at work is decided as if at its own time."""
        meaning, now = self._stage.meanings[due.name], from_us(around.now_us)
        chained = isinstance(meaning.trigger, EveryTrigger)
        then = self._stage.brought_up(due) if chained else due._replace(cursor_us=around.now_us)
        following = _next_look(meaning, then)
        following_us = to_us(following) if following else None
        if isinstance(meaning.trigger, CronTrigger | MergedTrigger):
            gaps = meaning.trigger.count_skipped(from_us(due.cursor_us) + INSTANT, now + INSTANT)
            self._stage.tallies[due.name].ticks[DispositionKind.DST_GAP.value] += gaps
        if due.name not in quiet.busy_us:
            return TickPlan(due, then.cursor_us, following_us, None, (), ())
        tick_us = quiet.busy_us[due.name]
        plan = self._at_work(then if chained else due._replace(cursor_us=tick_us - 1), tick_us, began_us)
        if chained:  # its end makes it due again
            return plan._replace(due=due, due_us=None)
        return plan._replace(due=due, cursor_us=around.now_us, due_us=following_us)

    def _at_work(self, then: DueSchedule, tick_us: int, began_us: dict[str, int]) -> TickPlan:
        """Decide a tick as if at its own time, and note that its run is at work."""
        plan = plan_of(then, Around(tick_us, {}, {}, {}), self._stage.new_id)
        (run,) = plan.runs
        (tick,) = (one for one in plan.ticks if one.run_id == run.id)
        tally = self._stage.tallies[then.name]
        tally.one_by_one += 1
        tally.note_tick(tick)
        self._stage.ended_us.pop(then.name, None)
        self._stage.live[run.id] = SimulatedRun(then.name, tick_us, run.ready_us)
        began_us[run.id] = run.ready_us
        return plan._replace(ticks=(tick,))

    def _count(self, name: str, runs: int) -> None:
        tally, expected = self._stage.tallies[name], self._stage.scenario.expects(name)
        tally.ticks[DispositionKind.RUN.value] += runs
        tally.ends[RunState.SUCCEEDED.value] += runs
        tally.attempts += runs
        tally.note_work(runs * in_us(expected.duration), MicroUsd(runs * self._stage.charge(name)))


def _plain_ones(stage: Stage) -> Iterator[Plain]:
    """Yield the schedules whose ticks need no run to be played: no time-out, not just once.

    What hangs on the end of its last run is played where there is a budget or a calendar, and so is what may start in a
    blackout that its tick is not in.
    """
    for name, meaning in stage.meanings.items():
        busy_us = in_us(stage.scenario.expects(name).duration)
        schedule = meaning.schedule
        chained = isinstance(meaning.trigger, EveryTrigger)
        limited = meaning.policies.budget != BudgetPolicy()
        if schedule.once or (limited and name not in stage.simulated_budgets):
            continue
        if meaning.calendar is not None and (chained or stage.held_back_us(name)):
            continue
        if busy_us < stage.timeout_us(name) and schedule.enabled:
            forbids = meaning.policies.overlap.rule is OverlapRule.FORBID
            busy_us += stage.held_back_us(name)
            yield Plain(
                name,
                meaning.trigger,
                busy_us,
                tuple(stage.shared(name)),
                forbids,
                calendar=meaning.calendar,
                simulated_budget=stage.simulated_budgets.get(name),
            )


def _next_look(meaning: Meaning, due: DueSchedule) -> datetime | None:
    trigger = meaning.trigger
    if not meaning.schedule.enabled:
        return None
    if not isinstance(trigger, EveryTrigger):
        return trigger.look_after(from_us(due.cursor_us))
    previous = EndedRun(due.last_run, from_us(due.last_ended_us)) if due.last_run and due.last_ended_us else None
    tick = trigger.due(previous, applied_at=from_us(due.applied_us))
    return tick.tick_at if tick else None
