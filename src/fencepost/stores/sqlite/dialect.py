"""Transactions on one SQLite file: short, immediate, durable at COMMIT."""

from __future__ import annotations

import os

import apsw

from fencepost.model.errors import StoreUnavailable
from fencepost.model.fast_typing import TYPE_CHECKING, Any, Callable, Mapping
from fencepost.stores import sql
from fencepost.stores.sqlite.copy import Copied, FenceCopy
from fencepost.stores.sqlite.lock_line import GAP_MS, LOOK_MS, LockLine

if TYPE_CHECKING:
    from fencepost.ports.clock import Clock
    from fencepost.stores.sqlite.commit_group import CommitGroup, GroupedWork
    from fencepost.stores.sqlite.tables import SqliteTables
    from fencepost.stores.transaction import Later, Row, T

NEEDLESS = (  # in one file: schemas, types of values, locks of rows
    *("fencepost.", "::bigint", "::jsonb", "::text", "::boolean"),
    *(" FOR UPDATE SKIP LOCKED", " FOR NO KEY UPDATE", " FOR UPDATE", " FOR SHARE"),
)
BUSY_MS = 5_000
REFUSED = (apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError)  # the row itself is refused, at every try
STATEMENTS_KEPT = 512  # compiled; the wrapper keeps a hundred, and a station has more than that in turn
OF_BATCHES = ("lane_take", "settle_batch", "end_batch")  # written in the quickest of several ways, which spans.py knows


def _spelled(text: str) -> str:
    for words in NEEDLESS:
        text = text.replace(words, "")
    return text.replace("greatest(", "max(")


STATEMENTS = sql.load(__file__, _spelled)


class SqliteTransaction:
    """Named statements on an open transaction."""

    __slots__ = ("_connection", "_copy", "_store_id")

    def __init__(self, connection: apsw.Connection, copy: FenceCopy, store_id: str) -> None:
        self._connection = connection
        self._copy = copy
        self._store_id = store_id

    def rows(self, name: str, /, **values: object) -> list[Row]:
        """Run a named statement and return its rows."""
        if name in OF_BATCHES:
            from fencepost.stores.sqlite import spans

            return spans.WORKS[name](spans.Pen(self._execute, self._connection.changes), STATEMENTS[name], values)
        return self._execute(STATEMENTS[name], values)

    def _execute(self, text: str, values: Mapping[str, Any]) -> list[Row]:
        return self._connection.execute(text, values).fetchall()

    def later(self, name: str, /, **values: object) -> Later:
        """Run a named statement now: there is no server to travel to."""
        rows = self.rows(name, **values)
        return lambda: rows

    def remember(self, fence: int) -> None:
        """Put the fence into the copy before it is committed, and into the store-wide mark with the commit."""
        ((high,),) = self.rows("meta", key="fence_high")
        if fence > int(high):
            self._copy.write(Copied(self._store_id, committed=int(high), pending=fence))
            self.rows("lift_floor", fence=str(fence))

    def tables(self) -> SqliteTables:
        """Return the tables as such, for those who move all of them."""
        from fencepost.stores.sqlite.tables import SqliteTables

        return SqliteTables(self._connection)


class SqliteDialect:
    """One connection to one file."""

    works_apart = False
    __slots__ = ("_connection", "_copy", "_line", "_seen", "group", "path", "store_id")

    def __init__(
        self, path: str, connection: apsw.Connection, copy: FenceCopy, line: LockLine, *, store_id: str
    ) -> None:
        self.path = path
        self._line = line
        self.store_id = store_id
        self._connection = connection
        self._copy = copy
        self._seen = _inodes(path)
        self.group: CommitGroup | None = None  # the threads that commit with us

    def write(
        self,
        work: Callable[[SqliteTransaction], T],
        /,
        *,
        patient: bool = False,  # noqa: ARG002 - alone
        often: bool = False,  # noqa: ARG002 - alone
    ) -> T:
        """Take the write lock at once: a read that upgrades later would fail without waiting."""
        if self.group is not None:
            return self.group.write(work, self._lead)
        try:
            return self._transact(self._line.begin, work)
        finally:
            self._line.note_end()

    def read(self, work: Callable[[SqliteTransaction], T], /, *, patient: bool = False) -> T:  # noqa: ARG002 - alone
        """See one state and write nothing."""
        return self._transact(lambda: self._connection.execute("BEGIN"), work)

    def give_way(self) -> None:
        """Leave the lock alone for a moment: who waits for it does not stand in a line."""
        apsw.sleep(GAP_MS)

    def became(self, store_id: str, /) -> None:
        """Let the copy follow the file."""
        self.store_id = store_id

        def follow(tx: SqliteTransaction) -> None:
            ((high,),) = tx.rows("meta", key="fence_high")
            self._copy.write(Copied(store_id, int(high), int(high)))

        self.write(follow)

    def _transact(self, begin: Callable[[], object], work: Callable[[SqliteTransaction], T]) -> T:
        with errors_of(self.path):
            begin()
            try:
                self._check_files()
                answer = work(SqliteTransaction(self._connection, self._copy, self.store_id))
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            return answer

    def _lead(self, take: Callable[[], list[GroupedWork]]) -> None:
        """Carry out the works of all threads that wait once the lock is ours; what fails, fails alone, if the disk lets it."""
        works: list[GroupedWork] = []
        try:
            with errors_of(self.path):
                self._line.begin()
                self._check_files()
                works = take()
                for one in works:
                    self._carry_out(one)
                self._connection.execute("COMMIT")
        except BaseException as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            works = works or take()
            for one in works:
                one.error = one.error or error
            if not isinstance(error, Exception):
                raise
        finally:
            self._line.note_end()
            for one in works:
                one.is_over = True

    def _carry_out(self, one: GroupedWork) -> None:
        self._connection.execute("SAVEPOINT one")
        try:
            with errors_of(self.path):
                one.answer = one.work(SqliteTransaction(self._connection, self._copy, self.store_id))
        except Exception as error:
            if not self._connection.in_transaction:
                raise  # SQLite has given up all of it, as on a full disk
            self._connection.execute("ROLLBACK TO one")
            one.error = error
        self._connection.execute("RELEASE one")

    def _check_files(self) -> None:
        """Refuse to go on when the path no longer leads to the files that are open.

        A person who deletes or replaces them would otherwise have us write into a file without a
        name while all others start a second store.
        """
        if self._seen != _inodes(self.path):
            raise StoreUnavailable(f"{self.path} was moved, deleted or replaced while it was in use; start again.")

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
        self._copy.close()


def _waiting_for(busy_ms: int) -> Callable[[int], bool]:
    """Return how to wait for a lock of another connection, up to so long."""

    def wait(before: int) -> bool:
        if before * LOOK_MS >= busy_ms:
            return False
        apsw.sleep(LOOK_MS)
        return True

    return wait


def _inodes(path: str) -> list[int]:
    """Return what the database and its log are; the log exists for as long as a process has the database open."""
    return [_inode(path), _inode(f"{path}-wal")]


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return 0


def connect(path: str, clock: Clock, boot: str, *, busy_ms: int = BUSY_MS, throwaway: bool = False) -> apsw.Connection:
    """Open the file with the settings that durability rests on; defaults differ by build and wrapper.

    A `throwaway` file, such as a simulation's, need not survive anything.
    """
    connection = apsw.Connection(path, statementcachesize=STATEMENTS_KEPT)
    connection.set_busy_handler(_waiting_for(busy_ms))
    connection.create_scalar_function("awake_ns", lambda *_: clock.awake_ns(), 0)
    # Its clock is this host's. A statement asks it once and not for each row, which SQLite calls deterministic.
    for name in ("wall_us", "clock_us"):
        connection.create_scalar_function(name, lambda *_: clock.wall_us(), 0, deterministic=True)
    connection.create_scalar_function("boot_id", lambda *_: boot, 0)
    synchronous = "synchronous = OFF" if throwaway else "synchronous = FULL"
    for pragma in (synchronous, "fullfsync = 1", "checkpoint_fullfsync = 1", "mmap_size = 0"):
        connection.execute(f"PRAGMA {pragma}")
    ((mode,),) = connection.execute("PRAGMA journal_mode").fetchall()
    if mode != "wal":
        ((mode,),) = connection.execute("PRAGMA journal_mode = WAL").fetchall()
    if mode != "wal":
        raise StoreUnavailable(f"{path} cannot use write-ahead logging (journal mode {mode}); use a local disk.")
    return connection


class errors_of:  # noqa: N801  # reads as what it does: with errors_of(path)
    """Turns SQLite's errors into one sentence each."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Watch the block."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise StoreUnavailable in place of what SQLite said."""
        if isinstance(error, REFUSED):
            from fencepost.stores.transaction import RowRefused

            raise RowRefused(f"{self._path} does not take it: {error}.") from None
        sentence = sentence_for(self._path, error)
        if sentence:
            raise StoreUnavailable(sentence) from None


def sentence_for(path: str, error: BaseException | None) -> str | None:  # noqa: PLR0911  # one for each kind
    """Say in one sentence what is wrong and what helps; nothing for errors that are not the store's."""
    match error:
        case apsw.BusyError():
            return f"{path} was locked by another process for longer than we wait; find it with: fuser {path}"
        case apsw.NotADBError() | apsw.CorruptError():
            return (
                f"{path} is damaged or not a Fencepost store ({error}); nothing was changed. "
                f"Move it away, then: fencepost store restore BACKUP --store sqlite:{path}"
            )
        case apsw.ReadOnlyError():
            return f"{path} or its folder is read-only for this user; Fencepost has to write there."
        case apsw.CantOpenError():
            return f"{path} cannot be opened: it is closed to this user, or its folder is missing, full or read-only."
        case apsw.FullError():
            return f"the disk with {path} is full; nothing was changed. Free some space and try again."
        case apsw.IOError() | apsw.PermissionsError() | apsw.AuthError():
            return f"{path} could not be read or written ({error}). See whether its disk is full or failing."
        case apsw.SQLError() if str(error).startswith(("no such", "table ")):
            return (
                f"{path} no longer has what this Fencepost asks for ({error}): a newer one has migrated it. "
                "Upgrade this one; there is no way back for the store."
            )
        case OSError():
            return f"{error.filename or f'{path}.fence'} could not be written: {error.strerror}."
    return None
