"""Both stores with the scheduler's verbs, a clock that tests move, and few words for what tests do with them."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from threading import Barrier, Thread
from typing import Any, TypeVar

from fencepost.flow.reaper import Reaper, store_now
from fencepost.flow.run_recheck import claim_for, recheck_for
from fencepost.flow.ticker import Ticker
from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.instants import from_us, to_us
from fencepost.model.outcome import Settlement
from fencepost.model.process import Fate, Host, ProcessId
from fencepost.model.registry_plan import want
from fencepost.model.run import Reason, RunState
from fencepost.ports.processes import Traces
from fencepost.ports.runs import LeasedRun, Offer, Report, RunRow
from fencepost.stores.runtime import RuntimeStore
from tests.stores.rig import PostgresRig, Rig, SqliteRig, postgres_rig, sqlite_rig

MYSELF = ProcessId(Host("tower", "machine-1", "boot-1", "pid:1"), 4711, "12345")
TENANT = "default"
SUCCEEDED = Settlement(RunState.SUCCEEDED)
DEAD = Settlement(RunState.DEAD, Reason.EXIT_CODE)

T = TypeVar("T")

_numbers = count(1)


def new_id() -> str:
    return f"r{next(_numbers):06d}"


def new_ids(number: int) -> list[str]:
    return [new_id() for _ in range(number)]


class AnyFate:
    """A host on which every process has the same fate."""

    def __init__(self, fate: Fate = Fate.UNKNOWN) -> None:
        self.found = fate

    def here(self) -> Host:
        return MYSELF.host

    def fate(self, _: ProcessId) -> Fate:
        return self.found

    def end(self, _: Traces, **__: float) -> bool:
        return True


class Runtime:
    """One store under test."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.kind = rig.kind
        self.store = RuntimeStore(rig.store)
        self.definitions: dict[str, dict[str, ScheduleDefinition]] = {}
        self.agents: dict[str, dict[str, AgentDefinition]] = {}

    def another(self) -> RuntimeStore:
        """Open the store once more, as another process would."""
        return RuntimeStore(self.rig.open_another())

    @property
    def now(self) -> datetime:
        return from_us(self.rig.now_us())

    def go_to(self, instant: datetime | str) -> None:
        """Move the clock, forwards for leases too; backwards only the wall goes."""
        wanted = at(instant) if isinstance(instant, str) else instant
        seconds = (wanted - self.now).total_seconds()
        (self.rig.pass_time if seconds >= 0 else self.rig.step_wall)(seconds)

    def pass_time(self, seconds: float) -> None:
        self.rig.pass_time(seconds)

    def apply(self, *definitions: ScheduleDefinition | AgentDefinition, tenant: str = TENANT) -> None:
        """Put these into the registry, beside what was there."""
        agents = self.agents.setdefault(tenant, {"agent": AgentDefinition("agent", command=("true",))})
        schedules = self.definitions.setdefault(tenant, {})
        for one in definitions:
            if isinstance(one, AgentDefinition):
                agents[one.name] = one
            else:
                schedules[one.name] = one
        self.put(tenant)

    def put(self, tenant: str = TENANT, store: RuntimeStore | None = None) -> None:
        wanted = want(tenant, "test.toml", agents=self.agents[tenant], schedules=self.definitions[tenant])
        (store or self.store).registry().apply(wanted, actor="test")

    def cron(self, name: str = "s", cron: str = "* * * * *", **fields: Any) -> None:  # noqa: ANN401  # of the definition
        zone = fields.pop("timezone", "UTC")
        tenant = fields.pop("tenant", TENANT)
        self.apply(ScheduleDefinition(name, "agent", cron=cron, timezone=zone, **fields), tenant=tenant)

    def every(self, name: str = "s", every: str = "10m", **fields: Any) -> None:  # noqa: ANN401  # of the definition
        self.apply(ScheduleDefinition(name, "agent", every=every, **fields))

    def tick(self, store: RuntimeStore | None = None) -> int:
        """Tick until nothing is due; return how many schedules were looked at."""
        total = 0
        while found := Ticker(store or self.store, new_id).step():
            total += found
            assert total < 10_000, "the ticker spins"
        return total

    def tick_at(self, *instants: datetime | str) -> None:
        for instant in instants:
            self.go_to(instant)
            self.tick()

    def lease(self, store: RuntimeStore | None = None, *, ttl: float = 30.0) -> LeasedRun | None:
        return (store or self.store).lease_run(
            lambda run: claim_for(run, lease_id=f"l-{new_id()}", supervisor=MYSELF, ttl_seconds=ttl), recheck_for
        )

    def leased(self, store: RuntimeStore | None = None, *, ttl: float = 30.0, start: bool = False) -> LeasedRun:
        found = self.lease(store, ttl=ttl)
        assert found is not None, "nothing could be leased"
        if start:
            (store or self.store).start_run(found)
        return found

    def offers(self, runs: Sequence[RunRow], *, ttl: float = 30.0, **fields: Any) -> list[Offer]:  # noqa: ANN401  # of the claim
        """Ask for these runs, each with a claim of its own."""
        claims = [claim_for(run, lease_id=f"l-{new_id()}", supervisor=MYSELF, ttl_seconds=ttl) for run in runs]
        return [Offer(claim.run_id, claim._replace(**fields)) for claim in claims]

    def lease_batch(self, limit: int = 100, store: RuntimeStore | None = None, **fields: Any) -> list[LeasedRun]:  # noqa: ANN401  # of the claim
        """Lease as many of the next runs as can go."""
        which = store or self.store
        return which.lease_runs(self.offers(which.next_runs(limit), **fields), recheck_for)

    def settle(self, leased: LeasedRun, settlement: Settlement = SUCCEEDED, outcome: str = "", **report: Any) -> None:  # noqa: ANN401  # of the report
        said = Report(outcome or settlement.state.value, **report)
        self.store.settle(leased.lease, settlement, said, clean=True)

    def work(self, settlement: Settlement = SUCCEEDED) -> LeasedRun:
        """Carry out the next run to its end."""
        leased = self.leased(start=True)
        self.settle(leased, settlement)
        return leased

    def reap(self, fate: Fate = Fate.UNKNOWN) -> int:
        store = self.store
        return Reaper(store, store, AnyFate(fate), store_now(store.clock_us)).step()  # type: ignore[arg-type]

    def run(self, run_id: str, tenant: str = TENANT) -> RunRow:
        found = self.store.run(run_id, tenant=tenant)
        assert found is not None
        return found

    def runs(self, schedule: str = "", tenant: str = TENANT) -> list[RunRow]:
        """Return all runs, oldest first."""
        return self.store.runs(tenant=tenant, schedule=schedule, limit=100_000)[::-1]

    def states(self, schedule: str = "") -> list[str]:
        return [f"{run.state} {run.reason}" if run.reason else run.state for run in self.runs(schedule)]

    def sql(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement that both databases understand, as somebody would by hand; $ stands for the schema."""
        if isinstance(self.rig, PostgresRig):
            cursor = self.rig._admin.execute(
                text.replace("$", "fencepost.").replace("?", "%s").encode(), values or None
            )
            return cursor.fetchall() if cursor.description else []
        assert isinstance(self.rig, SqliteRig)
        connection = self.rig.store.dialect._connection  # type: ignore[attr-defined]
        return connection.execute(text.replace("$", ""), values).fetchall()  # type: ignore[no-any-return]

    def ticks(self, schedule: str = "s") -> list[tuple[str, int, str]]:
        """Return slot, count and disposition of everything recorded, oldest first."""
        rows = self.sql(
            "SELECT slot, count, disposition FROM $tick WHERE schedule = ? ORDER BY tick_us, occurrence", schedule
        )
        return [(str(slot), int(number), str(kind)) for slot, number, kind in rows]

    def kinds(self, schedule: str = "s") -> list[str]:
        return [kind for _, _, kind in self.ticks(schedule)]

    def schedule(self, name: str = "s") -> dict[str, Any]:
        names = "cursor_us, due_us, version, once_done, last_run, last_ended_us, failures, last_success_us, seen"
        (row,) = self.sql(f"SELECT {names} FROM $schedule WHERE name = ?", name)
        return dict(zip(names.split(", "), row, strict=True))

    def audit(self, verb: str = "tick") -> list[dict[str, Any]]:
        rows = self.sql("SELECT detail FROM $audit WHERE verb = ? ORDER BY seq", verb)
        return [json.loads(detail) for (detail,) in rows]

    def contents(self) -> object:
        return self.rig.contents()


def at(text: str) -> datetime:
    """Read an instant in UTC, such as 2027-01-15T08:00."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def after(start: datetime, **span: float) -> datetime:
    return start + timedelta(**span)


def us(text: str) -> int:
    return to_us(at(text))


def together(task: Callable[[T], object], items: Sequence[T]) -> None:
    """Do a task for each item, in as many threads that start at one moment; raise what one of them raised."""
    barrier = Barrier(len(items))
    errors: list[BaseException] = []

    def work(item: T) -> None:
        barrier.wait()
        try:
            task(item)
        except BaseException as error:  # noqa: BLE001  # told to the test
            errors.append(error)

    threads = [Thread(target=work, args=(item,)) for item in items]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@contextmanager
def open_runtime(
    kind: str, folder: Path, url: Callable[[], str] = lambda: "", *, throwaway: bool = False
) -> Iterator[Runtime]:
    """Open a store of either kind, for tests that live elsewhere than the stores' own; a throwaway one is quicker."""
    if kind == "sqlite":
        with sqlite_rig(folder, throwaway=throwaway) as lite:
            yield Runtime(lite)
    else:
        with postgres_rig(url()) as many:
            yield Runtime(many)
