"""The promises, checked after every event by what really happened and not by what the store says."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fencepost.model.gate import Proof
from fencepost.model.lease import Claim, Granted, Held, Lease, keys_of
from tests.simulation.faults import Knobs
from tests.simulation.ports import Agent
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.hosts import Process


@dataclass(slots=True)
class Grant:
    """What the checker knows about one grant."""

    claim: Claim
    fence: int
    gates: tuple[str, ...]
    renewed_ns: int
    ended: bool = False
    forgotten: bool = False  # the store went back to before it
    disturbed: bool = False  # taken by hand, or by a server's clock that jumped


class Checker:
    """Watches grants, agents and gates."""

    def __init__(self, world: World, knobs: Knobs) -> None:
        self._world = world
        self._knobs = knobs
        self._grants: dict[int, Grant] = {}
        self._newest: dict[tuple[str, str], int] = {}
        self._started: dict[tuple[str, str], list[Agent]] = {}
        self._agents: list[Agent] = []
        self._tried: dict[tuple[str, str], int] = {}  # the highest fence that anybody brought to a gate
        self._passed: dict[tuple[str, str], int] = {}
        self._values: dict[str, int] = {}
        self._joined_in_quiet: set[str] = set()
        self._waiting: list[tuple[str, Claim]] = []
        self.supervisors: dict[str, Process] = {}
        self.shared: set[str] = set()  # where those who write do not exclude each other

    def granted(self, claim: Claim, answer: Granted, *, dead: Collection[str], ticket: str | None) -> None:
        """Fences rise for ever, whatever the store has forgotten; nobody in time and alive is robbed."""
        lease = answer.lease
        known = self._grants.get(lease.fence)
        if known is not None and known.claim.id == claim.id:
            return  # the same grant again, whose answer was lost
        for key in keys_of(claim.tenant, claim.resources):
            if lease.fence <= self._newest.get(key, 0):
                self._world.fail("fences rise", f"{key[1]} got {lease.fence} after {self._newest[key]}")
            self._newest[key] = lease.fence
        for held in answer.predecessors:
            self._taken(held, dead)
        self._grants[lease.fence] = Grant(claim, lease.fence, lease.gates, self._world.now_ns)
        self._in_turn(claim, ticket)
        self._world.totals["grants"] += 1

    def renewed(self, lease: Lease) -> None:
        grant = self._grants[lease.fence]
        if grant.ended and not grant.forgotten:
            self._world.fail(
                "a loser changes nothing", f"{lease.id} with fence {lease.fence} was renewed after its end"
            )
        grant.renewed_ns = self._world.now_ns
        self._world.totals["renewals"] += 1

    def released(self, lease: Lease, *, clean: bool) -> None:
        grant = self._grants[lease.fence]
        if grant.ended and not grant.forgotten:
            self._world.fail(
                "a loser changes nothing", f"{lease.id} with fence {lease.fence} was released after its end"
            )
        grant.ended = True
        if clean and any(agent.alive and agent.run_id == lease.run_id for agent in self._agents):
            self._world.fail("nothing outlives its run", f"{lease.run_id} was released clean with a living agent")
        self._world.totals["releases"] += 1

    def broken(self, held: Held, *, broken: bool) -> None:
        """Somebody took a lease by hand: its holder finds out later."""
        grant = self._grants[held.fence]
        if broken and grant.ended and not grant.forgotten:
            self._world.fail("a loser changes nothing", f"{held.id} with fence {held.fence} was broken after its end")
        if broken:
            grant.ended = grant.disturbed = True
            self._world.totals["broken by hand"] += 1

    def went_back(self, *, known: set[str]) -> None:
        """The store lost its tail: grants in it are forgotten, and so are their ends and their debts."""
        for grant in self._grants.values():
            grant.forgotten = True
            grant.disturbed = True
        del known

    def robbed(self, fence: int) -> None:
        """A lease was taken in its time, because its holder is dead: its guard may still be ending the tree elsewhere."""
        if fence in self._grants:
            self._grants[fence].disturbed = True

    def jumped(self) -> None:
        """A server's clock was set forward: leases end before their time, and only fences can help."""
        for grant in self._grants.values():
            grant.disturbed = True

    def queued(self, claim: Claim, ticket: str) -> None:
        if all(known != ticket for known, _ in self._waiting):
            self._waiting.append((ticket, claim))
            if self._world.quiet:
                self._joined_in_quiet.add(ticket)

    def left(self, ticket: str) -> None:
        self._waiting = [(known, claim) for known, claim in self._waiting if known != ticket]

    def out_of_reach(self) -> None:
        """An owed gate of earlier runs was out of reach, which blocks the start."""
        self._world.totals["owed gates out of reach"] += 1

    def raising(self, target: str, proof: Proof) -> None:
        self._bring(target, proof)

    def raised(self, target: str, proof: Proof) -> None:
        self._pass(target, proof)
        self._world.totals["raises"] += 1

    def trying(self, target: str, proof: Proof) -> None:
        """Count writes that come too late."""
        self._world.totals["writes tried"] += 1
        if proof.fence < max(self._passed.get((target, key), 0) for key in proof.keys):
            self._world.totals["stale writes tried"] += 1
        self._bring(target, proof)

    def accepted(self, target: str, proof: Proof, value: int) -> None:
        """No older fence gets in once a newer agent has started, and every write builds on the last one."""
        place = target.rpartition("/")[2]
        for key in proof.keys:
            if proof.fence < self._passed.get((target, key), 0):
                self._world.totals["stale writes passed"] += 1
                self._world.fail("order at the gate", f"{place} took {proof.fence} after {self._passed[target, key]}")
        self._refuse_zombie(target, place, proof)
        if target not in self.shared and value != self._values.get(target, 0) + 1:
            self._world.fail("no lost update", f"{place} was at {self._values.get(target, 0)} and is now {value}")
        self._values[target] = value
        self._pass(target, proof)
        self._world.totals["writes accepted"] += 1

    def refused(self, target: str, proof: Proof) -> None:
        """Whoever is the newest is let in."""
        if all(proof.fence >= self._tried.get((target, key), 0) for key in proof.keys):
            self._world.fail(
                "the newest may write", f"{target.rpartition('/')[2]} refused {proof.fence}, the newest there"
            )
        self._world.totals["stale writes refused"] += 1

    def started(self, agent: Agent) -> None:
        """Two agents that exclude each other do not run at the same time, as far as that is promised."""
        for other in self._agents:
            if other.alive and _rivals(other, agent):
                self._apart(other, agent)
        self._agents = [*(one for one in self._agents if one.alive), agent]
        for key in keys_of(agent.lease.tenant, agent.lease.resources):
            self._started.setdefault(key, []).append(agent)
        self._world.totals["starts"] += 1

    def finished(self, leases: list[Held], counters: dict[str, int]) -> None:
        """In the end everything is given back, nobody is left running, and every acknowledged write is there."""
        held = [lease.id for lease in leases if not lease.lost]
        if held:
            self._world.fail("progress", f"still held at the end: {held}")
        alive = [agent.name for agent in self._agents if agent.alive]
        if alive:
            self._world.fail("nothing outlives its run", f"still running at the end: {alive}")
        self.counted(counters)

    def counted(self, counters: dict[str, int]) -> None:
        """Every accepted write is there: what builds on one another counts them."""
        for target, value in counters.items():
            if value != self._values.get(target, 0):
                self._world.fail(
                    "no lost update", f"{target.rpartition('/')[2]} is {value}, not {self._values.get(target, 0)}"
                )

    def _taken(self, held: Held, dead: Collection[str]) -> None:
        """A lease changes hands when it has run out, or when its holder is proven dead or silent."""
        grant = self._grants.get(held.fence)
        if grant is None or grant.ended:
            return
        grant.ended = True
        by_proof = held.id in dead and held.remaining_seconds > 0
        self._world.totals["takeovers from the dead" if by_proof else "takeovers after expiry"] += 1
        silent_ns = self._world.now_ns - grant.renewed_ns
        is_silent = silent_ns > 1.9 * held.ttl_seconds * 1e9
        if by_proof and self._lives(grant.claim) and not is_silent and not grant.forgotten:
            self._world.fail(
                "only the dead are robbed", f"{held.id} is alive and was renewed {silent_ns / 1e9:.3f}s ago"
            )
        if by_proof and is_silent:
            self._world.totals["takeovers by silence"] += 1
        if not by_proof and held.remaining_seconds > 0:
            self._world.fail("leases do not overlap", f"{held.id} had {held.remaining_seconds}s left")

    def _lives(self, claim: Claim) -> bool:
        return self.supervisors[claim.run_id].alive

    def _in_turn(self, claim: Claim, ticket: str | None) -> None:
        """Without faults, who came first is served first."""
        keys = set(keys_of(claim.tenant, claim.resources))
        before = [
            (known, other) for known, other in self._waiting if keys & set(keys_of(other.tenant, other.resources))
        ]
        first = before[0] if before else None
        if first and first[0] != ticket and first[0] in self._joined_in_quiet and self._lives(first[1]):
            self._world.fail("first come, first served", f"{claim.id} was served before {first[1].id}")
        if ticket:
            self._world.totals["served from the queue"] += 1
            self.left(ticket)

    def _refuse_zombie(self, target: str, place: str, proof: Proof) -> None:
        for key in keys_of(proof.tenant, proof.resources):
            for agent in self._started.get(key, []):
                if agent.lease.fence > proof.fence and not self._excused(agent, target, proof):
                    self._world.fail(
                        "no zombie writes", f"{place} took {proof.fence} after {agent.lease.fence} had started"
                    )

    def _excused(self, agent: Agent, target: str, proof: Proof) -> bool:
        """A newer agent that was never to raise this gate cannot keep anybody out of it."""
        newer, older = self._grants[agent.lease.fence], self._grants[proof.fence]
        return target not in newer.gates and older.forgotten

    def _apart(self, old: Agent, new: Agent) -> None:
        grant = self._grants[old.lease.fence]
        if old.host is new.host:
            if not grant.forgotten and not self._grants[new.lease.fence].forgotten:
                self._world.fail("apart on one host", f"{new.name} started while {old.name} was running")
            return
        undisturbed = (
            self._knobs.in_drift
            and not grant.disturbed
            and old.guard.alive
            and not old.guard.was_stopped
            and not new.guard.was_stopped  # frozen as it was about to start its agent
            and old.host.sleeps == old.sleeps_at_start
        )
        self._world.totals["two at a time on two hosts"] += 1
        if undisturbed:
            self._world.fail("apart on two hosts", f"{new.name} started while {old.name} was running")

    def _bring(self, target: str, proof: Proof) -> None:
        for key in proof.keys:
            self._tried[target, key] = max(proof.fence, self._tried.get((target, key), 0))

    def _pass(self, target: str, proof: Proof) -> None:
        for key in proof.keys:
            self._passed[target, key] = max(proof.fence, self._passed.get((target, key), 0))


def _rivals(some: Agent, other: Agent) -> bool:
    return not set(some.lease.resources).isdisjoint(other.lease.resources)
