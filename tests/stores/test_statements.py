"""Named statements are read when they are first asked for, also where several threads ask at once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from fencepost.stores.sql import Statements

THREADS, FILES = 8, 200


def test_threads_that_ask_at_once_all_get_their_statement(tmp_path: Path) -> None:
    for number in range(FILES):
        (tmp_path / f"{number:03}.sql").write_text(f"-- :name s{number}\nSELECT {number};\n")
    for _ in range(10):
        statements, together = Statements(str(tmp_path), str), Barrier(THREADS)

        def ask(number: int, statements: Statements = statements, together: Barrier = together) -> str:
            together.wait()
            return statements[f"s{number}"]

        with ThreadPoolExecutor(THREADS) as pool:
            wanted = [FILES - 1 - number for number in range(THREADS)]
            assert list(pool.map(ask, wanted)) == [f"SELECT {number};" for number in wanted]


def test_a_statement_that_is_nowhere_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("-- :name a\nSELECT 1;\n")
    with pytest.raises(KeyError):
        Statements(str(tmp_path), str)["b"]
