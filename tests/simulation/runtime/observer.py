"""The promises, checked after every commit by what changed in the store and by what really happened."""

import json
from collections.abc import Collection
from typing import TYPE_CHECKING

from fencepost.model.lease import Claim, Granted, Lease
from fencepost.ports.runs import LeasedRun
from tests.simulation.checker import Checker
from tests.simulation.clocks import Moment
from tests.simulation.hosts import Host
from tests.simulation.ports import Agent
from tests.simulation.runtime.chores import Archive
from tests.simulation.runtime.effects import Outside
from tests.simulation.runtime.fleet import Plot
from tests.simulation.runtime.record_rules import RecordRules
from tests.simulation.runtime.run_rules import RunRules
from tests.simulation.runtime.snapshot import LeaseSeen, Snapshot
from tests.simulation.runtime.tick_rules import TickRules
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.runtime.place import Place, Seen

SILENT_TTLS = 1.9


class Observer:
    """Compares the store before and after each commit, and what players were told with what it holds."""

    def __init__(self, world: World, place: "Place", checker: Checker, hosts: list[Host], plot: Plot) -> None:
        self.now = Snapshot()
        self._world = world
        self._place = place
        self._checker = checker
        self._hosts = hosts
        self._newest: dict[str, int] = {}
        self._renewed_ns: dict[str, int] = {}
        self._spawned: dict[str, list[Agent]] = {}
        self._handed: dict[tuple[str, int], str | None] = {}  # the checkpoint as it was at each lease
        self.acked: dict[str, str] = {}  # run -> what became of it when it was last looked at
        self._by_key: dict[str, str] = {}
        self.pruned: set[str] = set()
        self._gone: set[str] = set()  # runs that were lost with a tail
        self.outside = Outside(world)
        self.archive = Archive()
        self._forgotten = 0  # fences up to this one may be unknown to the store
        self._ticks = TickRules(world)
        self._runs = RunRules(world, self)
        self._records = RecordRules(world, plot)

    def committed(self, seen: "Seen") -> None:
        """Look at what a transaction has done, before anybody else gets a turn."""
        before = self.now
        self.now = before.next(self._place.engine.rows, seen.tables)
        now = self._place.now(seen.process.host)
        if self.now.leases is not before.leases:
            for lease_id in before.leases.keys() | self.now.leases.keys():
                self._lease(before.leases.get(lease_id), self.now.leases.get(lease_id), before, seen, now)
        self._ticks.check(before, self.now, now, applies=seen.verb == "apply")
        self._runs.check(before, self.now, seen, now)
        self._records.check(before, self.now, seen, now)
        self.outside.check(before, self.now, seen)
        if self.now.runs is not before.runs:
            self._hand_over(before)

    def refused(self, verb: str) -> None:
        """A transaction ended in a refusal: nothing of it is there."""
        changed = Snapshot().next(self._place.engine.rows).differs_from(self.now)
        if changed:
            self._fail("a refusal changes nothing", f"{verb} was refused and changed {changed}")
        self._world.totals["refusals"] += 1

    def _hand_over(self, before: Snapshot) -> None:
        for run in self.now.runs.values():
            if run.state == "running" and run.fence and (run.id, run.fence) not in self._handed:
                kept = before.checkpoints.get(run.id)
                self._handed[run.id, run.fence] = kept[1] if kept else None

    def went_back(self) -> None:
        """The store lost its tail: what was in it is forgotten, and so is what was said about it; fences are not."""
        self._place.store(self._hosts[0])
        before, self.now = self.now, Snapshot().next(self._place.engine.rows)
        self._gone.update(before.runs.keys() - self.now.runs.keys())
        self._forgotten = max(self._newest.values(), default=0)
        self.acked = {run_id: said for run_id, said in self.acked.items() if run_id in self.now.runs}
        self._by_key = {key: run_id for key, run_id in self._by_key.items() if run_id in self.now.runs}
        self._spawned.clear()
        for run in self.now.runs.values():
            kept = self.now.checkpoints.get(run.id)
            self._handed[run.id, run.fence or 0] = kept[1] if kept else None
        self._ticks.went_back(self.now)
        self._checker.went_back(known=set(self.now.leases))
        self.outside.went_back()
        self.archive.went_back(self.now.seals[-1].number if self.now.seals else 0)

    def let_go(self, gone: Collection[str]) -> None:
        """Runs were pruned, which others judge; a key is known for as long as its run."""
        self.pruned.update(gone)
        if gone:
            self.acked = {run_id: said for run_id, said in self.acked.items() if run_id not in gone}
            self._by_key = {key: run_id for key, run_id in self._by_key.items() if run_id not in gone}

    def _is_of_old(self, fence: int) -> bool:
        """Whether a grant may have been lost with the tail."""
        return fence <= self._forgotten

    def alive(self, lease: LeaseSeen) -> bool:
        """Whether the process that holds a lease is really there."""
        for host in self._hosts:
            process = host.processes.get(lease.pid)
            if process is not None and lease.held_by(process.id):
                return True
        return False

    def may_be_taken(self, lease: LeaseSeen, now: Moment) -> bool:
        """Whether anybody but its holder may end a lease: it has run out, its holder is dead, or has long been silent."""
        silent_ns = self._world.now_ns - self._renewed_ns.get(lease.id, 0)
        return (
            lease.state == "lost"
            or lease.over(now)
            or not self.alive(lease)
            or silent_ns > SILENT_TTLS * lease.ttl_ms * 1e6
        )

    def _lease(self, old: LeaseSeen | None, new: LeaseSeen | None, before: Snapshot, seen: "Seen", now: Moment) -> None:
        if old == new:
            return
        if old is None:
            assert new is not None
            self._granted(new, before, seen, now)
        elif new is None:
            if old.state == "held" and not old.held_by(seen.process.id):
                self._fail("a loser changes nothing", f"{seen.process.name} gave {old.id} back, which is another's")
        elif new.state == "lost" and old.state == "held":
            self._world.totals["leases lost"] += 1
            if not old.over(now):
                self._checker.robbed(old.fence)
            if not self.may_be_taken(old, now) and not old.held_by(seen.process.id):
                self._fail(
                    "only the dead are robbed", f"{seen.process.name} took {old.id} from a living holder in time"
                )
        elif new.renewals != old.renewals:
            self._renewed_ns[new.id] = self._world.now_ns
            if not old.held_by(seen.process.id) or old.state != "held" or old.fence != new.fence:
                self._fail(
                    "a loser changes nothing", f"{seen.process.name} renewed {old.id}, which is another's or lost"
                )

    def _granted(self, new: LeaseSeen, before: Snapshot, seen: "Seen", now: Moment) -> None:
        """Fences rise for ever, and leases on one thing do not overlap."""
        self._renewed_ns[new.id] = self._world.now_ns
        self._world.totals["grants"] += 1
        for name in new.names:
            if new.fence <= self._newest.get(name, 0):
                self._fail("fences rise", f"{name} got {new.fence} after {self._newest[name]}")
            self._newest[name] = new.fence
        for old in before.leases.values():
            handed_on = old.held_by(seen.process.id) and old.id not in self.now.leases  # in one turn of a lane
            if old.state == "held" and not handed_on and not set(old.names).isdisjoint(new.names):
                self._world.totals["takeovers"] += 1
                if not self.may_be_taken(old, now):
                    self._fail("leases do not overlap", f"{new.id} was granted {new.names} while {old.id} had it")
        self._tell_checker(new, seen)

    def _tell_checker(self, new: LeaseSeen, seen: "Seen") -> None:
        resources = tuple(new.names)
        gates = sorted({gate for name in resources for gate in self._gates(name)})
        ttl = new.ttl_ms / 1000
        claim = Claim(new.id, "tenant", resources, new.run_id, ttl, seen.process.id, gates=tuple(gates))
        lease = Lease(new.id, "tenant", resources, new.fence, new.run_id, "simulated", ttl, tuple(gates))
        self._checker.supervisors[new.run_id] = seen.process
        self._checker.granted(claim, Granted(lease, ()), dead=(), ticket=None)

    def started(self, agent: Agent, found: LeasedRun) -> None:
        """An agent starts for real: its start is on record, and no earlier one of this run can still be in doubt."""
        run_id, fence = found.run.id, found.lease.fence
        row = self.now.attempts.get((run_id, fence))
        if (row is None or row.started_us is None) and not self._is_of_old(fence):
            self._fail("recorded before the start", f"the agent of {run_id} runs, and nothing says so")
        self._world.totals["starts"] += 1
        for earlier in self._spawned.get(run_id, []):
            self._world.totals["starts of a run again"] += 1
            end = self.now.attempts.get((run_id, earlier.lease.fence))
            in_doubt = end is None or end.outcome in (None, "lost", "timedout", "notstarted")
            in_doubt = in_doubt and not self._is_of_old(earlier.lease.fence)  # of it nobody can know
            if in_doubt and run_id in self.now.runs and self.now.runs[run_id].definition.on_lost == "triage":
                self._fail("never blindly again", f"{run_id} starts again after an end that nobody knows")
        self._spawned.setdefault(run_id, []).append(agent)

    def leased(self, found: LeasedRun) -> None:
        """Somebody was told that a run is theirs: what the last attempt left behind is handed over."""
        handed = self._handed.get((found.run.id, found.lease.fence), found.checkpoint)
        if found.checkpoint != handed and not self._is_of_old(found.lease.fence):
            self._fail("kept", f"{found.run.id} was leased without its checkpoint")
        if found.run.resume:
            self._world.totals["resumes"] += 1

    def kept(self, found: LeasedRun, content: str) -> None:
        """An agent was told that its checkpoint is kept."""
        self._world.totals["checkpoints"] += 1
        row = self.now.checkpoints.get(found.run.id)
        if self._is_of_old(found.lease.fence) or found.run.id in self.pruned:
            return
        if row is None or row[0] < found.lease.fence or (row[0] == found.lease.fence and row[1] != content):
            self._fail("kept", f"the checkpoint {content} of {found.run.id} is not there")

    def settled_as(self, found: LeasedRun, outcome: str) -> None:
        """A worker was told that the end is written down."""
        row = self.now.attempts.get((found.run.id, found.lease.fence))
        gone = found.run.id in self.pruned
        if not gone and (row is None or row.outcome != outcome) and not self._is_of_old(found.lease.fence):
            self._fail("kept", f"the end of {found.run.id} was acknowledged and is not there")

    def acknowledged(self, run_id: str, *, key: str | None = None) -> None:
        """Somebody was told that a run will be kept."""
        self._world.totals["requests acknowledged"] += 1
        if run_id in self._gone:
            return  # the answer was on its way when the store went back
        if run_id not in self.now.runs:
            self._fail("kept", f"{run_id} was acknowledged and is not there")
        self.acked[run_id] = ""
        if key is not None and self._by_key.setdefault(key, run_id) != run_id:
            self._fail("one key, one run", f"{key} made {self._by_key[key]} and {run_id}")

    def _gates(self, name: str) -> list[str]:
        """Return the gates that whoever holds a resource owes a raise."""
        rows = self._place.engine.rows(f"SELECT owed_gates FROM resource WHERE name = '{name}'")
        return [str(gate) for (gates,) in rows for gate in json.loads(gates)]

    def _fail(self, invariant: str, message: str) -> None:
        self._world.fail(invariant, message)
