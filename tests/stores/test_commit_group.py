"""Threads of one process that commit together: one flush for all who wait, and each its own answer."""

import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from fencepost.model.errors import FencepostError, Invalid, StoreUnavailable
from fencepost.stores.sqlite.commit_group import CommitGroup
from fencepost.stores.sqlite.dialect import SqliteTransaction
from fencepost.stores.sqlite.store import SqliteStore
from fencepost.stores.transaction import RowRefused
from tests.stores.rig import lay_down, opening
from tests.support.ground import until

THREADS = 8


class Callers:
    """As many threads as there are works, each with a connection of its own, all waiting while somebody else writes."""

    def __init__(self, path: Path) -> None:
        lay_down(path)
        self.path = path
        self.group = CommitGroup()
        self.commits = 0
        self.fails = False
        self.answers: dict[int, object] = {}

    def open(self) -> SqliteStore:
        store = opening(self.path).open(new_id="x")
        store.dialect.group = self.group
        store.dialect._connection.set_commit_hook(self._count)
        return store

    def _count(self) -> bool:
        self.commits += 1
        return self.fails

    def write_together(self, works: list[Callable[[SqliteTransaction], object]]) -> None:
        """Have all works wait for one lock; return when each has its answer or its error."""
        other = apsw.Connection(str(self.path))
        other.execute("BEGIN IMMEDIATE")
        stores = [self.open() for _ in works]
        self.commits = 0
        threads = [threading.Thread(target=self._write, args=(i, stores[i], work)) for i, work in enumerate(works)]
        for thread in threads:
            thread.start()
        until(lambda: len(self.group._waiting) == len(works), "all of them wait")
        other.execute("ROLLBACK")
        other.close()
        for thread in threads:
            thread.join(20)
        for store in stores:
            store.close()

    def _write(self, number: int, store: SqliteStore, work: Callable[[SqliteTransaction], object]) -> None:
        try:
            self.answers[number] = store.dialect.write(work)
        except FencepostError as error:
            self.answers[number] = error

    def marks(self) -> list[str]:
        """Return what was written."""
        rows = apsw.Connection(str(self.path)).execute("SELECT key FROM meta WHERE key LIKE 'mark-%' ORDER BY key")
        return [str(key) for (key,) in rows]


@pytest.fixture
def callers(tmp_path: Path) -> Callers:
    return Callers(tmp_path / "state.db")


def marking(number: int) -> Callable[[SqliteTransaction], int]:
    def work(tx: SqliteTransaction) -> int:
        tx._connection.execute("INSERT INTO meta (key, value) VALUES (?, '')", (f"mark-{number}",))
        return number

    return work


def refusing(tx: SqliteTransaction) -> None:
    marking(99)(tx)
    raise Invalid("no.")


def test_all_that_wait_for_a_commit_have_it_in_one_flush_each_with_its_own_answer(callers: Callers) -> None:
    callers.write_together([marking(number) for number in range(THREADS)])

    assert callers.answers == {number: number for number in range(THREADS)}
    assert callers.marks() == [f"mark-{number}" for number in range(THREADS)]
    assert callers.commits == 1


def test_a_work_that_refuses_changes_nothing_and_is_alone_with_its_error(callers: Callers) -> None:
    callers.write_together([marking(0), refusing, marking(2)])

    assert isinstance(callers.answers[1], Invalid)
    assert (callers.answers[0], callers.answers[2]) == (0, 2)
    assert callers.marks() == ["mark-0", "mark-2"]


def test_a_row_that_is_refused_is_said_to_its_caller_alone(callers: Callers) -> None:
    callers.write_together([marking(7), marking(7)])

    errors = [answer for answer in callers.answers.values() if isinstance(answer, Exception)]
    assert ["does not take it" in str(error) for error in errors] == [True]
    assert callers.marks() == ["mark-7"]


def test_if_the_commit_fails_everybody_hears_it_and_nothing_is_kept(callers: Callers) -> None:
    callers.fails = True
    callers.write_together([marking(0), refusing, marking(2)])

    assert [type(callers.answers[number]) for number in (0, 2)] == [RowRefused] * 2
    assert isinstance(callers.answers[1], Invalid)
    assert callers.marks() == []


def test_a_lock_that_is_never_given_up_is_said_to_all_at_once(callers: Callers) -> None:
    other = apsw.Connection(str(callers.path))
    stores = [opening(callers.path, busy_ms=300).open(new_id="x") for _ in range(4)]
    other.execute("BEGIN IMMEDIATE")
    threads = []
    for number, store in enumerate(stores):
        store.dialect.group = callers.group
        threads.append(threading.Thread(target=callers._write, args=(number, store, marking(number))))
        threads[-1].start()
    for thread in threads:
        thread.join(60)
    other.execute("ROLLBACK")

    assert [isinstance(answer, StoreUnavailable) for answer in callers.answers.values()] == [True] * 4
    assert callers.marks() == []
    store.dialect.write(marking(5))
    assert callers.marks() == ["mark-5"], "and the next one may"
