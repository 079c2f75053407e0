"""Transactions on one SQLite file: short, immediate, durable at COMMIT."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from fencepost.model.errors import StoreUnavailable
from fencepost.ports.clock import Clock
from fencepost.stores import sql
from fencepost.stores.sqlite.copy import Copied, FenceCopy
from fencepost.stores.transaction import Row

STATEMENTS = sql.load(__file__)
BUSY_MS = 5_000


class SqliteTransaction:
    """Named statements on an open transaction."""

    __slots__ = ("_connection", "_copy", "_store_id")

    def __init__(self, connection: apsw.Connection, copy: FenceCopy, store_id: str) -> None:
        self._connection = connection
        self._copy = copy
        self._store_id = store_id

    def rows(self, name: str, /, **values: object) -> list[Row]:
        """Run a named statement and return its rows."""
        return self._connection.execute(STATEMENTS[name], values).fetchall()

    def remember(self, fence: int) -> None:
        """Put the fence into the copy before it is committed, and into the store-wide mark with the commit."""
        ((high,),) = self.rows("meta", key="fence_high")
        if fence > int(high):
            self._copy.write(Copied(self._store_id, committed=int(high), pending=fence))
            self.rows("lift_floor", fence=str(fence))


class SqliteDialect:
    """One connection to one file."""

    __slots__ = ("_connection", "_copy", "_seen", "path", "store_id")

    def __init__(self, path: str, connection: apsw.Connection, copy: FenceCopy, *, store_id: str) -> None:
        self.path = path
        self.store_id = store_id
        self._connection = connection
        self._copy = copy
        self._seen: dict[str, int] = {}

    @contextmanager
    def writing(self) -> Iterator[SqliteTransaction]:
        """Take the write lock at once: a read that upgrades later would fail without waiting."""
        with self._transaction("BEGIN IMMEDIATE") as tx:
            self._same_file()
            yield tx

    @contextmanager
    def reading(self) -> Iterator[SqliteTransaction]:
        """See one state and write nothing."""
        with self._transaction("BEGIN") as tx:
            yield tx

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[SqliteTransaction]:
        with errors_of(self.path):
            self._connection.execute(begin)
            try:
                yield SqliteTransaction(self._connection, self._copy, self.store_id)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _same_file(self) -> None:
        """Refuse to go on when the path no longer leads to the files that are open.

        Somebody who deletes or replaces them would otherwise have us write into a file without a
        name while everybody else starts a second store.
        """
        for path in (self.path, f"{self.path}-wal"):
            try:
                inode = os.stat(path).st_ino
            except FileNotFoundError:
                inode = 0
            if self._seen.setdefault(path, inode) != inode:
                raise StoreUnavailable(f"{path} was moved, deleted or replaced while it was in use; start again.")

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
        self._copy.close()


def connect(path: str, clock: Clock, boot: str) -> apsw.Connection:
    """Open the file with the settings that durability rests on; defaults differ by build and wrapper."""
    connection = apsw.Connection(path)
    connection.set_busy_timeout(BUSY_MS)
    connection.create_scalar_function("awake_ns", lambda *_: clock.awake_ns(), 0)
    connection.create_scalar_function("wall_us", lambda *_: clock.wall_us(), 0)
    connection.create_scalar_function("boot_id", lambda *_: boot, 0)
    for pragma in ("synchronous = FULL", "fullfsync = 1", "checkpoint_fullfsync = 1", "mmap_size = 0"):
        connection.execute(f"PRAGMA {pragma}")
    ((mode,),) = connection.execute("PRAGMA journal_mode").fetchall()
    if mode != "wal":
        ((mode,),) = connection.execute("PRAGMA journal_mode = WAL").fetchall()
    if mode != "wal":
        raise StoreUnavailable(f"{path} cannot use write-ahead logging (journal mode {mode}); use a local disk.")
    return connection


@contextmanager
def errors_of(path: str) -> Iterator[None]:
    """Turn SQLite's errors into one sentence each."""
    try:
        yield
    except apsw.BusyError:
        raise StoreUnavailable(
            f"{path} was locked by another process for {BUSY_MS // 1000} s; find it with: fuser {path}"
        ) from None
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise StoreUnavailable(
            f"{path} is damaged or not a Fencepost store ({error}); nothing was changed. "
            f"Move it away, then: fencepost store restore BACKUP --store sqlite:{path}"
        ) from None
    except apsw.ReadOnlyError:
        raise StoreUnavailable(
            f"{path} or its folder is read-only for this user; Fencepost has to write there."
        ) from None
    except apsw.CantOpenError:
        raise StoreUnavailable(
            f"{path} cannot be opened; check that its folder exists and may be written to."
        ) from None
    except apsw.FullError:
        raise StoreUnavailable(
            f"the disk with {path} is full; nothing was changed. Free some space and try again."
        ) from None
    except (apsw.IOError, apsw.PermissionsError, apsw.AuthError) as error:
        raise StoreUnavailable(f"{path} could not be read or written ({error}).") from None
