"""PgBouncer in front of a test's database, so that nothing comes to rest on session state."""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, Self
from urllib.parse import SplitResult, urlsplit

import psycopg
import pytest

from tests.support import debian
from tests.support.scratch import Scratch, free_port, wait_until

PoolMode = Literal["session", "transaction", "statement"]

# The pooler holds nothing worth a proper end, and which signal means "at once" differs between its versions.
FAREWELL = 'kill -KILL "$pooler"; wait "$pooler"'

CONFIGURATION = """
[databases]
* = {server}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {pool_mode}
default_pool_size = {pool_size}
max_client_conn = 200
"""


class PgBouncer:
    """A pooler on loopback in front of the server of one URL. Connect to its own `url` instead."""

    def __init__(self, server_url: str, pool_mode: PoolMode, pool_size: int) -> None:
        server = urlsplit(server_url)
        port = free_port()
        self.url = server._replace(netloc=f"{server.username}@127.0.0.1:{port}").geturl()
        configuration = CONFIGURATION.format(
            server=_connection_string(server), port=port, pool_mode=pool_mode, pool_size=pool_size
        )
        self._program = program_or_skip()
        self._scratch = Scratch(FAREWELL)
        (self._scratch.folder / "pgbouncer.ini").write_text(configuration)

    @classmethod
    @contextmanager
    def before(cls, server_url: str, *, pool_mode: PoolMode = "transaction", pool_size: int = 5) -> Iterator[Self]:
        """Start a pooler before this server; skip the test where none is installed; clear it away afterwards."""
        pooler = cls(server_url, pool_mode, pool_size)
        try:
            pooler._start()
            yield pooler
        finally:
            pooler._scratch.clear()

    def _start(self) -> None:
        self._scratch.run(f"{shlex.quote(self._program)} pgbouncer.ini >log 2>&1 & pooler=$!")
        try:
            wait_until(self._answers, what=f"pgbouncer answers at {self.url}")
        except TimeoutError as error:
            error.add_note((self._scratch.folder / "log").read_text())
            raise

    def _answers(self) -> bool:
        try:
            # Without BEGIN: a pooler in statement mode refuses transactions.
            with psycopg.connect(self.url, autocommit=True, connect_timeout=5) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True


def program_or_skip() -> str:
    """Find pgbouncer, install it on a build machine that lets us, or skip the test that wants it."""
    found = debian.find("pgbouncer")
    if not found and os.environ.get("CI"):
        found = debian.install("pgbouncer", packages=["pgbouncer"])
    return found or pytest.skip("pgbouncer is not installed (package `pgbouncer` of Debian and others)")


def _connection_string(server: SplitResult) -> str:
    fields = {"host": server.hostname, "port": server.port, "user": server.username, "password": server.password}
    return " ".join(f"{name}={value}" for name, value in fields.items() if value)
