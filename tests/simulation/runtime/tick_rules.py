"""What may be recorded about ticks: each decision, judged when it is committed."""

from fencepost.model.duration import parse_duration
from tests.simulation.clocks import Moment
from tests.simulation.runtime.blackouts import is_blacked_out
from tests.simulation.runtime.snapshot import PauseSeen, RunSeen, Snapshot, TickSeen
from tests.simulation.world import World


class TickRules:
    """Judges what a commit did to ticks and cursors."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._occurrences: dict[tuple[str, str], str] = {}
        self._instants: dict[tuple[str, int], str] = {}

    def went_back(self, now: Snapshot) -> None:
        """Forget the runs that the store has forgotten."""
        self._occurrences = {key: run_id for key, run_id in self._occurrences.items() if run_id in now.runs}
        self._instants = {key: run_id for key, run_id in self._instants.items() if run_id in now.runs}

    def check(self, before: Snapshot, after: Snapshot, now: Moment, *, applies: bool) -> None:
        """Look at every tick that was added, and at the runs that came of it."""
        if after.runs is before.runs and after.ticks is before.ticks and after.schedules is before.schedules:
            return
        for key, old in before.ticks.items():
            if key in after.ticks and after.ticks[key] != old:  # one that is gone is the pruner's business
                self._world.fail("a tick has one disposition", f"{key} was {old} and is {after.ticks.get(key)}")
        added = [tick for key, tick in after.ticks.items() if key not in before.ticks]
        made = [run for run_id, run in after.runs.items() if run_id not in before.runs]
        for run in made:
            self._once(run, after)
        if added and after.audits == before.audits:
            self._world.fail("audit", f"{len(added)} ticks were decided and nothing says who did")
        for tick in sorted(added):
            self._world.totals[f"ticks: {tick.disposition}"] += tick.number
            self._decided(tick, before, after, now)
        self._let_in([run for run in made if run.tick_born], before, after)
        for name, schedule in after.schedules.items():
            old_row = before.schedules.get(name)
            if old_row and not applies and schedule.cursor_us < old_row.cursor_us:
                self._world.fail("the cursor goes on", f"{name} went back to {schedule.cursor_us}")

    def _once(self, run: RunSeen, after: Snapshot) -> None:
        """One run for an occurrence, ever, and for an instant, whatever versions and zones there were."""
        if not run.tick_born:
            return
        assert run.schedule is not None
        assert run.occurrence is not None
        tick = after.ticks.get((run.schedule, run.occurrence))
        if tick is None or tick.run_id != run.id:
            self._world.fail("tick and run", f"{run.id} stands for {run.occurrence}, which says {tick}")
        first = self._occurrences.setdefault((run.schedule, run.occurrence), run.id)
        if first != run.id:
            self._world.fail("one run per tick", f"{run.occurrence} of {run.schedule} made {first} and {run.id}")
        if run.trigger == "every" or run.tick_us is None:
            return
        first = self._instants.setdefault((run.schedule, run.tick_us), run.id)
        if first != run.id:
            self._world.fail("one run per tick", f"{run.schedule} made {first} and {run.id} for one instant")

    def _decided(self, tick: TickSeen, before: Snapshot, after: Snapshot, now: Moment) -> None:
        schedule = after.schedules[tick.schedule].definition
        grace_us = int(parse_duration(schedule.grace) * 1e6)
        late_us = now.wall_us - tick.tick_until_us
        if tick.tick_us > now.wall_us:
            self._world.fail("not before its time", f"{tick.occurrence} of {tick.schedule} was decided too early")
        if tick.version != after.schedules[tick.schedule].version:
            self._world.fail("the version in force decides", f"{tick.occurrence} was decided by {tick.version}")
        judge = getattr(self, f"_{tick.disposition}", None)
        wrong = judge(tick, before, after, late_us > grace_us) if judge else None
        if wrong:
            self._world.fail("right disposition", f"{tick.occurrence} of {tick.schedule} {wrong}")

    def _run(self, tick: TickSeen, _: Snapshot, after: Snapshot, late: bool) -> str | None:  # noqa: FBT001
        schedule = after.schedules[tick.schedule].definition
        if tick.run_id not in after.runs:
            return "says that it ran, and there is no run"
        if schedule.every:
            return None
        if any(one.covers(tick.tick_us) for one in _pauses(tick, after)):
            return "ran during a pause"
        if is_blacked_out(schedule, tick.tick_us):
            return "ran during a blackout"
        return "ran too late" if schedule.missed == "skip" and late else None

    def _missed(self, _tick: TickSeen, _: Snapshot, __: Snapshot, late: bool) -> str | None:  # noqa: FBT001
        return None if late else "was on time, and is said to be missed"

    def _overlap(self, tick: TickSeen, before: Snapshot, after: Snapshot, _: bool) -> str | None:  # noqa: FBT001
        alone = not before.live_of(tick.schedule) and not after.live_of(tick.schedule)
        return "was skipped, and nobody was in its way" if alone else None

    def _budget(self, tick: TickSeen, _: Snapshot, after: Snapshot, __: bool) -> str | None:  # noqa: FBT001
        schedule = after.schedules[tick.schedule].definition
        free = schedule.max_runs_per_hour is None and not schedule.budget_usd_per_day
        return "was skipped for money, and there is no budget" if free else None

    def _coalesced(self, tick: TickSeen, _: Snapshot, after: Snapshot, __: bool) -> str | None:  # noqa: FBT001
        targets = {(one.schedule, one.tick_us) for one in after.ticks.values() if one.disposition == "run"}
        return None if (tick.schedule, tick.into_us) in targets else "was joined to nothing"

    def _paused(self, tick: TickSeen, before: Snapshot, after: Snapshot, _: bool) -> str | None:  # noqa: FBT001
        ends = (tick.tick_us, tick.tick_until_us)
        held = all(any(one.covers(at) for one in _pauses(tick, after)) for at in ends)
        return None if held or before.schedules[tick.schedule].skip_next else "was held back, and nothing is paused"

    def _calendar(self, tick: TickSeen, _: Snapshot, after: Snapshot, __: bool) -> str | None:  # noqa: FBT001
        schedule = after.schedules[tick.schedule].definition
        held = all(is_blacked_out(schedule, at) for at in (tick.tick_us, tick.tick_until_us))
        return None if held else "was held back, and nothing is blacked out"

    def _let_in(self, made: list[RunSeen], before: Snapshot, after: Snapshot) -> None:
        """Under each rule, so many may be there at once; what lines up waits its turn."""
        for name in sorted({run.schedule for run in made if run.schedule and not run.lines_up}):
            rule = after.schedules[name].definition
            joined = {run.id for run in made if run.lines_up}
            live = [run for run in after.live_of(name) if run.id not in joined]
            waiting = [run for run in live if run.state == "ready" and run.started_us is None]
            old = [run for run in live if run.id in before.runs]
            verdicts = {
                "forbid": len(live) == 1,
                "queue": len(waiting) <= (rule.queue_max or 1),
                "allow_parallel": len(live) <= (rule.parallel_max or 4),
                "cancel_previous": all(run.stop or not _superseded(run) for run in old),
            }
            if not verdicts[rule.overlap]:
                self._world.fail("overlap", f"{name} is {rule.overlap} and has {[(r.id, r.state) for r in live]}")


def _superseded(run: RunSeen) -> bool:
    """Whether a newer tick ends this one: what runs, and what waits and was born of a tick."""
    return run.state == "running" or run.tick_born


def _pauses(tick: TickSeen, after: Snapshot) -> list[PauseSeen]:
    return [one for one in after.pauses.values() if one.schedule in ("", tick.schedule)]
