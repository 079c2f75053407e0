"""PostgreSQL that is stopped and started: the door answers all the while, and goes on by itself."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.postgres import PostgresServer
from tests.support.scratch import free_port
from tests.support.site import LINK, Site
from tests.web.test_server import children

QUICK_SECONDS = 5.0  # it takes milliseconds; a machine may be busy


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer.private() as found:
        yield found


@pytest.fixture
def site(server: PostgresServer, tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path, store=server.create_database())
    found.configure('[agents.a]\ncommand = ["true"]\n')
    yield found
    found.close()


def status(client: httpx.Client, path: str) -> int:
    """Ask, and see that the answer does not take long, whatever it is."""
    began = time.monotonic()  # noqa: TID251  # real time is the point
    try:
        code = client.get(path).status_code
    except httpx.TransportError:
        return 0
    assert time.monotonic() - began < QUICK_SECONDS  # noqa: TID251  # likewise
    return code


def test_up_begins_without_its_store_and_the_door_goes_on_whenever_it_is_back(
    server: PostgresServer, site: Site
) -> None:
    key = site.rows("key", "create", "ci", "--role", "read")[0]["key"]
    server.stop()
    port = free_port()
    up = site.up("--port", str(port), "--workers", "1", web=True)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}) as client:
        site.until(lambda: status(client, "/healthz") == 200)
        assert [status(client, path) for path in ("/readyz", "/", "/api/v1/runs", "/metrics")] == [503] * 4
        assert LINK.search(site.said()) is None

        server.start()
        site.until(lambda: status(client, "/readyz") == 200)
        site.until(lambda: LINK.search(site.said()))
        site.until(lambda: "applied" in site.said())
        site.fencepost("run", "a", "--wait")

        server.stop("immediate")
        assert status(client, "/api/v1/runs") == 503
        (child,) = [one for one in children(up.pid) if "fencepost web" in one[1]]
        os.kill(child[0], signal.SIGKILL)  # noqa: TID251  # our own child's child, by its number
        site.until(lambda: "it is started again" in site.said())
        site.until(lambda: status(client, "/healthz") == 200)
        assert status(client, "/api/v1/runs") == 503

        server.start()
        site.until(lambda: status(client, "/api/v1/runs") == 200)
        site.fencepost("run", "a", "--wait")
