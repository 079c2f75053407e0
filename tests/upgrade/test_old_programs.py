"""A schema that grew is none of an old program's business; one that shrank refuses it, with a word on what to do."""

import json
from pathlib import Path

import psycopg
import pytest

from fencepost import wiring
from fencepost.model.errors import StoreUnavailable
from fencepost.stores.runtime import RuntimeStore
from fencepost.stores.sqlite.store import newest_schema
from tests.stores.rig import QUEUE_DIFFERS
from tests.support.site import Site
from tests.upgrade.conftest import PACKED, OldSite

WORKDAY = str(Path(__file__).with_name("workday.py"))


def test_an_old_program_does_a_days_work_on_the_schema_of_today(now: Site, then: OldSite) -> None:
    now.fencepost("store", "migrate", "--store", now.store)
    states = json.loads(then.python(WORKDAY, now.store))
    assert states["succeeded"] >= 3
    assert (states["dead"], states["cancelled"]) >= (2, 1)
    assert now.fencepost("prove", "--store", now.store)
    if now.store.startswith("postgresql"):  # it has never heard of the queue's tables, and has kept them all the same
        with psycopg.connect(now.store) as connection:
            assert connection.execute(QUEUE_DIFFERS.encode()).fetchall() == []
            assert connection.execute("SELECT count(*) FROM fencepost.served").fetchone() != (0,)


def test_the_packed_programs_are_those_that_the_schema_still_admits(now: Site) -> None:
    with_store(now, lambda store: assert_admitted(meta(store)))


def assert_admitted(found: dict[str, str]) -> None:
    packed = [int(path.name.split("-")[1].split(".")[0]) for path in PACKED]
    assert packed, "an upgrade is tested with the real old program"
    assert int(found["schema"]) == newest_schema()
    assert all(int(found["schema_needs"]) <= one for one in packed), "drop what can no longer work, and say so in docs"


def test_an_old_program_is_refused_by_a_schema_that_needs_a_newer_one(now: Site, then: OldSite) -> None:
    then.configure('[agents.a]\ncommand = ["true"]\n')
    daemon = then.up("--workers", "1")
    run = then.fencepost("run", "a").split()[-1]
    then.until(lambda: then.rows("show", run)[0]["state"] == "succeeded")
    now.fencepost("store", "migrate", "--store", now.store)
    with_store(now, lambda store: set_meta(store, "schema_needs", "1000"))

    then.fencepost("runs", code=69)
    with pytest.raises(StoreUnavailable, match="needs a Fencepost that knows schema 1000; this one knows"):
        wiring.open_runtime(now.store)
    daemon.terminate()
    assert daemon.wait(30) == 0


def test_a_program_that_is_at_work_is_told_when_its_tables_go(now: Site) -> None:
    now.configure('[agents.a]\ncommand = ["true"]\n')

    def contract(store: RuntimeStore) -> None:
        store.dialect.write(lambda tx: raw(tx, "ALTER TABLE {}attempt RENAME COLUMN last_log TO last_words"))
        with pytest.raises(StoreUnavailable, match=r"no longer has what this Fencepost asks for .*Upgrade this one"):
            store.attempts("r1")

    with_store(now, contract)


def with_store(site: Site, work) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    store = wiring.open_runtime(site.store)
    try:
        work(store)
    finally:
        store.close()


def meta(store: RuntimeStore) -> dict[str, str]:
    return dict(store.dialect.read(lambda tx: tx.rows("all_meta")))


def set_meta(store: RuntimeStore, key: str, value: str) -> None:
    store.dialect.write(lambda tx: tx.rows("set_meta", key=key, value=value))


def raw(tx: object, text: str) -> None:
    """Do what a migration of tomorrow would."""
    connection = tx._connection  # type: ignore[attr-defined]
    connection.execute(text.format("" if "sqlite" in type(tx).__module__ else "fencepost.").encode().decode())
