"""What killed workers leave on a host, and who may start beside it."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from fencepost.model.process import Fate, ProcessId, fate_by_host
from fencepost.ports.processes import Processes, Traces
from fencepost.service.leftovers import LOOK_SECONDS, Leftovers
from fencepost.stores.runtime import RuntimeStore
from tests.stores.rig import MYSELF, SqliteRig, claim, sqlite_rig

GUARD = ProcessId(MYSELF.host, 4712, "777")


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SqliteRig]:
    with sqlite_rig(tmp_path) as found:
        yield found


class Table:
    """A process table in which somebody may live, be deaf to signals, or belong to a boot that is over."""

    def __init__(self, *alive: ProcessId, endable: bool = True, boot: str = MYSELF.host.boot) -> None:
        self.alive, self.endable = set(alive), endable
        self.ended: list[str] = []
        self._here = MYSELF.host._replace(boot=boot)

    def here(self) -> object:
        return self._here

    def fate(self, process: ProcessId) -> Fate:
        by_host = fate_by_host(process, self._here)
        return by_host if by_host is not None else Fate.ALIVE if process in self.alive else Fate.DEAD

    def signal_process(self, process: ProcessId, _: int) -> bool:
        return process in self.alive

    def end(self, traces: Traces, **_: float) -> bool:
        self.ended.append(traces.run_id)
        return self.endable


class Host:
    """A worker's view of its host, with one lost lease in the store."""

    def __init__(self, rig: SqliteRig, table: Table) -> None:
        self.rig, self.table, self.said = rig, table, list[str]()
        rig.store.acquire(claim("run:r1")._replace(run_id="r1", guard=GUARD))
        (held,) = rig.store.leases()
        rig.store.break_lease(held, why="holder dead")
        self.now = 0.0
        self._leftovers = Leftovers(cast("Processes", table), self, self.said.append)  # type: ignore[arg-type]

    def awake_ns(self) -> int:
        return round(self.now * 1e9)

    def clear(self) -> None:
        self.now += LOOK_SECONDS
        self._leftovers.clear(RuntimeStore(self.rig.store))

    @property
    def lost(self) -> list[str]:
        return [held.run_id for held in self.rig.store.leases()]


def test_what_nobody_guards_is_ended_and_forgotten_at_once(rig: SqliteRig) -> None:
    host = Host(rig, Table())
    host.clear()
    assert (host.table.ended, host.lost) == (["r1"], [])


def test_a_guard_that_is_still_at_it_is_not_waited_for(rig: SqliteRig) -> None:
    host = Host(rig, Table(GUARD))
    host.clear()
    assert (host.table.ended, host.lost) == (["r1", "r1"], [])  # while the guard was stopped, and once more after it


def test_a_holder_that_lives_is_nobodys_leftover(rig: SqliteRig) -> None:
    host = Host(rig, Table(MYSELF, GUARD))
    host.clear()
    assert (host.table.ended, host.lost) == ([], ["r1"])


def test_what_cannot_be_ended_from_here_is_said_once_and_stops_nobody(rig: SqliteRig) -> None:
    host = Host(rig, Table(endable=False))
    host.clear()
    host.clear()
    assert host.said == ["warning: what run r1 left alive here could not be ended; it is fenced."]
    assert host.lost == ["r1"]


def test_what_ran_before_a_reboot_is_forgotten_without_a_search(rig: SqliteRig) -> None:
    host = Host(rig, Table(boot="boot-2"))
    host.clear()
    assert (host.table.ended, host.lost) == ([], [])
