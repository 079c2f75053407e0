"""A host on which workers come and go, what may happen to them there, and what must hold whatever happens."""

import os
import random  # noqa: TID251  # seeded
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from fencepost.flow.reaper import Reaper, store_now
from fencepost.model.errors import StoreUnavailable
from fencepost.model.lease import Held
from fencepost.model.process import Host, ProcessId
from fencepost.ports.gate import Gate
from fencepost.service.adoption import Adoption
from fencepost.service.command_order import Tools
from fencepost.service.custody import Custody
from fencepost.service.end_record import has_known_end
from fencepost.service.leftovers import Leftovers
from fencepost.service.worker import Worker
from fencepost.service.worker_tools import WorkerTools
from fencepost.stores.runtime import RuntimeStore
from fencepost.wiring.serving import engine_of
from tests.simulation.adoption.host import Agent, SimGuard, SimProcesses, SimZygote, kill_after_ns
from tests.simulation.world import Violation
from tests.stores.rig import lay_down, opening
from tests.support.clock import ManualClock

TTL_SECONDS = 6.0
SLOTS = 3
LEAVE_SECONDS = 40.0
STEP_SECONDS = 0.25  # at most, from one look to the next


class Door:
    """One worker's way to the store: it may be cut, and an answer may be lost after the verb was carried out."""

    def __init__(self, world: "AdoptionWorld") -> None:
        self._world = world
        self.cut = False

    def __getattr__(self, name: str) -> Callable[..., object]:
        verb = getattr(self._world.store, name)

        def carry_out(*values: object, **named: object) -> object:
            if self.cut:
                raise StoreUnavailable("it is out of reach.")
            answer = verb(*values, **named)
            if name in LOSABLE and self._world.loses_answer():
                raise StoreUnavailable(f"the answer to {name} was lost.")
            return answer

        return carry_out

    def close(self) -> None:
        """Keep the one connection that all share."""


LOSABLE = ("lease_runs", "start_runs", "renew_leases", "settle_runs", "adopt_runs")


class _Worker(Worker):
    """The product's worker without threads: its renewals and its last resort are looked after by who steps it."""

    world: "AdoptionWorld"
    me: "SimWorker"

    def _open_custody(self, store: RuntimeStore) -> Custody:
        return Custody(self.bench.open_store, self.bench.tools.clock, counts_sleep=store.facts().counts_sleep)

    def now_ns(self) -> int:
        """Let others go on while this worker waits for guards to say who they are."""
        self.world.meanwhile(self.me)
        return super().now_ns()


class SimWorker:
    """One process with a worker in it."""

    def __init__(self, world: "AdoptionWorld", name: str) -> None:
        self.world, self.name = world, name
        self.id = ProcessId(world.here, world.new_pid(), "1")
        self.frozen = False
        self.door = Door(world)
        tools = world.tools(self.id)
        own = WorkerTools(
            tools,
            lambda: self.door,  # type: ignore[arg-type, return-value]
            engine_of,
            world.folder,
            f"{world.folder}/logs",
            f"{world.folder}/guards",
            TTL_SECONDS,
            timedelta(0),
        )
        helpers = (SimZygote(world, full=False), SimZygote(world, full=True))
        self.worker = _Worker(own, *helpers, slots=SLOTS, keeper=name)  # type: ignore[arg-type]
        self.worker.world, self.worker.me = world, self
        self.adoption = Adoption(self.worker, f"{world.folder}/workers")
        self.leftovers = Leftovers(tools.processes, tools.clock, tools.say, name)
        world.workers.append(self)
        world.log(f"{name} starts")

    def step(self) -> None:
        """Look once at everything, as the threads and the loop of `up` do."""
        if self.frozen or self not in self.world.workers:
            return
        custody = self.worker._custody
        if custody is not None:
            custody.step()
            self.worker._on_renewed()
        self.worker._last_resort.step()
        self.worker.hear()
        try:
            self._serve(self.door)  # type: ignore[arg-type]
        except StoreUnavailable:
            self.world.totals["store away"] += 1

    def _serve(self, store: RuntimeStore) -> None:
        adopted = self.adoption.step(store)
        self.world.totals["adopted"] += adopted
        if adopted:
            self.world.log(f"{self.name} adopts {adopted}")
        processes = self.worker.bench.tools.processes
        now = store_now(store.clock_us)
        reaper = Reaper(store, store, processes, now, has_known_end=has_known_end, keeper=self.name)
        self.world.totals["reaped"] += reaper.step()
        self.leftovers.clear(store)
        self.worker.hear()
        self.worker.serve(store)
        self.worker.lease(store, store.agenda(SLOTS).ready)

    def leave(self) -> None:
        """Get SIGTERM as a service does: say good-bye, and go."""
        try:
            left = self.worker.leave(self.door, LEAVE_SECONDS)  # type: ignore[arg-type]
            self.world.totals["left"] += left
        except StoreUnavailable:
            self.world.log(f"{self.name} cannot say good-bye")
        self.vanish()

    def vanish(self) -> None:
        """Be gone, as after a kill: what it held open is closed by the kernel."""
        self.world.workers.remove(self)
        self.worker.close()
        self.give_up_lock()

    def give_up_lock(self) -> None:
        """Lose the lock of its life, as with a state folder that was put back from a backup."""
        if self.adoption._own >= 0:
            os.close(self.adoption._own)
            self.adoption._own = -1


class AdoptionWorld:
    """Everything on the host, and the store."""

    def __init__(self, seed: int, folder: str) -> None:
        self.rng = random.Random(seed)
        self._lost_answers = self.rng.choice(LOST_ANSWERS)
        self.folder = folder
        self.totals: Counter[str] = Counter()
        self.trace: list[str] = []
        self.clock = ManualClock()
        self.boots = 1
        self.guards: list[SimGuard] = []
        self.agents: list[Agent] = []
        self.workers: list[SimWorker] = []
        self.rages = True
        self._pids = 100
        self._workers = 0
        self._busy = False
        self._path = Path(folder) / "state.db"
        lay_down(self._path)
        self.store = self._open()

    def _open(self) -> RuntimeStore:
        boot = f"boot-{self.boots}"
        return RuntimeStore(opening(self._path, self.clock, boot=boot, throwaway=True).open(new_id="lite"))

    @property
    def here(self) -> Host:
        return Host("tower", "machine-1", f"boot-{self.boots}", "pid:1")

    def tools(self, me: ProcessId) -> Tools:
        def no_gate(target: str, tenant: str) -> Gate:
            raise AssertionError((target, tenant))

        return Tools(self.clock, SimProcesses(self, me), lambda: self.store, no_gate, self.log)

    def log(self, text: str) -> None:
        self.trace.append(f"{(self.clock.awake - 10**12) / 1e9:8.2f} {text}")

    def new_pid(self) -> int:
        self._pids += 1
        return self._pids

    def loses_answer(self) -> bool:
        lost = self.rages and self.rng.random() < self._lost_answers
        self.totals["lost answers"] += lost
        return lost

    # What happens.

    def start_worker(self) -> None:
        self._workers += 1
        SimWorker(self, f"w{self._workers}")

    def reboot(self) -> None:
        """Lose every process, and time that leases are counted in."""
        for guard in self.guards:
            guard.kill("reboot")
        for worker in list(self.workers):
            worker.vanish()
        self.boots += 1
        self.store.close()
        self.store = self._open()

    def look_with_an_older_program(self) -> None:
        """Let a reaper of a program look that knows nothing of keepers and ends that are written down."""
        processes = SimProcesses(self, ProcessId(self.here, 99, "1"))
        self.totals["reaped by an older program"] += Reaper(
            self.store, self.store, processes, store_now(self.store.clock_us)
        ).step()

    def meanwhile(self, waits: SimWorker) -> None:
        """Let guards answer while a worker waits for them; now and then another worker does all that it has to do."""
        self.clock.pass_time(0.004)
        for guard in list(self.guards):
            guard.step()
        if not self._busy and self.rages and self.rng.random() < REENTRY:
            self._busy = True
            for other in [one for one in self.workers if one is not waits]:
                other.step()
            self._busy = False

    def step(self) -> None:
        """Let a moment pass, and everybody look."""
        self.clock.pass_time(self.rng.uniform(0.02, STEP_SECONDS))
        for agent in [one for one in self.agents if one.alive]:
            if self.rng.random() < PRINTS:
                agent.print()
        for _ in range(2):
            actors: list[SimGuard | SimWorker] = [*self.guards, *self.workers]
            self.rng.shuffle(actors)
            for actor in actors:
                actor.step()
        self.guards = [one for one in self.guards if one.alive]
        self.check()

    # What must hold.

    def held(self) -> dict[int, Held]:
        return {one.fence: one for one in self.store.leases()}

    def check(self) -> None:
        now, held = self.clock.awake_ns(), self.held()
        kept = Counter(
            (one.leased.lease.id, one.leased.lease.epoch)
            for worker in self.workers
            for one in worker.worker._guards.values()
            if one.leased is not None
        )
        if twice := [key for key, times in kept.items() if times > 1]:
            raise Violation("adopted", f"twice: {twice}")
        for guard in self.guards:
            agent = guard.tree.agent
            if not guard.is_at_work or agent is None:
                continue
            lease = held.get(agent.fence)
            is_held = lease is not None and not lease.lost
            if now < guard.deadline_ns and not is_held:
                raise Violation("reaped", f"{agent.run_id} has lost fence {agent.fence}, and its guard lives")
            late = now - guard.deadline_ns - kill_after_ns(TTL_SECONDS) - round(STEP_SECONDS * 1e9)
            if late > 0:
                raise Violation("late", f"{agent.run_id} lives {late / 1e9:.2f} s too long")
            if lease is not None and is_held and guard.deadline_ns > now + round(lease.remaining_seconds * 1e9):
                raise Violation("trust", f"the guard of {agent.run_id} trusts its lease for longer than the store")

    def judge_kill(self, agent: Agent | None, by: ProcessId) -> None:
        """Raise if somebody kills what is in good hands."""
        if agent is None or not agent.alive or agent.guard.frozen:
            return
        lease = self.held().get(agent.fence)
        is_held = lease is not None and not lease.lost and lease.remaining_seconds > 0
        if is_held and self.clock.awake_ns() < agent.guard.deadline_ns:
            raise Violation("killed", f"{by.pid} kills {agent.run_id} with fence {agent.fence}, which is held")

    def judge_word(self, guard: SimGuard) -> None:
        """Raise if a guard was just told that a lease is lost that is held."""
        watch, agent = guard.guard._watch, guard.tree.agent
        if watch is None or agent is None or watch._why != "lost" or guard.told_lost:
            return
        guard.told_lost = True
        lease = self.held().get(agent.fence)
        is_held = lease is not None and not lease.lost and lease.remaining_seconds > 0
        if is_held and self.clock.awake_ns() < guard.deadline_ns:
            raise Violation("killed", f"the guard of {agent.run_id} was told that fence {agent.fence} is lost")


LOST_ANSWERS = (0.0, 0.02, 0.2)
REENTRY = 0.15
PRINTS = 0.3
