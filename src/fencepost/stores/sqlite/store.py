"""Opens the embedded store, and refuses a file that cannot keep the promises."""

import os
from collections.abc import Callable

import apsw

from fencepost.model.errors import StoreUnavailable
from fencepost.ports.clock import Clock
from fencepost.ports.store import StoreFacts
from fencepost.stores import sql
from fencepost.stores.leases import SqlLeases
from fencepost.stores.schema import check_schema
from fencepost.stores.sqlite.copy import Copied, FenceCopy, sync_folder
from fencepost.stores.sqlite.dialect import SqliteDialect, connect, errors_of

SAFE_WAL = 3_051_003  # releases before 3.51.3 can corrupt a WAL file that several connections write
APPLICATION = 0x46454E43  # "FENC" in the file's header: nobody else's database is taken for ours
WRITABLE_BY_OTHERS = 0o022


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

    def facts(self) -> StoreFacts:
        """Say who this store is."""
        return self._facts

    def close(self) -> None:
        """Let go of the file."""
        self._sqlite.close()


class Opening:
    """Everything that stands between a path and a store that may be trusted."""

    def __init__(self, path: str, *, clock: Clock, boot: str, network_kind: Callable[[str], str | None]) -> None:
        """Open under this host's clock and boot; `network_kind` names a network file system, or nothing."""
        self.path = os.path.abspath(path)
        self._clock = clock
        self._boot = boot
        self._network_kind = network_kind

    def open(self, *, new_id: str) -> SqliteStore:
        """Open the file, creating it and its folder if need be; `new_id` names a store that is new."""
        check_library(apsw.sqlite_lib_version())
        with errors_of(self.path):
            self._check_place()
            make_file(self.path)
            copy = FenceCopy(self.path)
            connection = connect(self.path, self._clock, self._boot)
            meta = self._read_meta(connection)
            if not meta or int(meta["schema"]) < newest_schema():
                migrate(connection, adopt=copy.read(), new_id=new_id)
                meta = self._read_meta(connection)
            check_schema(f"sqlite:{self.path}", meta, newest=newest_schema())
            dialect = SqliteDialect(self.path, connection, copy, store_id=meta["store_id"])
            return SqliteStore(dialect, meta, catch_up(dialect, copy, meta))

    def _check_place(self) -> None:
        kind = self._network_kind(self.path)
        if kind:
            raise StoreUnavailable(
                f"{self.path} is on a network file system ({kind}), where SQLite's locks cannot be trusted; "
                "put the store on a local disk, or set FENCEPOST_STORE=postgresql://… for several machines."
            )

    def _read_meta(self, connection: apsw.Connection) -> dict[str, str]:
        ((application,),) = connection.execute("PRAGMA application_id").fetchall()
        if application == APPLICATION:
            return {str(key): str(value) for key, value in connection.execute("SELECT key, value FROM meta")}
        if connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
            raise StoreUnavailable(f"{self.path} is another program's database; name a file of Fencepost's own.")
        return {}


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
        pass  # the usual case: somebody made it earlier
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be created: {error.strerror}.") from None
    found = os.stat(path)
    if found.st_mode & WRITABLE_BY_OTHERS and found.st_uid in (os.getuid(), 0):
        raise StoreUnavailable(f"{path} may be changed by other users; forbid that with: chmod 600 {path}")


def newest_schema() -> int:
    """Return the schema that this program brings a store to."""
    return max(number for number, _ in sql.migrations(__file__))


def migrate(connection: apsw.Connection, *, adopt: Copied | None, new_id: str) -> None:
    """Apply every migration that is missing, all in one transaction.

    A deleted file whose copy is still there goes on as the same store, above every fence it gave out.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        ((application,),) = connection.execute("PRAGMA application_id").fetchall()
        done = _schema(connection) if application == APPLICATION else 0
        for number, script in sql.migrations(__file__):
            if number > done:
                connection.execute(script)
                connection.execute("INSERT OR REPLACE INTO meta VALUES ('schema', ?)", (str(number),))
        if not done:
            facts = [("store_id", adopt.store if adopt else new_id), ("fence_high", str(adopt.pending if adopt else 0))]
            connection.executemany("INSERT INTO meta VALUES (?, ?)", facts)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _schema(connection: apsw.Connection) -> int:
    ((found,),) = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchall()
    return int(str(found))


def catch_up(dialect: SqliteDialect, copy: FenceCopy, meta: dict[str, str]) -> tuple[str, ...]:
    """Lift the fence above everything the copy has seen, and say so if the file went back in time."""
    copied = copy.read()
    if copied is None or (copied.store == meta["store_id"] and copied.committed <= int(meta["fence_high"])):
        return ()
    with dialect.writing() as tx:
        tx.rows("lift_floor", fence=str(copied.pending))
        copy.write(Copied(meta["store_id"], copied.pending, copied.pending))
    notice = (
        f"{dialect.path} is older than the fences it has given out: it was restored or replaced by hand. "
        f"Fences go on above {copied.pending}; what was recorded in between is lost."
    )
    return (notice,)
