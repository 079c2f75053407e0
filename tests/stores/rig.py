"""Both stores behind one handle with a clock that tests can move, so that one suite speaks about both."""

import atexit
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Protocol

import psycopg
from psycopg.rows import TupleRow

from fencepost.model.lease import Claim, Granted, Lease
from fencepost.model.process import Host, ProcessId
from fencepost.stores.postgres.store import PostgresStore
from fencepost.stores.postgres.store import open_store as open_postgres
from fencepost.stores.sqlite.store import Opening, SqliteStore
from tests.support.clock import NOON_US, ManualClock

AnyStore = SqliteStore | PostgresStore

HOST = Host("tower", "machine-1", "boot-1", "pid:1")
MYSELF = ProcessId(HOST, 4711, "12345")

_numbers = count(1)


class Rig(Protocol):
    """One store, its clock, and more doors to it."""

    kind: str
    store: AnyStore

    def open_another(self) -> AnyStore:
        """Open the same store once more, as another process would."""
        ...

    def pass_time(self, seconds: float) -> None:
        """Let this much time go by, for leases and for the wall."""
        ...

    def step_wall(self, seconds: float) -> None:
        """Set the clock that fences are taken from."""
        ...

    def now_us(self) -> int:
        """Return what the store takes for now."""
        ...

    def contents(self) -> object:
        """Return everything the store holds, to compare."""
        ...


@cache
def migrated() -> Path:
    """Make an empty store once for this process: copying it is forty times quicker than migrating another."""
    folder = mkdtemp(prefix="fencepost-empty-store-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "state.db"
    open_sqlite(path).close()
    return path


def lay_down(path: Path) -> None:
    """Put an empty store there."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in (str(path), f"{path}.fence"):
        empty = f"{migrated()}{name.removeprefix(str(path))}"
        if os.path.exists(empty):
            shutil.copy(empty, name)


_admins: dict[str, psycopg.Connection[TupleRow]] = {}
ADMINS_MAX = 2  # a scene and a rig take turns


def admin_of(url: str) -> psycopg.Connection[TupleRow]:
    """Keep a connection from test to test: a new one reads what forty tables are before it can empty them."""
    if url not in _admins:
        forget_admins(keep=ADMINS_MAX - 1)
        _admins[url] = psycopg.connect(url, autocommit=True)
    return _admins[url]


@atexit.register
def forget_admins(keep: int = 0) -> None:
    while len(_admins) > keep:
        _admins.pop(next(iter(_admins))).close()


class SqliteRig:
    kind = "sqlite"

    def __init__(self, path: Path, *, throwaway: bool = False) -> None:
        self.clock = ManualClock()
        self.path = path
        self._throwaway = throwaway
        lay_down(path)
        self._open: list[AnyStore] = []
        self.store = self.open_another()

    def open_another(self) -> AnyStore:
        store = opening(self.path, self.clock, throwaway=self._throwaway).open(new_id="lite")
        self._open.append(store)
        return store

    def pass_time(self, seconds: float) -> None:
        self.clock.pass_time(seconds)

    def step_wall(self, seconds: float) -> None:
        self.clock.wall += round(seconds * 1_000_000)

    def now_us(self) -> int:
        return self.clock.wall

    def contents(self) -> object:
        return everything(self.store)

    def close(self) -> None:
        for store in self._open:
            store.close()


class PostgresRig:
    """The server's clock is a function of the schema; here it reads a table instead of the wall."""

    kind = "postgresql"

    def __init__(self, url: str) -> None:
        self.url = url
        self._open: list[AnyStore] = []
        self.store = self.open_another()
        self._reset()

    @property
    def _admin(self) -> psycopg.Connection[TupleRow]:
        return admin_of(self.url)

    def open_another(self) -> AnyStore:
        store = open_postgres(self.url, new_id="conformance", allow_lossy=True)
        self._open.append(store)
        return store

    def pass_time(self, seconds: float) -> None:
        self._admin.execute("UPDATE manual_clock SET us = us + %s", [round(seconds * 1_000_000)])

    def step_wall(self, seconds: float) -> None:
        self.pass_time(seconds)

    def now_us(self) -> int:
        row = self._admin.execute("SELECT us FROM manual_clock").fetchone()
        assert row
        return int(row[0])

    def contents(self) -> object:
        return everything(self.store)

    def check_queue(self) -> None:
        """Whatever a test did: the narrow tables say of what waits and what runs exactly what the runs say."""
        assert self._admin.execute(QUEUE_DIFFERS.encode()).fetchall() == []

    def close(self) -> None:
        for store in self._open:
            store.close()

    def _reset(self) -> None:
        self._admin.execute(MANUAL_CLOCK)
        self._admin.execute("UPDATE manual_clock SET us = %s", [NOON_US])
        self._admin.execute(EMPTY_ALL)
        self._admin.execute(MEMORIES)


QUEUE_DIFFERS = """
WITH wanted AS (
    SELECT in_process, tenant, rank, place_us, id, ready_us, started_us IS NULL, give_up_us, agent, schedule, project
      FROM fencepost.run WHERE state = 'ready'),
found AS (
    SELECT in_process, tenant, rank, place_us, id, ready_us, is_fresh, give_up_us, agent, schedule, project
      FROM fencepost.ready),
held AS (SELECT coalesce(lease_id, ''), id, tenant, schedule FROM fencepost.run WHERE state = 'running'),
noted AS (SELECT lease_id, id, tenant, schedule FROM fencepost.running),
died AS (SELECT tenant, created_us, id, discarded_us IS NULL FROM fencepost.run WHERE state = 'dead'),
letters AS (SELECT tenant, created_us, id, is_kept FROM fencepost.dead)
SELECT 'missing', wanted::text FROM (SELECT * FROM wanted EXCEPT SELECT * FROM found) AS wanted
UNION ALL SELECT 'left', found::text FROM (SELECT * FROM found EXCEPT SELECT * FROM wanted) AS found
UNION ALL SELECT 'not noted', held::text FROM (SELECT * FROM held EXCEPT SELECT * FROM noted) AS held
UNION ALL SELECT 'still noted', noted::text FROM (SELECT * FROM noted EXCEPT SELECT * FROM held) AS noted
UNION ALL SELECT 'no letter', died::text FROM (SELECT * FROM died EXCEPT SELECT * FROM letters) AS died
UNION ALL SELECT 'letter of nobody', letters::text FROM (SELECT * FROM letters EXCEPT SELECT * FROM died) AS letters
"""
EMPTY_ALL = b"""
DO $$ DECLARE name text; is_used boolean; BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'fencepost' AND tablename <> 'meta' LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM fencepost.%I)', name) INTO is_used;
        IF is_used THEN EXECUTE format('TRUNCATE fencepost.%I CASCADE', name); END IF;
    END LOOP;
END $$
"""
MEMORIES = b"""
UPDATE fencepost.meta SET value = '0' WHERE key = 'fence_high';
UPDATE fencepost.meta SET value = '1' WHERE key = 'schema_needs';
DELETE FROM fencepost.meta WHERE key IN ('tzdata', 'tzdata_underway') OR key LIKE 'moved:%'
"""
MANUAL_CLOCK = f"""
CREATE TABLE IF NOT EXISTS manual_clock AS SELECT {NOON_US}::bigint AS us;
CREATE OR REPLACE FUNCTION fencepost.clock_us() RETURNS bigint LANGUAGE sql VOLATILE AS
'SELECT us FROM public.manual_clock';
""".encode()


@contextmanager
def sqlite_rig(folder: Path, *, throwaway: bool = False) -> Iterator[SqliteRig]:
    """Open a store in a folder; a throwaway one waits for no disk."""
    rig = SqliteRig(folder / "state.db", throwaway=throwaway)
    try:
        yield rig
    finally:
        rig.close()


@contextmanager
def postgres_rig(url: str) -> Iterator[PostgresRig]:
    rig = PostgresRig(url)
    try:
        yield rig
        rig.check_queue()
    finally:
        rig.close()


def open_sqlite(
    path: Path | str, clock: ManualClock | None = None, *, boot: str = "boot-1", new_id: str = "lite"
) -> SqliteStore:
    return opening(path, clock, boot=boot).open(new_id=new_id)


def opening(
    path: Path | str,
    clock: ManualClock | None = None,
    *,
    boot: str = "boot-1",
    busy_ms: int = 5_000,
    throwaway: bool = False,
) -> Opening:
    return Opening(
        str(path),
        clock=clock or ManualClock(),
        boot=boot,
        network_kind=lambda _: None,
        busy_ms=busy_ms,
        throwaway=throwaway,
    )


def claim(
    *resources: str,
    id: str | None = None,  # noqa: A002 - the field's name
    tenant: str = "default",
    ttl: float = 30.0,
    gates: tuple[str, ...] = (),
    label: str = "",
) -> Claim:
    name = id or f"claim-{next(_numbers)}"
    return Claim(
        id=name,
        tenant=tenant,
        resources=resources or ("lock:a",),
        run_id=f"run-of-{name}",
        ttl_seconds=ttl,
        supervisor=MYSELF,
        gates=gates,
        label=label,
    )


def granted(store: AnyStore, *resources: str, tenant: str = "default", ttl: float = 30.0, **options: object) -> Lease:
    """Acquire, and fail the test if it is refused."""
    gates = options.pop("gates", ())
    assert isinstance(gates, tuple)
    answer = store.acquire(claim(*resources, tenant=tenant, ttl=ttl, gates=gates), **options)  # type: ignore[arg-type]
    assert isinstance(answer, Granted), answer
    return answer.lease


def everything(store: AnyStore) -> object:
    return store.care().export(lambda snapshot: (snapshot.highest_fence, sorted(map(repr, snapshot.rows))))
