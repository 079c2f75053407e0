"""A burst of deliveries over real sockets, with the server killed in the middle: nothing acknowledged is lost (F65, F63).

`make burst` sends ten thousand.
"""

import asyncio
import json
import os
import signal
import socket
from collections import Counter
from pathlib import Path
from subprocess import Popen

import httpx
import pytest

from tests.support.site import Site

DELIVERIES = int(os.environ.get("FENCEPOST_TEST_BURST", "90"))
# Both kinds of hooks on both stores when there is time for it.
PAIRS = [("sqlite", "push"), ("postgresql", "quiet")]
PAIRS += [("sqlite", "quiet"), ("postgresql", "push")] if "FENCEPOST_TEST_BURST" in os.environ else []
TOGETHER = 40
SECRET = "a-secret-of-enough-length"
CONFIG = """
[agents.a]
command = ["true"]
waiting_max = 100000
[hooks.push]
agent = "a"
scheme = "bearer"
secret = "file:{folder}/secret"
rate_per_minute = 1000000
[hooks.quiet]
agent = "a"
scheme = "bearer"
secret = "file:{folder}/secret"
rate_per_minute = 1000000
debounce = "1h"
"""


class Burst:
    """Sends every delivery until it is acknowledged, whatever becomes of the server."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.acknowledged: dict[str, set[str]] = {}
        self.answers: Counter[int] = Counter()

    async def send_all(self, names: list[str]) -> None:
        left = list(reversed(names))
        limits = httpx.Limits(max_connections=TOGETHER)
        async with httpx.AsyncClient(limits=limits, timeout=30) as client:
            await asyncio.gather(*(self._send(client, left) for _ in range(TOGETHER)))

    async def _send(self, client: httpx.AsyncClient, left: list[str]) -> None:
        while left:
            name = left.pop()
            shown = {"Authorization": f"Bearer {SECRET}", "Idempotency-Key": name}
            try:
                answer = await client.post(self.url, headers=shown, content=json.dumps({"n": name}))
            except httpx.TransportError:
                self.answers[0] += 1
                left.insert(0, name)
                await asyncio.sleep(0.05)
                continue
            self.answers[answer.status_code] += 1
            if answer.status_code in (200, 202):
                self.acknowledged.setdefault(name, set()).add(answer.json()["run_id"])
            else:
                assert answer.status_code in (429, 503), answer.text
                left.insert(0, name)
                await asyncio.sleep(0.05)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


async def kill_and_start(site: Site, server: Popen[bytes], port: int, burst: Burst) -> None:
    """End the server with a third of the burst acknowledged, and start it anew on the same port."""
    while len(burst.acknowledged) < DELIVERIES // 3:  # noqa: ASYNC110  # nobody tells us; we have to look
        await asyncio.sleep(0.01)
    server.send_signal(signal.SIGKILL)
    server.wait(30)
    site.up("--port", str(port), command="web")


@pytest.mark.parametrize(("kind", "hook"), PAIRS)
def test_nothing_that_was_acknowledged_is_lost_although_the_server_was_killed(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str, hook: str
) -> None:
    site = Site(tmp_path, request.getfixturevalue("postgres_url") if kind == "postgresql" else None)
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secret").chmod(0o600)
    try:
        site.configure(CONFIG.format(folder=tmp_path))
        port = free_port()
        server = site.up("--port", str(port), command="web")
        site.until(lambda: "log in within" in site.said())
        burst = Burst(f"http://127.0.0.1:{port}/hooks/default/{hook}")
        names = [f"d{number}" for number in range(DELIVERIES)]

        async def everything() -> None:
            await asyncio.gather(burst.send_all(names), kill_and_start(site, server, port, burst))
            first = burst.acknowledged
            burst.acknowledged = {}
            await burst.send_all(names)
            assert burst.acknowledged == first, "each delivery is known, and by the same run"

        asyncio.run(everything())
        kept = {run.id: json.loads(run.payload) for run in site.runs()}
        assert burst.answers[0], "the kill bit"
        assert all(len(ids) == 1 for ids in burst.acknowledged.values())
        told = {run_id for ids in burst.acknowledged.values() for run_id in ids}
        assert told == set(kept)
        if hook == "push":
            assert {name: kept[next(iter(ids))]["body"]["n"] for name, ids in burst.acknowledged.items()} == {
                name: name for name in names
            }
        else:
            (only,) = kept.values()
            assert only["webhook"]["deliveries"] == DELIVERIES
    finally:
        site.close()
