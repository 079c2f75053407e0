"""Real servers for the tests that ask for them; nothing here is imported or started for the others."""

import importlib
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.support.pgbouncer import PoolMode
    from tests.support.postgres import PostgresDatabases, PostgresServer
    from tests.support.proxy import FaultyProxy
    from tests.support.redis import RedisServer
    from tests.support.s3 import S3Server
    from tests.support.site import Site

ROOT = Path(__file__).parents[1]

# How long a generator takes says how busy the machine is, and nothing about the code.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

# ruff: noqa: PLC0415  # imported where they are needed, so that a test of the model pays for none of it


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let each of several workers read the test files from another one on: what one has compiled, the others load."""
    if session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    names = sorted(".".join(path.relative_to(ROOT).with_suffix("").parts) for path in ROOT.glob("tests/**/test_*.py"))
    first = len(names) * worker // workers
    for name in names[first:] + names[:first]:
        with suppress(Exception, pytest.skip.Exception, pytest.fail.Exception):  # collecting it will say so
            importlib.import_module(name)


@pytest.fixture(scope="session", autouse=True)
def plain_signals() -> None:
    """Let what tests start be born with plain signals, also where the suite runs in the background or under nohup."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """A folder in memory where there is room, else on disk: for tests that make and sync very many small files."""
    from tests.support.scratch import folder_in_memory

    with folder_in_memory() as folder:
        yield folder


@pytest.fixture(scope="session")
def postgres_server() -> Iterator["PostgresDatabases"]:
    """One server for this process, started when the first test asks; with pytest-xdist, one for each of its workers."""
    from tests.support.postgres import PostgresServer

    with PostgresServer.shared() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: "PostgresDatabases") -> Iterator[str]:
    """A fresh, empty database."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def private_postgres() -> Iterator["PostgresServer"]:
    """A server of the test's own, to stop, crash, reconfigure or freeze."""
    from tests.support.postgres import PostgresServer

    with PostgresServer.private() as server:
        yield server


@pytest.fixture
def faulty_proxy(postgres_url: str) -> Iterator["FaultyProxy"]:
    """A proxy in front of a fresh database: connect to its `url`, then `switch` it."""
    from tests.support.proxy import FaultyProxy

    with FaultyProxy(postgres_url) as proxy:
        yield proxy


@pytest.fixture
def pgbouncer_url(postgres_url: str) -> Iterator[Callable[["PoolMode"], str]]:
    """A function from a pool mode to the URL of a fresh database behind a pooler in that mode."""
    from tests.support.pgbouncer import PgBouncer

    with ExitStack() as poolers:
        yield lambda pool_mode: poolers.enter_context(PgBouncer.before(postgres_url, pool_mode=pool_mode)).url


@pytest.fixture(scope="session")
def redis_server() -> Iterator["RedisServer"]:
    """One server for this process, started when the first test asks."""
    from tests.support.redis import RedisServer

    with RedisServer.running() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: "RedisServer") -> str:
    """An empty server."""
    with redis_server.client() as client:
        client.flushall()
    return redis_server.url


@pytest.fixture(scope="session")
def s3_server() -> Iterator["S3Server"]:
    """One server for this process, started when the first test asks."""
    from tests.support.s3 import S3Server

    with S3Server.running() as server:
        yield server


@pytest.fixture
def site(tmp_path: Path) -> Iterator["Site"]:
    """A folder with a configuration and a store of its own, and the real command line."""
    from tests.support.site import Site

    made = Site(tmp_path)
    yield made
    made.close()
