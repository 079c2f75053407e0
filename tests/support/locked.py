"""A store that another connection keeps locked."""

from collections.abc import Iterator
from contextlib import contextmanager

import apsw


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Keep every other writer out of a SQLite store."""
    connection = apsw.Connection(url.removeprefix("sqlite:"))
    connection.set_busy_timeout(10_000)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()
