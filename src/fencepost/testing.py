"""For tests of schedules: time that stands still, and a run without a daemon, on a real store with a real lease.

with rehearsal(payload={"month": "2026-10"}) as stage:
    stage.call(close_books)
    assert stage.checkpoint == {"page": 17}
"""

import json
import os
from asyncio import run as run_loop
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from fencepost import wiring
from fencepost.context import RunContext
from fencepost.flow.run_recheck import claim_for, recheck_for
from fencepost.host.identity import this_host
from fencepost.model.definition import AgentDefinition
from fencepost.model.effect_ledger import Entry
from fencepost.model.gate import proof_of
from fencepost.model.instants import from_us, to_us
from fencepost.model.outcome import Settlement
from fencepost.model.process import ProcessId
from fencepost.model.registry_plan import want
from fencepost.model.run import Reason, RunState
from fencepost.operations.run_requests import request_run
from fencepost.ports.runs import LeasedRun, Report
from fencepost.service.agent_environment import checkpoint_file, run_variables
from fencepost.service.answers import SocketAnswers
from fencepost.service.command_order import new_id
from fencepost.service.custody import Term
from fencepost.service.message_pipe import readable
from fencepost.service.run_answers import RunAnswers
from fencepost.service.run_folder import PAYLOAD, plan_run_folder
from fencepost.service.run_socket import RunSocket
from fencepost.stores.runtime import RuntimeStore
from fencepost.stores.sqlite.store import Opening

AGENT = "rehearsed"
TTL_SECONDS = 3600.0
NOON = datetime(2027, 1, 15, 12, tzinfo=UTC)
Gates = Sequence[str] | Mapping[str, str]


class ManualClock:
    """Time that stands still unless it is moved; a Clock wherever one is asked for."""

    def __init__(self, now: datetime = NOON) -> None:
        """Begin at an instant."""
        self._wall_us = to_us(now)
        self._awake_ns = 1_000_000_000_000

    @property
    def now(self) -> datetime:
        """The instant that it shows."""
        return from_us(self._wall_us)

    def advance(self, by: timedelta) -> None:
        """Let this much time go by."""
        self._wall_us += by // timedelta(microseconds=1)
        self._awake_ns += by // timedelta(microseconds=1) * 1000

    def wall_us(self) -> int:
        """Return microseconds since 1970."""
        return self._wall_us

    def awake_ns(self) -> int:
        """Return nanoseconds that never go back."""
        return self._awake_ns

    def boot_ns(self) -> int:
        """Return nanoseconds that never go back; nothing sleeps here."""
        return self._awake_ns

    def sleep(self, seconds: float) -> None:
        """Let the time go by at once."""
        self.advance(timedelta(seconds=seconds))


class Rehearsal:
    """One run, in the hands of a test."""

    def __init__(self, store: RuntimeStore, watching: RuntimeStore, clock: ManualClock, gates: Gates) -> None:
        self.clock = clock
        self.context = RunContext({})
        self._store = store  # the supervisor's: only its thread uses it while the run is up
        self._watching = watching
        named = gates if isinstance(gates, Mapping) else {gate: gate for gate in gates}
        self._names = {name: wiring.open_gate(gate).target for name, gate in named.items()}
        self._gates = tuple(self._names.values())
        self._facts: dict[str, Any] = {}
        self._ending = False
        self._stop: Callable[[], None] = lambda: None

    def call(self, function: Callable[[RunContext], Any]) -> Any:  # noqa: ANN401  # whatever the function returns
        """Call the function with the run's context, as a worker does, awaiting it if need be; return its answer."""
        answer = function(self.context)
        if not hasattr(answer, "__await__"):
            return answer

        async def awaited() -> Any:  # noqa: ANN401  # likewise
            return await answer

        return run_loop(awaited())

    def cancel(self) -> None:
        """Ask the run to stop: `cancelled` becomes true, and nothing more can be recorded."""
        self._ending = True

    def lose_lease(self) -> None:
        """Take the lease away, as a successor elsewhere would: what the run records now is refused."""
        for held in self._watching.leases():
            self._watching.break_lease(held, why="taken away by a test")
        self._ending = True  # a supervisor learns of it at its next renewal

    def again(self) -> None:
        """Let the attempt be interrupted here, and begin the next one at the same run, which resumes."""
        self._stop()
        resumed = Settlement(RunState.READY, Reason.RESUME, ready_at=self.clock.now, resume=True)
        self._store.settle(self._leased.lease, resumed, Report("lost"), clean=True)
        self._begin()

    @property
    def checkpoint(self) -> Any:  # noqa: ANN401  # whatever JSON was kept
        """What the run has kept for its next attempt; None if nothing."""
        content = self._watching.checkpoint(self._leased.run.id)
        return None if content is None else json.loads(content)

    @property
    def ledger(self) -> list[Entry]:
        """What the run has written down to happen once, newest first."""
        return self._watching.ledger().entries(self._leased.run.tenant)

    def _enqueue(self, payload: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        self._facts = dict(facts)
        agent = AgentDefinition(AGENT, command=("true",), on_lost="resume", max_attempts=100)
        self._store.registry().apply(want("default", "rehearsal", agents={AGENT: agent}, schedules={}), actor="test")
        request_run(
            self._store,
            tenant="default",
            target=AGENT,
            payload=payload,
            new_run_id=lambda: new_id(self.clock) + os.urandom(2).hex(),
            by="test",
        )

    def _begin(self) -> None:
        """Lease the run, raise its gates, and answer on a socket until stopped."""
        term = Term(self.clock, counts_sleep=False)
        term.extend(TTL_SECONDS, asked_ns=term.now_ns())
        leased = self._store.lease_run(
            lambda run: claim_for(
                run,
                lease_id=os.urandom(16).hex(),
                supervisor=ProcessId(this_host(), os.getpid(), "rehearsal"),
                ttl_seconds=TTL_SECONDS,
                gates=self._gates,
            ),
            recheck_for,
        )
        assert leased is not None, "the only run of a new store can be leased"
        self._leased: LeasedRun = leased
        for gate in self._gates:
            wiring.open_gate(gate).raise_fence(proof_of(leased.lease, leased.lease.store))
        self._store.start_run(leased)
        self._ending = False
        self._serve(leased, term)

    def _serve(self, leased: LeasedRun, term: Term) -> None:
        folder, key = plan_run_folder(leased.run.id), os.urandom(24).hex()
        folder.make({PAYLOAD: leased.run.payload, **checkpoint_file(leased)})
        basics = SocketAnswers(leased.lease, term, lambda: self._ending, self._store)
        answering = RunSocket(
            folder.socket, key, RunAnswers(basics, self._store, leased.lease, self._names, leased.checkpoint).handlers
        )
        run = leased.run._replace(**self._facts)
        self.context = RunContext({**os.environ, **run_variables(run, leased.lease, folder=folder, key=key)})
        told, tell = os.pipe()

        def answer() -> None:
            while told not in (ready := readable([told, *answering.fds()])):
                answering.serve(ready)

        thread = Thread(target=answer, name="rehearsal", daemon=True)
        thread.start()

        def stop() -> None:
            os.write(tell, b"x")
            thread.join()
            answering.close()
            folder.remove()
            os.close(told)
            os.close(tell)
            self._stop = lambda: None

        self._stop = stop


@contextmanager
def rehearsal(
    *,
    payload: Mapping[str, Any] | None = None,
    tick: datetime | None = None,
    period: tuple[datetime, datetime] | None = None,
    last_success: datetime | None = None,
    schedule: str = "",
    trigger: str = "manual",
    gates: Gates = (),
    clock: ManualClock | None = None,
) -> Iterator[Rehearsal]:
    """Set up a run in a store of its own: real lease, real ledger, checkpoint and gates, no daemon and no waiting.

    `gates` are targets such as `file:/path`, or names with their targets, as the agent's gates have; they are raised
    to the run's fence before it starts.
    """
    clock = clock or ManualClock()
    facts = {
        "schedule": schedule or None,
        "trigger": trigger,
        "tick_us": None if tick is None else to_us(tick),
        "period_start_us": None if period is None else to_us(period[0]),
        "period_end_us": None if period is None else to_us(period[1]),
        "last_success_us": None if last_success is None else to_us(last_success),
    }
    with TemporaryDirectory(prefix="fencepost-") as folder:
        path = os.path.join(folder, "state.db")
        store, watching = temporary_store(path, clock), temporary_store(path, clock)
        stage = Rehearsal(store, watching, clock, gates)
        try:
            stage._enqueue(payload or {}, facts)  # noqa: SLF001  # it is our own
            stage._begin()  # noqa: SLF001  # one thing in two classes
            yield stage
        finally:
            stage._stop()  # noqa: SLF001  # one thing in two classes
            store.close()
            watching.close()


def temporary_store(path: str, clock: ManualClock) -> RuntimeStore:
    """Open an SQLite store whose time is the clock's; open it again for a second process's view."""
    opening = Opening(path, clock=clock, boot=this_host().boot, network_kind=lambda _: None)
    return RuntimeStore(opening.open(new_id=os.urandom(8).hex()))
