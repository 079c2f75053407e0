"""What may become of records: pruned ones are counted, sealed ones have no gap, and whoever wants to be told is told."""

from typing import TYPE_CHECKING

from fencepost.model.notice import settled_events
from tests.simulation.clocks import Moment
from tests.simulation.runtime.snapshot import LeaseSeen, RunSeen, Snapshot
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.runtime.fleet import Plot
    from tests.simulation.runtime.place import Seen

PROJECT = "project:"


class RecordRules:
    """Judges what a commit did beside ticks and runs."""

    def __init__(self, world: World, plot: "Plot") -> None:
        self._world = world
        self._plot = plot
        self._latest_us = 0  # what the clock has shown at most: who prunes may have looked before it was set back

    def check(self, before: Snapshot, after: Snapshot, seen: "Seen", now: Moment) -> None:
        """Look at everything that was let go, closed, told or shared out."""
        self._latest_us = max(self._latest_us, now.wall_us)
        if before.runs is not after.runs or before.ticks is not after.ticks:
            self._pruned(before, after, seen)
        if before.seals is not after.seals:
            self._sealed(before, after)
        if before.runs is not after.runs:
            self._told(before, after)
        if before.leases is not after.leases:
            for lease in after.leases.values():
                if lease.id not in before.leases:
                    self._shared(lease, after, now)

    def _pruned(self, before: Snapshot, after: Snapshot, seen: "Seen") -> None:
        runs = [before.runs[run_id] for run_id in before.runs.keys() - after.runs.keys()]
        ticks = [before.ticks[key] for key in before.ticks.keys() - after.ticks.keys()]
        if not runs and not ticks:
            return
        horizon_us = self._latest_us - self._plot.retention_seconds * 1e6
        if not seen.verb.startswith("prune"):
            self._world.fail("kept", f"{seen.verb} let go of {[run.id for run in runs]} {ticks}")
        for run in runs:
            if run.live or (run.ended_us or 0) > horizon_us:
                self._world.fail("kept", f"{run.id} was pruned, which is {run.state} and not old")
            if run.state == "dead" and run.discarded_us is None:
                self._world.fail("kept", f"{run.id} was pruned, and nobody has looked at it")
        for tick in ticks:
            if tick.tick_until_us > after.watermarks.get(tick.schedule, -1) or tick.tick_us > horizon_us:
                self._world.fail("kept", f"{tick} was pruned beyond the watermark")
            if tick.run_id in after.runs:
                self._world.fail("kept", f"{tick} was pruned, and its run is still there")
        self._counted(before, after, len(runs), sum(tick.number for tick in ticks))

    def _counted(self, before: Snapshot, after: Snapshot, runs: int, ticks: int) -> None:
        for kind, number in (("run", runs), ("tick", ticks)):
            grown = sum(after.tallies[one] - before.tallies.get(one, 0) for one in after.tallies if one[1] == kind)
            if grown != number:
                self._world.fail("pruned is counted", f"{number} {kind}s are gone, and {grown} were counted")

    def _sealed(self, before: Snapshot, after: Snapshot) -> None:
        if after.seals[: len(before.seals)] != before.seals:
            self._world.fail("a seal is a seal", f"{before.seals} became {after.seals}")
        place = 0
        for number, seal in enumerate(after.seals, 1):
            if (seal.number, seal.first_place) != (number, place + 1) or seal.last_place <= place:
                self._world.fail("no gap in the chain", f"{seal} follows {place}")
            place = seal.last_place
        self._world.totals["seals"] += len(after.seals) - len(before.seals)

    def _told(self, before: Snapshot, after: Snapshot) -> None:
        """Whoever wants to hear of an end is told of it in the very commit."""
        for run_id, new in after.runs.items():
            old = before.runs.get(run_id)
            if old is None or old.state == new.state or new.live:
                continue
            wanted = set(settled_events(new.state, new.reason)) & before.wishes
            told = any(notice.subject == f"run:{run_id}" for notice in after.notices.values())
            if wanted and not told and old.state == "running":
                self._world.fail("told", f"{run_id} is {new.state} ({new.reason}) and nobody is told")

    def _shared(self, lease: LeaseSeen, after: Snapshot, now: Moment) -> None:
        """Of a concurrency key and of a project, no more are held than there are."""
        held = [one for one in after.leases.values() if one.state == "held" and not one.over(now)]
        run = after.runs.get(lease.run_id)
        for key, limit in run.pools if run else []:
            number = sum(_in_pool(name, key) for one in held for name in one.names)
            if number > limit:
                self._world.fail("as many as there are slots", f"{number} hold {key}, of {limit}")
            self._world.totals["grants of a key with slots"] += limit > 1
        for name in lease.names:
            if name.startswith(PROJECT):
                project = name.partition("#")[0]
                number = sum(other.partition("#")[0] == project for one in held for other in one.names)
                if number > self._plot.project_slots:
                    self._world.fail("as many as there are slots", f"{number} are in {project}")
                self._world.totals["grants of a project"] += 1


def _in_pool(name: str, key: str) -> bool:
    return name == key or (name.startswith(f"{key}/") and not name.endswith("/0"))


def first_in_line(run: RunSeen, before: Snapshot, now: Moment) -> RunSeen | None:
    """Return a run that should have gone into a project before this one: it came first, and nothing held it up."""
    held = {name for one in before.leases.values() if one.state == "held" and not one.over(now) for name in one.names}
    for other in sorted(before.runs.values(), key=lambda one: (one.rank, one.place_us, one.id)):
        if other.id == run.id:
            return None
        waits = other.state == "ready" and other.project == run.project and other.id in before.runs
        due = other.ready_us <= now.wall_us and other.place_us <= now.wall_us
        if waits and due and not held.intersection(other.names) and _has_room(other, before, now, held):
            return other
    return None


def _has_room(run: RunSeen, before: Snapshot, now: Moment, held: set[str]) -> bool:
    if any(sum(_in_pool(name, key) for name in held) >= limit for key, limit in run.pools):
        return False
    if run.schedule is None:
        return True
    running = [one for one in before.live_of(run.schedule) if one.state == "running"]
    leases = [before.leases.get(one.lease_id or "") for one in running]
    return sum(one is not None and one.state == "held" and not one.over(now) for one in leases) < run.lease_max
