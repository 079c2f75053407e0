"""A real etcd on loopback, of one member."""

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from typing import Self

from tests.support.debian import program
from tests.support.scratch import Scratch, free_port, wait_until

FAREWELL = 'kill -KILL "$server"; wait "$server"'


class EtcdServer:
    """A server of the test's own."""

    def __init__(self) -> None:
        self._program = program("etcd", packages=["etcd-server"])
        self.port, self._peers = free_port(), free_port()
        self._scratch = Scratch(FAREWELL, in_memory=True)

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[Self]:
        """Start a server and clear it away afterwards."""
        server = cls()
        try:
            server._start()
            yield server
        finally:
            server._scratch.clear()

    def url(self, prefix: str) -> str:
        """Return the URL of a store that nobody else uses."""
        return f"etcd://127.0.0.1:{self.port}/{prefix}"

    def _start(self) -> None:
        client, peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self._peers}"
        options = {
            "name": "test",
            "data-dir": "data",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"test={peer}",
        }
        words = shlex.join([self._program, *(f"--{name}={value}" for name, value in options.items())])
        self._scratch.run(f"ETCD_UNSUPPORTED_ARCH=arm64 {words} >output.log 2>&1 & server=$!")
        wait_until(self._answers, what=f"etcd answers at {client}", seconds=60)

    def _answers(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
        with suppress(OSError, ValueError):
            connection.request("GET", "/health")
            healthy = json.loads(connection.getresponse().read()).get("health")
            connection.close()
            return healthy in ("true", True)
        return False
