"""The ports under faults: the real store and real gates behind unreliable calls, and a made-up process table."""

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from copy import deepcopy
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import TYPE_CHECKING, TypeVar

from fencepost.model.errors import FencepostError, FenceRefused, LeaseLost, Misconfigured, StoreUnavailable
from fencepost.model.gate import Proof
from fencepost.model.lease import LOST, RENEWED, Claim, Granted, Held, Lease, Refused, Waiter
from fencepost.model.process import Fate, ProcessId, fate_by_host
from fencepost.model.process import Host as Identity
from fencepost.ports.gate import GateStatus
from fencepost.ports.ledger import LedgerStore
from fencepost.ports.processes import Traces
from fencepost.ports.store import StoreFacts
from fencepost.stores.sqlite.store import Opening, SqliteStore
from tests.simulation.clocks import DatabaseTime, Moment, StoreClock
from tests.simulation.faults import Fault, Faults, Knobs, call
from tests.simulation.gates.kinds import open_behind, spelled
from tests.simulation.gates.targets import TargetScene
from tests.simulation.hosts import Host, Process
from tests.simulation.reference import Reference
from tests.simulation.waiting import Answer
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.checker import Checker

T = TypeVar("T")
UNREACHABLE = "the store cannot be reached (simulated)"
NO_GATE = "the gate cannot be reached (simulated)"


class Site:
    """The place of the store: its file, its clock, its connections, and the reference beside it."""

    def __init__(self, world: World, knobs: Knobs, folder: str, checker: "Checker") -> None:
        self.world = world
        self.knobs = knobs
        self.checker = checker
        self.reference = Reference()
        self.compares = True  # whether to compare the store with the reference, or to trust the other promises alone
        self.database_time = DatabaseTime(world)
        self._path = os.path.join(folder, "state.db")
        self._connections: dict[tuple[str, str, int], SqliteStore] = {}
        self.generation = 0
        self._backup: tuple[bytes, Reference] | None = None
        self._names: dict[str, str] = {}

    def connection(self, node: str, host: Host, *, since: int | None = None) -> SqliteStore:
        """Return the node's connection. A server is connected to again after a failover, a file is not."""
        key = (node, host.identity.boot, self.generation if since is None or self.knobs.many_hosts else since)
        if key not in self._connections:
            self._connections[key] = self._open(host)
        return self._connections[key]

    def now(self, host: Host) -> Moment:
        """Return the store's time, as it is seen from this host."""
        time = self.database_time if self.knobs.many_hosts else host.time
        return Moment(self._boot(host), time.awake_ns(), time.wall_us())

    def back_up(self, node: str, host: Host) -> None:
        """Keep what the store holds now, to go back to it later."""
        content = self.connection(node, host)._sqlite._connection.serialize("main")
        self._backup = (content, deepcopy(self.reference))
        self.world.log("store", "is backed up")

    def restore(self) -> bool:
        """Put the old content in place of the new; what was granted in between is gone.

        A file keeps the copy of its newest fence beside it, a server that failed over has only its clock.
        """
        if self._backup is None:
            return False
        content, self.reference = self._backup
        self._backup = None
        with open(f"{self._path}.old", "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(content)
        for suffix in ("-wal", "-shm", *([".fence"] if self.knobs.many_hosts else [])):
            with suppress(FileNotFoundError):
                os.unlink(self._path + suffix)
        os.replace(f"{self._path}.old", self._path)
        self.generation += 1
        self.world.log("store", "went back in time")
        self.world.totals["lost tails"] += 1
        self.checker.went_back(known=set(self.reference.leases))
        return True

    def name(self, ticket: str | None) -> str:
        """Return a name for the trace: tickets are made from real randomness."""
        return self._names.setdefault(ticket, f"ticket{len(self._names)}") if ticket else "-"

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def _open(self, host: Host) -> SqliteStore:
        clock = self.database_time if self.knobs.many_hosts else StoreClock(host.time)
        opening = Opening(self._path, clock=clock, boot=self._boot(host), network_kind=lambda _: None, throwaway=True)
        store = opening.open(new_id="simulated")
        self.reference.floor = store.bump(0)
        return store

    def _boot(self, host: Host) -> str:
        return "server" if self.knobs.many_hosts else host.identity.boot


class SimStore:
    """LeaseStore for one process: each verb is one real transaction, compared with the reference, behind faults."""

    def __init__(self, site: Site, node: str, process: Process, faults: Faults, *, since: int) -> None:
        self._site = site
        self._since = since
        self._node = node
        self._process = process
        self._faults = faults

    def facts(self) -> StoreFacts:
        return self._real().facts()._replace(counts_sleep=self._site.knobs.many_hosts)

    def acquire(self, claim: Claim, *, dead: Collection[str] = (), ticket: str | None = None) -> Granted | Refused:
        def effect() -> Granted | Refused:
            answer = self._real().acquire(claim, dead=dead, ticket=ticket)
            if isinstance(answer, Granted):
                self._site.checker.granted(claim, answer, dead=dead, ticket=ticket)
            return answer

        return self._call(
            f"acquire {claim.id} {' '.join(claim.resources)} {self._site.name(ticket)}",
            effect,
            lambda: self._site.reference.acquire(claim, dead, ticket, self._now()),
        )

    def look(self, claim: Claim, *, dead: Collection[str] = (), ticket: str | None = None) -> Refused | None:
        return self._call(
            f"look {claim.id}",
            lambda: self._real().look(claim, dead=dead, ticket=ticket),
            lambda: self._site.reference.look(claim, dead, ticket, self._now()),
        )

    def start(self, lease: Lease) -> None:
        self._call(f"start {lease.id}", lambda: self._real().start(lease), lambda: self._site.reference.start(lease))

    def renew(self, lease: Lease) -> None:
        def effect() -> None:
            self._real().renew(lease)
            self._site.checker.renewed(lease)

        self._call(f"renew {lease.id}", effect, lambda: self._site.reference.renew(lease, self._now()))

    def renew_leases(self, leases: Sequence[Lease]) -> dict[str, str]:
        """Renew one after the other: here every holder has a lease of its own."""
        return {lease.id: self._renewed(lease) for lease in leases}

    def _renewed(self, lease: Lease) -> str:
        try:
            self.renew(lease)
        except LeaseLost:
            return LOST
        return RENEWED

    def release(self, lease: Lease, *, clean: bool, answered: bool = True, code: int | None = None) -> None:
        def effect() -> None:
            self._real().release(lease, clean=clean, answered=answered, code=code)
            self._site.checker.released(lease, clean=clean)

        self._call(
            f"release {lease.id} clean={clean} answered={answered}",
            effect,
            lambda: self._site.reference.release(lease, clean=clean, answered=answered),
        )

    def enqueue(self, claim: Claim, ticket: str) -> None:
        def effect() -> None:
            self._real().enqueue(claim, ticket)
            self._site.checker.queued(claim, ticket)

        self._call(
            f"enqueue {claim.id} {self._site.name(ticket)}",
            effect,
            lambda: self._site.reference.line.enqueue(claim, ticket, self._now()),
        )

    def dequeue(self, ticket: str) -> None:
        def effect() -> None:
            self._real().dequeue(ticket)
            self._site.checker.left(ticket)

        self._call(f"dequeue {self._site.name(ticket)}", effect, lambda: self._site.reference.line.dequeue(ticket))

    def leases(self) -> list[Held]:
        return self._real().leases()

    def waiters(self) -> list[Waiter]:
        return self._real().waiters()

    def break_lease(self, held: Held, *, why: str) -> bool:
        def effect() -> bool:
            broken = self._real().break_lease(held, why=why)
            self._site.checker.broken(held, broken=broken)
            return broken

        return self._call(f"break {held.id}", effect, lambda: self._site.reference.take_away(held))

    def bury(self, lost: Held | Lease) -> None:
        self._call(f"bury {lost.id}", lambda: self._real().bury(lost), lambda: self._site.reference.bury(lost))

    def count_refused(self, tenant: str) -> None:
        self._real().count_refused(tenant)

    def forget_gate(self, tenant: str, resource: str, gate: str) -> bool:
        return self._real().forget_gate(tenant, resource, gate)

    def forget_tick(self, tenant: str, resource: str, job: str) -> bool:
        return self._real().forget_tick(tenant, resource, job)

    def bump(self, floor: int) -> int:
        return self._real().bump(floor)

    def ledger(self) -> LedgerStore:
        return self._real().ledger()

    def close(self) -> None:
        """Nothing to do: the node keeps its connection."""

    def _call(self, verb: str, effect: Callable[[], T], expected: Callable[[], Answer]) -> T:
        world = self._site.world
        fault = self._faults.at_store()
        if fault is Fault.NONE and self._process.host.cut_off:
            fault = Fault.BEFORE
        if fault is Fault.TWICE and verb.startswith(("acquire", "look")):
            fault = Fault.NONE
        outcome = call(
            world,
            self._process,
            verb=verb.partition(" ")[0],
            fault=fault,
            effect=lambda: self._compared(verb, effect, expected),
            error=StoreUnavailable(UNREACHABLE),
            faults=self._faults,
        )
        if isinstance(outcome, FencepostError):
            raise outcome
        return outcome  # type: ignore[return-value]  # what the effect returned

    def _compared(self, verb: str, effect: Callable[[], T], expected: Callable[[], Answer]) -> T | FencepostError:
        """Do it, for real and in the reference; nothing comes between the two."""
        world = self._site.world
        if not self._process.host.usable and not self._site.knobs.many_hosts:
            return StoreUnavailable("the host of this late request is down")
        before = deepcopy(self._site.reference) if verb.startswith("acquire") else None
        answer: T | FencepostError
        try:
            answer = effect()
        except StoreUnavailable as error:
            world.log(self._process.name, f"{verb}: {type(error).__name__}")
            return error
        except LeaseLost as error:
            answer = error
        shown, should = _shown(answer), expected()
        if not verb.startswith("look"):
            world.log(self._process.name, f"{verb} -> {self._named(shown)}")
        if shown != should and self._site.compares:
            world.fail("reference", f"{verb} answered {self._named(shown)}, should be {self._named(should)} ({before})")
        return answer

    def _named(self, answer: Answer) -> str:
        """Spell an answer for the trace, without real randomness and real paths."""
        if answer[0] == "refused":
            return f"refused by {answer[1]} behind {[self._site.name(ticket) for ticket in answer[2]]}"  # type: ignore[attr-defined]  # ids
        if answer[0] == "granted":
            gates = [os.path.basename(gate) for gate in answer[2]]  # type: ignore[attr-defined]  # targets
            return f"granted {answer[1]} after {answer[3]} raise {gates}"
        return str(answer[0])

    def _real(self) -> SqliteStore:
        return self._site.connection(self._node, self._process.host, since=self._since)

    def _now(self) -> Moment:
        return self._site.now(self._process.host)


def _shown(answer: object) -> Answer:
    """Spell a store's answer as the reference does."""
    if isinstance(answer, Granted):
        return ("granted", answer.lease.fence, answer.lease.gates, tuple(held.id for held in answer.predecessors))
    if isinstance(answer, Refused):
        return ("refused", tuple(held.id for held in answer.holders), tuple(waiter.id for waiter in answer.ahead))
    if isinstance(answer, LeaseLost):
        return ("lost",)
    return ("unchanged",) if answer is False else ("done",)


class SimGate:
    """A real gate, of whichever kind, for one process."""

    def __init__(self, scene: TargetScene, kind: str, checker: "Checker") -> None:
        self.path = scene.path
        self.target = spelled(kind, os.path.realpath(scene.path))
        self.owed = False  # by earlier runs, and not declared by this one
        self._world = scene.world
        self._process = scene.process
        self._faults = scene.faults
        self._checker = checker
        self._real = open_behind(kind, scene)

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    def raise_fence(self, proof: Proof, *, adopt: bool = False) -> None:
        def effect() -> None:
            self._checker.raising(self.target, proof)
            self._real.raise_fence(proof, adopt=adopt)
            self._checker.raised(self.target, proof)

        try:
            self._call(f"raise {self.name} {proof.fence}", effect)
        except Misconfigured:
            if self.owed:
                self._checker.out_of_reach()
            raise

    def check(self, proof: Proof) -> None:
        raise NotImplementedError("nobody asks in here")

    def status(self) -> GateStatus:
        raise NotImplementedError("nobody asks in here")

    def read(self) -> int:
        """Return the counter, as an agent reads it: past the gate."""
        return self._real.read()

    def write(self, proof: Proof, value: int) -> None:
        """Put a counter there; it takes its time, so that much can happen before the last step."""

        def effect() -> None:
            self._checker.trying(self.target, proof)
            try:
                self._real.write(proof, value, lambda: self._checker.accepted(self.target, proof, value))
            except FenceRefused:
                self._checker.refused(self.target, proof)
                raise

        self._call(f"write {self.name}={value} with {proof.fence}", effect)

    def _call(self, verb: str, effect: Callable[[], None]) -> None:
        outcome = call(
            self._world,
            self._process,
            verb=verb.partition(" ")[0],
            fault=self._faults.at_gate(verb.partition(" ")[0]),
            effect=lambda: self._logged(verb, effect),
            error=Misconfigured(NO_GATE),
            faults=self._faults,
        )
        if isinstance(outcome, FencepostError):
            raise outcome

    def _logged(self, verb: str, effect: Callable[[], None]) -> FencepostError | None:
        try:
            effect()
        except FencepostError as error:
            self._world.log(self._process.name, f"{verb} -> {type(error).__name__}")
            return error
        self._world.log(self._process.name, f"{verb} -> done")
        return None


class SimProcesses:
    """The Processes port as one process sees it."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._host = process.host
        self._world = process.host.world

    def here(self) -> Identity:
        return self._host.identity

    def myself(self) -> ProcessId:
        return self._process.id

    def identify(self, pid: int) -> ProcessId | None:
        found = self._host.processes.get(pid)
        return found.id if found else None

    def fate(self, process: ProcessId) -> Fate:
        self._world.check_alive()
        self._world.pause(0)
        by_host = fate_by_host(process, self._host.identity)
        if by_host is not None:
            return by_host
        return Fate.ALIVE if self.identify(process.pid) == process else Fate.DEAD

    def signal_process(self, process: ProcessId, signum: int) -> bool:
        self._world.check_alive()
        self._world.pause(0)
        found = self._host.processes.get(process.pid)
        if found is None or found.id != process:
            return False
        if signum == SIGSTOP:
            found.stop()
        elif signum == SIGCONT:
            found.thaw()
        elif signum == SIGKILL:
            found.kill("signalled")
        return True

    def members(self, traces: Traces, *, spare: Collection[int] = ()) -> list[ProcessId]:
        return [agent.id for agent in self._agents(traces) if agent.id.pid not in spare]

    def end(self, traces: Traces, *, grace_seconds: float, kill_seconds: float, spare: Collection[int] = ()) -> bool:
        """Ask, wait, kill, as the host's own does; everybody here can be killed."""
        del kill_seconds, spare
        self._world.check_alive()
        self._world.pause(0)
        if grace_seconds > 0:
            self._ask(traces, grace_seconds)
        for agent in self._agents(traces):
            agent.kill("killed with its tree")
        return True

    def _ask(self, traces: Traces, grace_seconds: float) -> None:
        until_ns = self._host.time.awake_ns() + int(grace_seconds * 1e9)
        for agent in self._agents(traces):
            agent.thaw()
            if agent.obeys:
                agent.kill("asked to stop")
        while self._agents(traces) and self._host.time.awake_ns() < until_ns:
            left = (until_ns - self._host.time.awake_ns()) / 1e9
            self._process.clock.sleep(min(left, max(0.005, grace_seconds / 3)))

    def _agents(self, traces: Traces) -> list["Agent"]:
        return [one for one in self._host.processes.values() if isinstance(one, Agent) and one.run_id == traces.run_id]


class Agent(Process):
    """A process that the guard starts for a run."""

    def __init__(self, host: Host, name: str, lease: Lease, *, guard: Process, obeys: bool) -> None:
        super().__init__(host, name)
        self.lease = lease
        self.run_id = lease.run_id
        self.guard = guard
        self.obeys = obeys
        self.sleeps_at_start = host.sleeps
        self.exit_code: int | None = None  # None: it did not end by itself
        self.why_ended = "exit"  # or why its guard has ended it
