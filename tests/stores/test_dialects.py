"""The two dialects side by side: the same statements by name, and the hot ones on their index."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from fencepost.stores import sql
from fencepost.stores.postgres import dialect as postgres
from fencepost.stores.postgres.migrate import newest_schema as newest_of_postgres
from fencepost.stores.postgres.store import open_store
from fencepost.stores.sqlite import dialect as sqlite
from fencepost.stores.sqlite.store import newest_schema as newest_of_sqlite
from tests.stores.rig import claim

if TYPE_CHECKING:
    from tests.support.postgres import PostgresDatabases

KEYS = json.dumps([["default", "lock:7"], ["default", "lock:8"]])


def test_both_dialects_have_the_same_statements() -> None:
    assert set(sqlite.STATEMENTS.complete()) == set(postgres.STATEMENTS.complete())


def test_both_dialects_take_the_same_values_in_each_statement() -> None:
    for name, text in sqlite.STATEMENTS.complete().items():
        if name.startswith(("lock_", "try_registry")) and text.strip().endswith("SELECT 1"):
            continue  # the whole file is locked already
        of_sqlite = set(re.findall(r"(?<![:\w]):(\w+)", without_comments(text)))
        of_postgres = set(re.findall(r"%\((\w+)\)s", without_comments(postgres.STATEMENTS[name].decode())))
        assert of_sqlite == of_postgres, name


def test_both_dialects_have_the_same_schema_number() -> None:
    assert newest_of_sqlite() == newest_of_postgres()


def test_what_both_dialects_say_alike_stands_once() -> None:
    own = [
        {
            name: text
            for path in Path(str(one.__file__)).parent.glob("sql/*.sql")
            for name, text in sql.parse(path.read_text())
        }
        for one in (sqlite, postgres)
    ]
    twice = [name for name in own[0] if words_of(own[0][name]) == words_of(sqlite_words(own[1][name]))]
    assert twice == [], "move them to stores/sql"


def sqlite_words(text: str) -> str:
    for words in sqlite.NEEDLESS:
        text = text.replace(words, "")
    return re.sub(r"%\((\w+)\)s", r":\1", text).replace("%%", "%")


def words_of(text: str) -> list[str]:
    return without_comments(text).replace("wall_us()", "clock_us()").split()


@pytest.mark.parametrize("dialect", [sqlite, postgres])
def test_no_two_migrations_share_a_number(dialect: ModuleType) -> None:
    """A store remembers the highest number that it has had, and would never get the second one."""
    numbers = [number for number, _ in sql.migrations(str(dialect.__file__))]
    assert len(numbers) == len(set(numbers))


def test_no_statement_relies_on_the_search_path() -> None:
    tables = r"(?:FROM|JOIN|INTO|UPDATE|TABLE)\s+(meta|resource|lease|waiter|lease_fact|waiter_fact)\b"
    for name, text in postgres.STATEMENTS.complete().items():
        assert not re.search(tables, without_comments(text.decode())), name


@pytest.fixture(scope="module")
def big(postgres_server: "PostgresDatabases") -> Iterator[psycopg.Connection]:
    """A store in which many things were leased before."""
    url = postgres_server.create_database()
    store = open_store(url, new_id="big", allow_lossy=True)
    for number in (7, 8):
        store.acquire(claim(f"lock:{number}", id=f"lease-{number}"))
    store.close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(FILL)
        yield connection
    postgres_server.drop_database(url)


FILL = b"""
INSERT INTO fencepost.resource (tenant, name) SELECT 'default', 'lock:x' || n FROM generate_series(1, 20000) AS n;
INSERT INTO fencepost.lease (id, tenant, resources, fence, run_id, label, host, machine, boot, pid_namespace, pid,
                             pid_started, ttl_ms, granted_us, expires_us, state)
SELECT 'x' || n, 'default', jsonb_build_array(jsonb_build_array('default', 'lock:x' || n)), n, '', '', '', '', '', '',
       1, '', 1000, 0, 0, CASE WHEN n % 10 = 0 THEN 'lost' ELSE 'held' END
  FROM generate_series(1, 20000) AS n;
INSERT INTO fencepost.waiter (id, tenant, resources, run_id, label, host, machine, boot, pid_namespace, pid,
                              pid_started, ttl_ms, since_us, stale_us)
SELECT 'x' || n, 'default', jsonb_build_array(jsonb_build_array('default', 'lock:x' || n)), '', '', '', '', '', '',
       1, '', 1000, 0, 0
  FROM generate_series(1, 5000) AS n;
ANALYZE fencepost.resource, fencepost.lease, fencepost.waiter;
"""

TAKEN = '[{"tenant": "default", "name": "lock:x5", "id": "lease-7", "fence": 5, "owed_gates": "[]"}]'
HOT = {
    "ensure_resources": {},
    "lock_resources": {"resource": "resource_pkey"},
    "lock_holders": {"resource": "resource_pkey", "lease": "lease_pkey"},
    "holders": {"resource": "resource_pkey", "lease": "lease_pkey"},
    "lost_on": {"lease": "lost_lease", "resource": "resource_pkey"},
    "take_resources": {},
    "leases_named": {"lease": "lease_pkey"},
    "lock_leases": {"lease": "lease_pkey"},
    "free_resources": {"resource": "resource_pkey"},
    "waiters_on": {"waiter": "waiter_on"},
    "start_leases": {"lease": "lease_pkey"},
    "renew_leases": {"lease": "lease_pkey"},
    "lose_leases": {"lease": "lease_pkey"},
    "forget_leases": {"lease": "lease_pkey"},
    "forget_lost": {"lease": "lease_pkey"},
    "dequeue": {"waiter": "waiter_id_key"},
}


@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_uses_its_index(big: psycopg.Connection, name: str) -> None:
    values = {"keys": KEYS, "id": "lease-7", "ids": '["lease-7", "lease-8"]', "fence": 5, "why": ""}
    values |= {"leases": '[["lease-7", 5, 0], ["lease-8", 6, 1]]', "taken": TAKEN, "freed": TAKEN}
    row = big.execute(b"EXPLAIN (FORMAT JSON) " + postgres.STATEMENTS[name], values).fetchone()
    assert row
    nodes = list(flattened(row[0][0]["Plan"]))

    assert [node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"] == []
    used = {node["Index Name"] for node in nodes if "Index Name" in node}
    assert set(HOT[name].values()) <= used


def test_renewals_and_grants_rewrite_their_rows_in_place(postgres_url: str) -> None:
    store = open_store(postgres_url, new_id="hot", allow_lossy=True)
    for _ in range(50):
        answer = store.acquire(claim("lock:a"))
        store.renew(answer.lease)  # type: ignore[union-attr]
        store.renew(answer.lease)  # type: ignore[union-attr]
        store.release(answer.lease, clean=True)  # type: ignore[union-attr]
    store.close()  # sends the statistics
    with psycopg.connect(postgres_url) as connection:
        query = (
            "SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname IN ('resource', 'lease')"
        )
        counts = {name: (updated, hot) for name, updated, hot in connection.execute(query)}

    for updated, hot in counts.values():
        assert updated >= 100
        assert hot >= 0.9 * updated


def flattened(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from flattened(child)


def without_comments(text: str) -> str:
    return "\n".join(line.partition("--")[0] for line in text.splitlines())
