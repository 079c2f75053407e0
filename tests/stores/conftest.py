"""The stores under test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from fencepost.stores.postgres import dialect as postgres
from tests.stores.effect_scene import EffectScene
from tests.stores.rig import AnyStore, Rig, postgres_rig, sqlite_rig
from tests.support.runtime import open_runtime

if TYPE_CHECKING:
    from tests.support.postgres import PostgresDatabases


@pytest.fixture(scope="session")
def conformance_url(postgres_server: "PostgresDatabases") -> Iterator[str]:
    """One database for all tests that share it; each begins by emptying it."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(scope="session")
def scene_url(postgres_server: "PostgresDatabases") -> Iterator[str]:
    """One database for all scenes: each lasts as long as its file, and rigs that come and go meanwhile empty theirs."""
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
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EffectScene]:
    """A run under way in a store of either kind; what tests do to it is rolled back."""
    folder = tmp_path_factory.mktemp("scene")
    with open_runtime(request.param, folder, lambda: str(request.getfixturevalue("scene_url"))) as runtime:
        yield EffectScene(runtime)


@pytest.fixture
def counted_deadlocks(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Count the transactions that PostgreSQL ended because they waited in a circle; the dialect would try again."""
    seen: list[BaseException] = []

    def watched(once: Callable[..., object]) -> Callable[..., object]:
        def write(self: postgres.PostgresDialect, work: object, limits: postgres.Limits) -> object:
            try:
                return once(self, work, limits)
            except psycopg.errors.DeadlockDetected as error:
                seen.append(error)
                raise

        return write

    for name in ("_write_once", "_write_often"):
        monkeypatch.setattr(postgres.PostgresDialect, name, watched(getattr(postgres.PostgresDialect, name)))
    return seen
