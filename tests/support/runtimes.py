"""Fixtures: a runtime on each store in turn."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.runtime import Runtime, open_runtime

if TYPE_CHECKING:
    from tests.support.postgres import PostgresDatabases


@pytest.fixture(scope="module")
def url(postgres_server: "PostgresDatabases") -> Iterator[str]:
    """One database for the tests of this file."""
    found = postgres_server.create_database()
    yield found
    postgres_server.drop_database(found)


@pytest.fixture(params=["sqlite", "postgresql"])
def any_runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runtime]:
    with open_runtime(request.param, tmp_path, lambda: str(request.getfixturevalue("url"))) as found:
        yield found
