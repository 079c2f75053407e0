"""Fixtures: a ground on SQLite, on PostgreSQL, and on each in turn."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ground import Ground, ground_at
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="session")
def durable_server() -> Iterator[PostgresServer]:
    """A server with the settings that the product demands; in memory they cost nothing."""
    with PostgresServer.private({"fsync": "on", "full_page_writes": "on"}) as server:
        yield server


@pytest.fixture
def durable_url(durable_server: PostgresServer) -> Iterator[str]:
    url = durable_server.create_database()
    yield url
    durable_server.drop_database(url)


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    with ground_at(tmp_path) as found:
        yield found


@pytest.fixture(params=["sqlite", "postgres"])
def any_ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    store = request.getfixturevalue("durable_url") if request.param == "postgres" else None
    with ground_at(tmp_path, store=store) as found:
        yield found
