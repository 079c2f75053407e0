"""The stores under test."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.stores.rig import AnyStore, Rig, postgres_rig, sqlite_rig
from tests.stores.scene import Scene
from tests.support.runtime import open_runtime

if TYPE_CHECKING:
    from tests.support.postgres import PostgresDatabases


@pytest.fixture(scope="session")
def conformance_url(postgres_server: "PostgresDatabases") -> Iterator[str]:
    """One database for all tests that share it; each begins by emptying it."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    """A store of either kind with a clock that the test moves."""
    if request.param == "sqlite":
        with sqlite_rig(tmp_path) as lite:
            yield lite
    else:
        with postgres_rig(request.getfixturevalue("conformance_url")) as many:
            yield many


@pytest.fixture
def store(rig: Rig) -> AnyStore:
    return rig.store


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A run under way in a store of either kind; what tests do to it is rolled back."""
    folder = tmp_path_factory.mktemp("scene")
    with open_runtime(request.param, folder, lambda: str(request.getfixturevalue("conformance_url"))) as runtime:
        yield Scene(runtime)
