"""Opens the embedded store, and refuses a file that cannot keep the promises."""

from __future__ import annotations

import os
from stat import S_ISDIR

import apsw

from fencepost.model.errors import StoreUnavailable
from fencepost.model.fast_typing import TYPE_CHECKING, Callable
from fencepost.ports.store import StoreFacts
from fencepost.stores import sql
from fencepost.stores.leases import SqlLeases
from fencepost.stores.schema import check_schema, missing_migrations, unheard
from fencepost.stores.sqlite.copy import Copied, FenceCopy, sync_folder
from fencepost.stores.sqlite.dialect import BUSY_MS, SqliteDialect, SqliteTransaction, connect, errors_of
from fencepost.stores.sqlite.lock_line import LockLine

if TYPE_CHECKING:
    from fencepost.ports.clock import Clock

SAFE_WAL = 3_051_003  # releases before 3.51.3 can corrupt a WAL file that several connections write
APPLICATION = 0x46454E43  # "FENC" in the file's header: no other program's database is taken for ours
WRITABLE_BY_OTHERS = 0o022
FREE_FOR_ALL, OPEN_TO_ALL = 0o1002, 0o0002  # a folder that every user may write to, unless it is sticky as /tmp is


class SqliteStore(SqlLeases):
    """The embedded store: one file, many processes, one machine."""

    def __init__(self, dialect: SqliteDialect, meta: dict[str, str], notices: tuple[str, ...]) -> None:
        super().__init__(dialect, meta["store_id"])
        self._sqlite = dialect
        self._facts = StoreFacts(
            id=meta["store_id"],
            url=f"sqlite:{dialect.path}",
            kind="sqlite",
            schema=int(meta["schema"]),
            counts_sleep=False,
            notices=notices,
        )

    @property
    def dialect(self) -> SqliteDialect:
        """How it carries out transactions."""
        return self._sqlite

    def facts(self) -> StoreFacts:
        """Say who this store is."""
        return self._facts

    def close(self) -> None:
        """Let go of the file."""
        self._sqlite.close()


class Opening:
    """Everything that stands between a path and a store that may be trusted."""

    def __init__(
        self,
        path: str,
        *,
        clock: Clock,
        boot: str,
        network_kind: Callable[[str], str | None],
        busy_ms: int = BUSY_MS,
        throwaway: bool = False,
        synced_by: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        """Open under this host's clock and boot.

        `network_kind` names a network file system, `synced_by` the service that copies the folder to other machines.
        """
        self.path = os.path.abspath(path)
        self._clock = clock
        self._boot = boot
        self._network_kind = network_kind
        self._busy_ms = busy_ms
        self._throwaway = throwaway
        self._synced_by = synced_by

    def open(self, *, new_id: str) -> SqliteStore:
        """Open the file, creating it and its folder if need be; `new_id` names a store that is new."""
        with errors_of(self.path):
            connection, copy = self._connect()
            try:
                newest = newest_schema()
                meta, _ = self._bring_up(connection, copy, new_id, newest)
                check_schema(f"sqlite:{self.path}", meta, newest=newest)
                line = LockLine(connection, copy, self._clock, busy_ms=self._busy_ms)
                dialect = SqliteDialect(self.path, connection, copy, line, store_id=meta["store_id"])
                return SqliteStore(dialect, meta, catch_up(dialect, copy, meta))
            except BaseException:
                connection.close()
                copy.close()
                raise

    def migrate(self, *, new_id: str, progress: Callable[[int, int], None] = unheard) -> tuple[int, int]:
        """Bring the file to this program's schema, as every opening does; return the schema before and after."""
        with errors_of(self.path):
            connection, copy = self._connect()
            try:
                meta, before = self._bring_up(connection, copy, new_id, newest_schema(), progress)
            finally:
                connection.close()
                copy.close()
            return before, int(meta["schema"])

    def _connect(self) -> tuple[apsw.Connection, FenceCopy]:
        check_library(apsw.sqlite_lib_version())
        self.check_place()
        make_file(self.path)
        connection = connect(self.path, self._clock, self._boot, busy_ms=self._busy_ms, throwaway=self._throwaway)
        return connection, FenceCopy(self.path, throwaway=self._throwaway)

    def _bring_up(
        self,
        connection: apsw.Connection,
        copy: FenceCopy,
        new_id: str,
        newest: int,
        progress: Callable[[int, int], None] = unheard,
    ) -> tuple[dict[str, str], int]:
        meta = self._read_meta(connection)
        before = int(meta.get("schema", 0))
        if before < newest:
            before = migrate(connection, copy, new_id=new_id, progress=progress)
            meta = self._read_meta(connection)
        return meta, before

    def check_place(self) -> None:
        """Refuse a place where SQLite's file cannot be one for all: a network file system, a folder that is copied."""
        kind = self._network_kind(self.path)
        if kind:
            raise StoreUnavailable(
                f"{self.path} is on a network file system ({kind}), where SQLite's locks cannot be trusted; "
                "put the store on a local disk, or set FENCEPOST_STORE=postgresql://… for several machines."
            )
        service = self._synced_by(self.path)
        if service:
            raise StoreUnavailable(
                f"{self.path} is in a folder that {service} copies to other machines, each of which would have a store of its "
                "own until the copies collide. Put the store on a local disk; for several machines without a server, set "
                "FENCEPOST_STORE=git+ssh://git@host/team/site.git, or another kind: see docs/reference/stores.md."
            )

    def _read_meta(self, connection: apsw.Connection) -> dict[str, str]:
        connection.execute("BEGIN")  # one state: another process may be setting the file up at this moment
        try:
            ((application,),) = connection.execute("PRAGMA application_id").fetchall()
            if application == APPLICATION:
                return {str(key): str(value) for key, value in connection.execute("SELECT key, value FROM meta")}
            if connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
                raise StoreUnavailable(f"{self.path} is another program's database; name a file of Fencepost's own.")
            return {}
        finally:
            connection.execute("ROLLBACK")


def check_library(version: str) -> None:
    """Refuse an SQLite that can corrupt the file under normal use."""
    major, minor, patch = (int(part) for part in version.split(".")[:3])
    if major * 1_000_000 + minor * 1_000 + patch < SAFE_WAL:
        raise StoreUnavailable(
            f"SQLite {version} can corrupt a file that several processes write; install apsw 3.51.3 or newer."
        )


def make_file(path: str) -> None:
    """Create the file for its owner only, before SQLite opens it; refuse one that others may change."""
    folder = os.path.dirname(path)
    try:
        if not os.path.isdir(folder):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        sync_folder(path)
    except FileExistsError:
        pass  # the usual case: it was made earlier
    except OSError as error:
        raise StoreUnavailable(
            f"{path} cannot be created: {error.strerror}. Name another place with --store or FENCEPOST_STORE."
        ) from None
    found = os.stat(path)
    if S_ISDIR(found.st_mode):
        raise StoreUnavailable(f"{path} is a directory; name a file in it, such as sqlite:{path}/state.db")
    if found.st_mode & WRITABLE_BY_OTHERS and found.st_uid in (os.getuid(), 0):
        raise StoreUnavailable(f"{path} may be changed by other users; forbid that with: chmod 600 {path}")
    if os.stat(folder or ".").st_mode & FREE_FOR_ALL == OPEN_TO_ALL:
        raise StoreUnavailable(
            f"every user of this machine may put another file in the place of {path}; forbid that with: chmod o-w {folder}"
        )


def newest_schema() -> int:
    """Return the schema that this program brings a store to."""
    return sql.newest_migration(__file__)


def migrate(
    connection: apsw.Connection, copy: FenceCopy, *, new_id: str, progress: Callable[[int, int], None] = unheard
) -> int:
    """Apply every migration that is missing; return the schema before.

    A new file is made in one transaction. One that is in use gets one for each migration, so that its workers wait for
    no more than one at a time, and a migration that is cut off goes on where it was; each leaves a whole schema.
    """
    before, after = _migrate_once(connection, copy, new_id)
    while after < newest_schema():
        progress(after, newest_schema())
        _, after = _migrate_once(connection, copy, new_id)
    return before


def _migrate_once(connection: apsw.Connection, copy: FenceCopy, new_id: str) -> tuple[int, int]:
    """Apply the next migration, or all of them to a new file; return the schema before and after."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        ((application,),) = connection.execute("PRAGMA application_id").fetchall()
        before = after = _schema(connection) if application == APPLICATION else 0
        for number, script in missing_migrations(__file__, before):
            connection.execute(script)
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('schema', ?)", (str(number),))
            after = number
        if not before:
            facts = [("store_id", _adopt(copy) or new_id), ("fence_high", "0")]
            connection.executemany("INSERT INTO meta VALUES (?, ?)", facts)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return before, after


def _adopt(copy: FenceCopy) -> str | None:
    """Let a deleted file whose copy is still there go on as the same store; catching up then lifts its fences."""
    copied = copy.read()
    if copied:
        copy.write(Copied(copied.store, copied.pending, copied.pending))
    return copied.store if copied else None


def _schema(connection: apsw.Connection) -> int:
    ((found,),) = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchall()
    return int(str(found))


def catch_up(dialect: SqliteDialect, copy: FenceCopy, meta: dict[str, str]) -> tuple[str, ...]:
    """Lift the fence above everything the copy has seen, and say so if the file went back in time."""
    if not _ahead(copy.read(), store=meta["store_id"], high=int(meta["fence_high"])):
        return ()
    return dialect.write(lambda tx: _catch_up(tx, dialect, copy))


def _ahead(copied: Copied | None, *, store: str, high: int) -> bool:
    """Tell whether the copy has seen a fence that the file knows nothing of."""
    return copied is not None and (copied.store != store or copied.pending > high)


def _catch_up(tx: SqliteTransaction, dialect: SqliteDialect, copy: FenceCopy) -> tuple[str, ...]:
    """Look again under the lock: a lease may merely have been granted between our two readings."""
    ((high,),) = tx.rows("meta", key="fence_high")
    copied = copy.read()
    if copied is None or not _ahead(copied, store=dialect.store_id, high=int(high)):
        return ()
    floor = max(int(high), copied.pending)
    tx.rows("lift_floor", fence=str(floor))
    copy.write(Copied(dialect.store_id, floor, floor))
    if copied.store == dialect.store_id and copied.committed <= int(high):
        return ()  # a grant that never committed, or a file that lacks the very last one: it cannot be told
    notice = (
        f"{dialect.path} is older than the fences it has given out: it was deleted, restored or replaced by hand. "
        f"Fences go on above {floor}; what was recorded in between is lost."
    )
    return (notice,)
