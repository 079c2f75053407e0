"""PostgreSQL that is stopped and started: the door answers all the while, and goes on by itself."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from fencepost import wiring
from fencepost.model.access import Role
from fencepost.operations.web_keys import create_key
from fencepost.web.app import create_app
from fencepost.web.door import Door
from fencepost.web.store_threads import StoreThreads
from fencepost.wiring import machine_facts
from tests.support.postgres import PostgresServer
from tests.support.proxy import FaultyProxy, Pass, Silence
from tests.support.scratch import free_port
from tests.support.site import SERVED, Site
from tests.support.webdoor import HOST
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
        assert SERVED.search(site.said()) is None

        server.start()
        site.until(lambda: status(client, "/readyz") == 200)
        site.until(lambda: SERVED.search(site.said()))
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


def test_while_the_server_is_silent_nobody_waits_behind_those_who_do_and_it_goes_on_when_it_speaks(
    faulty_proxy: FaultyProxy,
) -> None:
    store = wiring.open_runtime(faulty_proxy.url)
    key = create_key(store.keys(), tenant="default", name="ci", role=Role.READ, by="test").secret.text
    store.close()
    desk = StoreThreads(lambda: wiring.open_runtime(faulty_proxy.url), threads=2, patience_seconds=0.5)
    door = Door(
        desk,
        lambda count: ["r1"] * count,
        "/nowhere",
        machine_facts.now_us,
        lambda reference, _: reference,
        lambda: wiring.open_runtime(faulty_proxy.url),
    )
    gate = create_app(door, hosts=frozenset({HOST}))

    async def ask() -> None:
        transport, headers = httpx.ASGITransport(gate), {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}", headers=headers) as client:
            assert (await client.get("/readyz")).status_code == 200
            faulty_proxy.switch(Silence())
            answers = await asyncio.gather(*(client.get("/readyz") for _ in range(8)))
            assert {one.status_code for one in answers} == {503}
            last = await client.get("/readyz")
            assert "has not answered for a while" in last.json()["detail"]
            assert last.headers["retry-after"] == "5"
            faulty_proxy.switch(Pass())
            while (await client.get("/readyz")).status_code == 503:  # noqa: ASYNC110  # as a client would
                await asyncio.sleep(0.1)

    asyncio.run(asyncio.wait_for(ask(), 60))
    desk.close()
