"""Who waits for the file of an SQLite store is let pass by who writes all the time."""

import os
from pathlib import Path
from threading import Event, Thread

import apsw

from fencepost.stores.sqlite.copy import Copied, FenceCopy
from fencepost.stores.sqlite.dialect import SqliteDialect
from tests.stores.rig import open_sqlite

TURNS_MAX = 20  # a machine may be slow; a writer that only looks now and then would need many times as many


def copies(folder: Path) -> tuple[FenceCopy, FenceCopy]:
    one, other = FenceCopy(str(folder / "state.db")), FenceCopy(str(folder / "state.db"))
    one.write(Copied("s", 1, 1))
    return one, other


def test_who_stands_in_line_is_seen_until_it_leaves(tmp_path: Path) -> None:
    waiting, hasty = copies(tmp_path)
    assert hasty.is_line_empty()
    assert waiting.stand_in_line()
    assert not hasty.is_line_empty()
    waiting.leave_line()
    assert hasty.is_line_empty()


def test_several_stand_in_line_and_each_is_seen(tmp_path: Path) -> None:
    waiting, hasty = copies(tmp_path)
    third = FenceCopy(str(tmp_path / "state.db"))
    assert waiting.stand_in_line()
    assert third.stand_in_line()
    waiting.leave_line()
    assert not hasty.is_line_empty()
    third.leave_line()
    assert hasty.is_line_empty()


def test_who_dies_in_line_stands_there_no_more(tmp_path: Path) -> None:
    _, hasty = copies(tmp_path)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        FenceCopy(str(tmp_path / "state.db")).stand_in_line()
        os.write(writer, b".")
        os._exit(0)
    os.read(reader, 1)
    os.waitpid(child, 0)
    assert hasty.is_line_empty()


def test_without_a_copy_the_line_is_empty_and_none_can_stand_in_it(tmp_path: Path) -> None:
    copy = FenceCopy(str(tmp_path / "state.db"))
    assert (copy.stand_in_line(), copy.is_line_empty()) == (False, True)


def test_who_writes_all_the_time_lets_pass_who_waits(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    hasty, seldom = open_sqlite(path).dialect, open_sqlite(path).dialect
    assert isinstance(hasty, SqliteDialect)
    hasty.became("s")  # which makes the copy, as the first grant does
    is_held, is_done = Event(), Event()
    turns: list[bool] = []

    def hold(_: object) -> None:
        is_held.set()
        apsw.sleep(5)

    def write_all_the_time() -> None:
        while not is_done.is_set() and len(turns) < 50 * TURNS_MAX:
            hasty.write(hold)
            turns.append(True)

    thread = Thread(target=write_all_the_time)
    thread.start()
    is_held.wait()
    before = len(turns)
    seldom.write(lambda tx: tx.rows("clock"))
    took = len(turns) - before
    is_done.set()
    thread.join()
    assert took <= TURNS_MAX
