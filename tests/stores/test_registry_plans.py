"""An apply right after another: PostgreSQL has no statistics of what has just grown, and must find rows all the same."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.registry_plan import want
from fencepost.stores.postgres import dialect as postgres
from fencepost.stores.postgres.store import open_store
from fencepost.stores.registry import SqlRegistry
from tests.support.postgres import PostgresDatabases

MANY = 2_000


@pytest.fixture(scope="module")
def grown(postgres_server: PostgresDatabases) -> Iterator[psycopg.Connection]:
    url = postgres_server.create_database()
    store = open_store(url, new_id="plans", allow_lossy=True)
    agents = {"agent": AgentDefinition("agent", command=("true",))}
    schedules = {f"s{n}": ScheduleDefinition(f"s{n}", "agent", cron="0 0 * * *", timezone="UTC") for n in range(MANY)}
    with psycopg.connect(url, autocommit=True) as connection:
        for table in ("schedule", "schedule_version"):
            connection.execute(f"ALTER TABLE fencepost.{table} SET (autovacuum_enabled = off)".encode())
        SqlRegistry(store.dialect).apply(want("default", "/f", agents=agents, schedules=schedules), actor="test")
        connection.execute("SET plan_cache_mode = force_custom_plan")
        yield connection
    store.close()
    postgres_server.drop_database(url)


@pytest.mark.parametrize("name", ["lock_schedules", "end_versions", "put_versions"])
def test_rows_are_found_by_name_and_not_by_going_through_all_of_them(grown: psycopg.Connection, name: str) -> None:
    names = json.dumps([f"s{n}" for n in range(MANY)])
    values = {"tenant": "default", "names": names, "actor": "test"}
    row = grown.execute(b"EXPLAIN (FORMAT JSON) " + postgres.STATEMENTS[name], values).fetchone()
    assert row
    looks = [node for node in nodes_of(row[0][0]["Plan"]) if "Relation Name" in node and "Scan" in node["Node Type"]]
    assert looks
    for node in looks:
        assert node["Index Name"] in ("schedule_pkey", "schedule_version_pkey")
        assert "(name = " in node["Index Cond"], node


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes_of(child)
