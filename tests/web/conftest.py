"""The web door over a real store; requests go straight into the application, without a socket."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.runtime import Runtime, open_runtime
from tests.support.webdoor import WebDoor, web_door

if TYPE_CHECKING:
    from tests.support.postgres import PostgresDatabases


@pytest.fixture(scope="module")
def url(postgres_server: "PostgresDatabases") -> Iterator[str]:
    """One database for the tests of this file."""
    found = postgres_server.create_database()
    yield found
    postgres_server.drop_database(found)


@pytest.fixture(params=["sqlite", "postgresql"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runtime]:
    with open_runtime(request.param, tmp_path, lambda: str(request.getfixturevalue("url"))) as found:
        yield found


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    with open_runtime("sqlite", tmp_path, lambda: "") as found:
        yield found


@pytest.fixture
def web(runtime: Runtime, tmp_path: Path) -> Iterator[WebDoor]:
    with web_door(runtime, tmp_path) as found:
        yield found


@pytest.fixture
def web_on_both(both: Runtime, tmp_path: Path) -> Iterator[WebDoor]:
    with web_door(both, tmp_path) as found:
        yield found
