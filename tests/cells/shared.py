"""Two machines at one store of any kind: cells on every kind of server, SQLite and PostgreSQL."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from fencepost.model.lease import Claim, Granted, Lease, Refused
from fencepost.model.process import Host, ProcessId
from fencepost.model.tick_claim import TickOrder, TickOver
from fencepost.model.trigger import cron_trigger
from fencepost.model.zoned_cron import ZonedCron
from fencepost.ports.store import LeaseStore
from tests.cells.grounds import ONCE, Machines, ground_of
from tests.stores.rig import Rig, postgres_rig, sqlite_rig

EVERY_KIND = (*ONCE, "sqlite", "postgresql")
PATIENCE = 1.25
TTL = 30.0
_numbers = count(1)


class Caller:
    """One machine whose cron calls now and then, with a wall clock of its own."""

    def __init__(self, name: str, store: LeaseStore, now_us: Callable[[], int], watch: Callable[[float], None]) -> None:
        self.name = name
        self.store = store
        self.skew_us = 0
        self._now_us = now_us
        self._watch = watch
        self.host = Host(name, f"machine-{name}", f"boot-{name}", "pid:1")

    def wall_us(self) -> int:
        return self._now_us() + self.skew_us

    def claim(self, cron: str, zone: str = "UTC", *, gates: tuple[str, ...] = (), **policies: Any) -> Claim:  # noqa: ANN401
        trigger = cron_trigger(cron, zone)
        job = policies.pop("job", "digest")
        order = TickOrder(job, cron, zone, ZonedCron(trigger.cron, trigger.zone), self.wall_us, **policies)
        number = next(_numbers)
        process = ProcessId(self.host, 5000 + number, str(number))
        return Claim(
            f"{self.name}-{number}", "default", ("lock:digest",), f"run-{number}", TTL, process, starts=True, tick=order
        )._replace(gates=gates)

    def call(self, cron: str, zone: str = "UTC", **policies: Any) -> Lease | Refused | TickOver:  # noqa: ANN401
        """Ask for the newest tick, as a crontab line does."""
        dead = policies.pop("dead", ())
        try:
            answer = self.store.acquire(self.claim(cron, zone, **policies), dead=dead)
        except TickOver as over:
            return over
        return answer.lease if isinstance(answer, Granted) else answer

    def runs(self, cron: str, zone: str = "UTC", **policies: Any) -> Lease:  # noqa: ANN401
        lease = self.call(cron, zone, **policies)
        assert isinstance(lease, Lease), lease
        assert lease.tick is not None
        return lease

    def is_over(self, cron: str, zone: str = "UTC", **policies: Any) -> TickOver:  # noqa: ANN401
        over = self.call(cron, zone, **policies)
        assert isinstance(over, TickOver), over
        return over

    def watch_until_silent(self, cron: str) -> None:
        """Let the time go by after which a silent holder may be replaced."""
        self.call(cron)
        self._watch(PATIENCE * TTL)


class Pair:
    """Two callers, and the time that passes for both and for the store."""

    def __init__(self, a: Caller, b: Caller, *, pass_time: Callable[[float], None], now_us: Callable[[], int]) -> None:
        self.a = a
        self.b = b
        self.pass_time = pass_time
        self.now_us = now_us

    def go_to(self, us: int) -> None:
        self.pass_time((us - self.now_us()) / 1e6)


@contextmanager
def pair_at(kind: str, folder: Path, ask: Callable[[str], Any], postgres_url: Callable[[], str]) -> Iterator[Pair]:
    if kind in ONCE:
        with ground_of(kind, folder, ask) as ground:
            machines = Machines(ground, folder)
            try:
                yield _of_cells(machines)
            finally:
                machines.close()
    elif kind == "sqlite":
        with sqlite_rig(folder) as lite:
            yield _of_rig(lite)
    else:
        with postgres_rig(postgres_url()) as many:
            yield _of_rig(many)


def _of_rig(rig: Rig) -> Pair:
    callers = [Caller(name, rig.open_another(), rig.now_us, rig.pass_time) for name in ("a", "b")]
    return Pair(*callers, pass_time=rig.pass_time, now_us=rig.now_us)


def _of_cells(machines: Machines) -> Pair:
    one, other = machines("a"), machines("b")

    def pass_time(seconds: float) -> None:
        one.clock.pass_time(seconds)
        other.clock.pass_time(seconds)

    for machine in (one, other):
        machine.store._exchange._cells = _NoClock(machine.store._cells)
    callers = [Caller(each.name, each.store, one.clock.wall_us, pass_time) for each in (one, other)]
    return Pair(*callers, pass_time=pass_time, now_us=one.clock.wall_us)


class _NoClock:
    """Cells whose server's clock is not told: the test moves its own, and the server's stands where it is."""

    def __init__(self, cells: Any) -> None:  # noqa: ANN401
        self._cells = cells

    def read(self, names: Any, *, seconds: float) -> Any:  # noqa: ANN401
        return {name: one._replace(store_us=None) for name, one in self._cells.read(names, seconds=seconds).items()}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._cells, name)
