"""The real store behind an unreliable line: every transaction of every verb, whoever asks, is a point where things go wrong."""

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Protocol, TypeVar

from fencepost.model.errors import FencepostError, StoreUnavailable
from fencepost.ports.store import StoreFacts
from fencepost.stores.registry import SqlRegistry
from fencepost.stores.run_ends import Unexpected
from fencepost.stores.runtime import RuntimeStore
from fencepost.stores.transaction import Dialect, Later, Row, Tables, Transaction
from tests.simulation.clocks import DatabaseTime, Moment
from tests.simulation.faults import Fault, Faults, Knobs, call
from tests.simulation.hosts import Host, Process
from tests.simulation.runtime.engines import Engine, Reached
from tests.simulation.world import World

T = TypeVar("T")
UNREACHABLE = "the store cannot be reached (simulated)"
ALL = "*"  # tables may have been changed as such
PASSING = ("_call", "_prune", "read", "write", "_ask", "<lambda>")


class Watcher(Protocol):
    """Who looks at the store after every commit."""

    def committed(self, seen: "Seen") -> None: ...

    def refused(self, verb: str) -> None: ...

    def went_back(self) -> None: ...


class Seen(NamedTuple):
    """A transaction that has just been committed: by whom, for which verb, and what it may have changed."""

    process: Process
    verb: str
    tables: set[str] | None  # all of them


class Place:
    """Where the store is: its clock, its connections, and what it went back to."""

    def __init__(self, world: World, knobs: Knobs, engine: Engine, *, epoch_us: int) -> None:
        self.world = world
        self.knobs = knobs
        self.engine = engine
        self.database_time = DatabaseTime(world, epoch_us=epoch_us)
        self.generation = 0
        self.watcher: Watcher | None = None
        self._stores: dict[tuple[str, int], Reached] = {}

    def runtime(self, process: Process, faults: Faults) -> RuntimeStore:
        """Return every verb of the runtime, as one process has it."""
        return RuntimeStore(Line(self, process, faults))

    def registry(self, process: Process, faults: Faults) -> SqlRegistry:
        """Return the verbs of the registry, as one process has them."""
        return SqlRegistry(Line(self, process, faults).dialect)

    def store(self, host: Host) -> Reached:
        """Return the host's connection, which no two transactions share in time."""
        key = (host.identity.boot, self.generation)
        if key not in self._stores:
            self._stores[key] = self.engine.open(host, self.database_time)
        return self._stores[key]

    def dialect(self, host: Host) -> Dialect:
        """Return how the host carries out a transaction now."""
        return self.engine.dialect(self.store(host), self.now(host).wall_us)

    def now(self, host: Host) -> Moment:
        """Return the store's time, as it is seen from this host."""
        time = self.database_time if self.knobs.many_hosts else host.time
        return Moment("server" if self.knobs.many_hosts else host.identity.boot, time.awake_ns(), time.wall_us())

    def back_up(self) -> None:
        """Keep what the store holds now, to go back to it later."""
        self.engine.back_up()
        self.world.log("store", "is backed up")

    def restore(self) -> bool:
        """Put the old content in place of the new, as a failover does that loses its tail."""
        if not self.engine.restore():
            return False
        self.generation += 1
        self._stores.clear()
        self.world.log("store", "went back in time")
        self.world.totals["lost tails"] += 1
        assert self.watcher is not None
        self.watcher.went_back()
        return True

    def close(self) -> None:
        self.engine.close()


class Line:
    """An opened store, as one process has it: the real one at the other end of a line that may fail."""

    def __init__(self, place: Place, process: Process, faults: Faults) -> None:
        self.dialect = FaultyDialect(place, process, faults)
        self._place = place
        self._process = process

    def facts(self) -> StoreFacts:
        facts = self._place.store(self._process.host).facts()
        return facts._replace(counts_sleep=self._place.knobs.many_hosts)

    def close(self) -> None:
        """Nothing to do: the host keeps its connection."""


class FaultyDialect:
    """Carries transactions out for real, or not, or without telling."""

    works_apart = False

    def __init__(self, place: Place, process: Process, faults: Faults) -> None:
        self._place = place
        self._process = process
        self._faults = faults
        self._since = place.generation

    def write(self, work: Callable[[Transaction], T], /, *, patient: bool = False, often: bool = False) -> T:
        del often  # for servers
        return self._call(work, writes=True, patient=patient)

    def read(self, work: Callable[[Transaction], T], /, *, patient: bool = False) -> T:
        return self._call(work, writes=False, patient=patient)

    def give_way(self) -> None:
        """Do nothing: between two calls everybody has a turn here."""

    def became(self, store_id: str, /) -> None:
        raise AssertionError(f"nobody gives the store the name {store_id}")

    def _call(self, work: Callable[[Transaction], T], *, writes: bool, patient: bool) -> T:
        verb, world = _verb(), self._place.world
        fault = self._faults.at_store()
        if fault is Fault.NONE and self._process.host.cut_off:
            fault = Fault.BEFORE
        if fault is Fault.TWICE or (fault is Fault.LATE and not writes):
            fault = Fault.NONE  # a transaction is a dialogue: the network cannot repeat it
        if fault in (Fault.BEFORE, Fault.DIE_BEFORE) and writes and world.chance(0.5):
            self._broken_off(work)
        outcome = call(
            world,
            self._process,
            verb="renew" if verb == "renew" else "call",
            fault=fault,
            effect=lambda: self._effect(verb, work, writes=writes, patient=patient),
            error=StoreUnavailable(UNREACHABLE),
            faults=self._faults,
        )
        if isinstance(outcome, FencepostError | Unexpected):
            raise outcome
        return outcome  # type: ignore[return-value]  # what the work returned

    def _effect(
        self, verb: str, work: Callable[[Transaction], T], *, writes: bool, patient: bool
    ) -> T | FencepostError | Unexpected:
        """Do it, and let the watcher look before anybody else gets a turn."""
        if not self._process.host.usable and not self._place.knobs.many_hosts:
            return StoreUnavailable("the host of this late request is down")
        if self._since != self._place.generation and not self._place.knobs.many_hosts:
            return StoreUnavailable("the file was replaced while it was open")
        real = self._place.dialect(self._process.host)
        names: list[str] = []
        try:
            carry_out = real.write if writes else real.read
            answer = carry_out(lambda tx: work(_Recorded(tx, names)), patient=patient)
        except (FencepostError, Unexpected) as error:  # the latter undoes a turn, which is then done with a look first
            self._log(verb, type(error).__name__)
            if writes:
                assert self._place.watcher is not None
                self._place.watcher.refused(verb)
            return error
        if writes:
            self._log(verb, _shown(answer))
            self._place.world.totals["transactions"] += 1
            assert self._place.watcher is not None
            tables = None if ALL in names else self._place.engine.written_by(names)
            self._place.watcher.committed(Seen(self._process, verb, tables))
        return answer

    def _broken_off(self, work: Callable[[Transaction], T]) -> None:
        """Do it and die before the commit: nothing of it may be left, in the store or in the caller's hands."""
        if not self._process.host.usable or self._since != self._place.generation:
            return

        def half(tx: Transaction) -> None:
            work(tx)
            raise _BrokenOffError

        with suppress(_BrokenOffError, FencepostError):
            self._place.dialect(self._process.host).write(half)
        self._place.world.totals["transactions broken off"] += 1

    def _log(self, verb: str, answer: str) -> None:
        self._place.world.log(self._process.name, f"{verb} -> {answer}")


class _BrokenOffError(Exception):
    """The process is gone before its COMMIT."""


class _Recorded:
    """A transaction that notes which statements were used."""

    def __init__(self, tx: Transaction, names: list[str]) -> None:
        self._tx = tx
        self._names = names

    def rows(self, name: str, /, **values: object) -> list[Row]:
        self._names.append(name)
        return self._tx.rows(name, **values)

    def later(self, name: str, /, **values: object) -> Later:
        self._names.append(name)
        return self._tx.later(name, **values)

    def remember(self, fence: int) -> None:
        self._tx.remember(fence)

    def tables(self) -> Tables:
        self._names.append(ALL)
        return self._tx.tables()


def _verb() -> str:
    """Name the store's method that is under way, for the trace."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_name in PASSING:
        frame = frame.f_back
    return frame.f_code.co_name


def _shown(answer: object) -> str:
    """Spell an answer for the trace, if it is short and the same in every process."""
    return str(answer) if answer is None or isinstance(answer, bool | int) else type(answer).__name__
