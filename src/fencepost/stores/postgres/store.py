"""Opens the store for many machines, and refuses a server that cannot keep the promises."""

from collections.abc import Callable

import psycopg

from fencepost.model.errors import StoreUnavailable
from fencepost.ports.store import StoreFacts
from fencepost.stores.lease_grants import lift
from fencepost.stores.leases import SqlLeases
from fencepost.stores.postgres import server as servers
from fencepost.stores.postgres.dialect import (
    QUICK,
    Limits,
    OutcomeUnknown,
    PostgresDialect,
    PostgresTransaction,
    begin_writing,
    commit,
)
from fencepost.stores.postgres.errors import unavailable, unknown_outcome
from fencepost.stores.postgres.greeting import Identity, identify, look, refuse_unfit
from fencepost.stores.postgres.migrate import migrate, newest_schema
from fencepost.stores.postgres.server import Connection
from fencepost.stores.schema import check_schema, unheard

# A standby that took over may have a clock behind its predecessor's, whose last fences it may never have heard of.
HEADROOM_US = 3600 * 1_000_000


class PostgresStore(SqlLeases):
    """The store for many machines."""

    def __init__(self, dialect: PostgresDialect, reception: "Reception") -> None:
        super().__init__(dialect, reception.meta["store_id"])
        self._postgres = dialect
        self._reception = reception

    def facts(self) -> StoreFacts:
        """Say who this store is."""
        return StoreFacts(
            id=self._reception.meta["store_id"],
            url=self._postgres.server.url,
            kind="postgresql",
            schema=int(self._reception.meta["schema"]),
            counts_sleep=True,
            notices=tuple(self._reception.notices),
        )

    def close(self) -> None:
        """Let go of the connection."""
        self._postgres.close()


class Reception:
    """Everything that stands between a new connection and a store that may be trusted."""

    def __init__(self, url: str, *, new_id: str, limits: Limits, allow_lossy: bool) -> None:
        self.meta: dict[str, str] = {}
        self.notices: list[str] = []
        self._url = url
        self._new_id = new_id
        self._limits = limits
        self._allow_lossy = allow_lossy

    def greet(self, connection: Connection) -> None:
        """Look at a new connection: an empty database becomes a store, another store than before is refused."""
        sight = look(connection)
        refuse_unfit(self._url, sight, allow_lossy=self._allow_lossy)
        if not sight.has_schema:
            self._set_up(connection)
        meta = read_meta(connection)
        if self.meta and self.meta["store_id"] != meta["store_id"]:
            raise StoreUnavailable(f"{self._url} was replaced by another store while it was in use; start again.")
        check_schema(self._url, meta, newest=newest_schema())
        self.meta = meta
        self._recognise(connection, identify(connection))

    def _set_up(self, connection: Connection) -> None:
        if self.meta:
            raise StoreUnavailable(
                f"{self._url} has lost its Fencepost tables; restore a backup with: fencepost store restore FILE"
            )
        migrate(connection, self._url, new_id=self._new_id)
        connection.silence_seconds = self._limits.silence_seconds

    def _recognise(self, connection: Connection, identity: Identity) -> None:
        """Notice that the server failed over or was restored, and lift the fence above what may be lost."""
        known = Identity(self.meta.get("pg_system", ""), self.meta.get("pg_timeline", ""))
        if identity in (known, Identity("", "")):
            return
        floor = remember_identity(connection, identity, self._limits, lifted=known != Identity("", ""))
        if known != Identity("", ""):
            self.notices.append(
                f"{self._url} failed over or was restored since it was last used. Fences go on above {floor}; "
                "what was recorded just before may be lost."
            )


def read_meta(connection: Connection) -> dict[str, str]:
    """Return what the store says about itself."""
    return dict(PostgresTransaction(connection).rows("all_meta"))


def remember_identity(connection: Connection, identity: Identity, limits: Limits, *, lifted: bool) -> int:
    """Write down which server this is; when it is another one, lift the floor. Return the floor in force."""
    connection.execute(begin_writing(limits))
    tx = PostgresTransaction(connection)
    ((clock_us,),) = tx.rows("store_clock_us")
    ((highest,),) = tx.rows("highest_fence")
    floor = lift(tx, max(highest, clock_us + HEADROOM_US) if lifted else 0)
    tx.rows("set_meta", key="pg_system", value=identity.system)
    tx.rows("set_meta", key="pg_timeline", value=identity.timeline)
    commit(connection)
    return floor


def open_store(url: str, *, new_id: str, limits: Limits = QUICK, allow_lossy: bool = False) -> PostgresStore:
    """Open the store at a URL, setting up an empty database; `new_id` names a store that is new.

    `allow_lossy` accepts a server whose grants a power cut may undo, for tests.
    """
    server = servers.at(url)
    reception = Reception(server.url, new_id=new_id, limits=limits, allow_lossy=allow_lossy)
    dialect = PostgresDialect(server, reception.greet, limits=limits)
    dialect.read(lambda tx: tx.rows("store_clock_us"))
    return PostgresStore(dialect, reception)


def migrate_store(
    url: str, *, new_id: str, allow_lossy: bool = False, progress: Callable[[int, int], None] = unheard
) -> tuple[int, int]:
    """Bring the database at a URL to this program's schema; return the schema before and after."""
    server = servers.at(url)
    try:
        with server.connect() as connection:
            refuse_unfit(server.url, look(connection), allow_lossy=allow_lossy)
            return migrate(connection, server.url, new_id=new_id, progress=progress)
    except psycopg.Error as error:
        raise unavailable(server, error) from None
    except OutcomeUnknown:
        raise unknown_outcome(server) from None
