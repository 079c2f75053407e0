"""A busy minute of one store, with a note of everything that was acknowledged."""

from dataclasses import replace
from typing import NamedTuple

from fencepost.flow.run_recheck import claim_for, recheck_for
from fencepost.flow.ticker import Ticker
from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.effect_ledger import EffectCall
from fencepost.model.lease import Claim
from fencepost.model.outcome import Settlement
from fencepost.model.process import Host, ProcessId
from fencepost.model.registry_plan import want
from fencepost.model.run import RunState
from fencepost.operations.run_requests import request_run
from fencepost.ports.runs import LeasedRun, Report, RunRow
from fencepost.stores.runtime import RuntimeStore
from fencepost.stores.sqlite.store import Opening, SqliteStore
from tests.simulation.crash.recorder import Tape
from tests.support.clock import ManualClock

TENANT = "tenant"
START_US = 1_790_000_000_000_000
HERE = Host("here", "machine", "boot", "pid:1")
AGENT = AgentDefinition("agent", command=("work",), max_attempts=3)
SCHEDULE = ScheduleDefinition(
    "minutely", agent="agent", cron="* * * * *", timezone="UTC", overlap="queue", queue_max=20
)


class Fact(NamedTuple):
    """Something that was acknowledged when so many steps were on the tape; it holds until it is superseded."""

    step: int
    what: str  # run, state, fence, checkpoint, entry
    name: str
    value: str | int


def open_file(path: str, clock: ManualClock) -> SqliteStore:
    """Open a store as the product does."""
    return Opening(path, clock=clock, boot="boot", network_kind=lambda _: None).open(new_id="store")


class Workload:
    """Does one thing after another, and writes down what it was told."""

    def __init__(self, path: str, tape: Tape, *, checkpoint_every: int) -> None:
        self.facts: list[Fact] = []
        self._tape = tape
        self._clock = ManualClock(START_US)
        self._opened = open_file(path, self._clock)
        self._opened._sqlite._connection.wal_autocheckpoint(checkpoint_every)  # pages, so that files are moved about
        self._store = RuntimeStore(_Opened(self._opened))
        self._names = 0

    def run(self, rounds: int) -> None:
        """Apply, then ask, tick, lease, work and settle, round after round; change the schedule in between."""
        definition = SCHEDULE
        for number in range(rounds):
            if number % 6 == 0:
                definition = replace(definition, priority=number)
                wanted = want(TENANT, "file", agents={"agent": AGENT}, schedules={"minutely": definition})
                self._store.registry().apply(wanted, actor="operator")
            self._clock.pass_time(61)
            while Ticker(self._store, self._name).step():
                self._note_runs()
            asked = request_run(self._store, tenant=TENANT, target="agent", new_run_id=self._name, by="operator")
            self._note("run", asked.run.id, "")
            self._lock()
            leased = self._store.lease_run(self._claim, recheck_for)
            if leased is not None:
                self._work(leased, ends=number % 3 != 0)
        self._opened.close()

    def _work(self, leased: LeasedRun, *, ends: bool) -> None:
        run, lease = leased.run, leased.lease
        for resource in lease.resources:
            self._note("fence", resource, lease.fence)
        self._note("state", run.id, "running")
        self._store.start_run(leased)
        self._store.renew(lease)
        self._store.put_checkpoint(lease, f"half of {run.id}")
        self._note("checkpoint", run.id, f"half of {run.id}")
        call = EffectCall(f"effect of {run.id}", self._name())
        self._store.ledger().begin(lease, call)
        self._note("entry", call.key, "in_progress")
        self._store.ledger().complete(lease, call, '"done"')
        self._note("entry", call.key, "completed")
        if ends:
            self._store.settle(lease, Settlement(RunState.SUCCEEDED), Report("succeeded", exit_code=0), clean=True)
            self._note("state", run.id, "succeeded")

    def _lock(self) -> None:
        """Take and give back something that has nothing to do with runs."""
        claim = Claim(self._name(), TENANT, ("lock:a",), self._name(), 30.0, ProcessId(HERE, 1, "1"))
        answer = self._store.acquire(claim)
        lease = answer.lease  # type: ignore[union-attr]  # nobody else wants it
        self._note("fence", "lock:a", lease.fence)
        self._store.release(lease, clean=True)

    def _claim(self, run: RunRow) -> Claim:
        return claim_for(run, lease_id=self._name(), supervisor=ProcessId(HERE, 1, "1"), ttl_seconds=30.0)

    def _note_runs(self) -> None:
        for run in self._store.runs(tenant=TENANT, limit=1000):
            self._note("run", run.id, "")

    def _note(self, what: str, name: str, value: str | int) -> None:
        self.facts.append(Fact(len(self._tape.steps), what, name, value))

    def _name(self, kind: str = "id") -> str:
        self._names += 1
        return f"{kind}{self._names:05d}"


class _Opened:
    """An opened store as the runtime wants it."""

    def __init__(self, store: SqliteStore) -> None:
        self.dialect = store._sqlite
        self.facts = store.facts
        self.close = store.close
