"""A burst of deliveries over real sockets, with the server killed in the middle: nothing acknowledged is lost (F65, F63).

`make burst` sends ten thousand, and kills the server nine times.
"""

import asyncio
import json
import os
import signal
import socket
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.sender import SECRET, Sender
from tests.support.site import PATIENCE_SECONDS, Site

DELIVERIES = int(os.environ.get("FENCEPOST_TEST_BURST", "90"))
KILLS = max(1, min(9, DELIVERIES // 1000))
# Both kinds of hooks on both stores when there is time for it.
PAIRS = [("sqlite", "push"), ("postgresql", "quiet")]
PAIRS += [("postgresql", "push"), ("sqlite", "quiet")] if "FENCEPOST_TEST_BURST" in os.environ else []
TOGETHER = 40
CONFIG = """
[agents.a]
engine = "python"
function = "work:note"
in_process = true
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
WORK = """
def note(run):
    with open("{folder}/noted", "a") as notes:
        notes.write(run.payload["webhook"]["delivery"] + "\\n")
"""


class Burst:
    """Sends every delivery until it is acknowledged, whatever becomes of the server."""

    def __init__(self, port: int, path: str) -> None:
        self._target = (port, path)
        self.acknowledged: dict[str, set[str]] = {}
        self.answers: Counter[int] = Counter()

    async def send_all(self, names: list[str]) -> None:
        left = list(reversed(names))
        await asyncio.gather(*(self._send(left) for _ in range(TOGETHER)))

    async def _send(self, left: list[str]) -> None:
        sender = Sender(*self._target)
        while left:
            name = left.pop()
            try:
                status, content = await sender.post(name)
            except (OSError, EOFError):
                status, content = 0, b""
            self.answers[status] += 1
            if status in (200, 202):
                self.acknowledged.setdefault(name, set()).add(json.loads(content)["run_id"])
            else:
                assert status in (0, 429, 503), content
                left.insert(0, name)
                await asyncio.sleep(0.2)
        sender.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def noted(folder: Path) -> list[str]:
    """Return which deliveries were run."""
    notes = folder / "noted"
    return notes.read_text().splitlines() if notes.exists() else []


class Server:
    """The web door, which is killed and started anew on the same port."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.port = free_port()
        self.process = site.up("--port", str(self.port), command="web")
        site.until(lambda: "to log in" in site.said())

    async def kill_often(self, burst: Burst) -> None:
        """End it again and again, with so many more acknowledged each time."""
        for number in range(1, KILLS + 1):
            while len(burst.acknowledged) < DELIVERIES * number // (KILLS + 1):  # noqa: ASYNC110  # nobody tells us
                await asyncio.sleep(0.01)
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(30)
            self.process = self.site.up("--port", str(self.port), command="web")


@pytest.mark.parametrize(("kind", "hook"), PAIRS)
def test_nothing_that_was_acknowledged_is_lost_although_the_server_was_killed(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str, hook: str
) -> None:
    site = Site(tmp_path, request.getfixturevalue("postgres_url") if kind == "postgresql" else None)
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "work.py").write_text(WORK.format(folder=tmp_path))
    try:
        site.configure(CONFIG.format(folder=tmp_path))
        server = Server(site)
        burst = Burst(server.port, f"/hooks/default/{hook}")
        names = [f"d{number}" for number in range(DELIVERIES)]

        async def everything() -> tuple[float, float]:
            started = time.monotonic()  # noqa: TID251  # for whoever reads what it printed
            await asyncio.gather(burst.send_all(names), server.kill_often(burst))
            first, burst.acknowledged = burst.acknowledged, {}
            between = time.monotonic()  # noqa: TID251
            await burst.send_all(names)
            assert burst.acknowledged == first, "each delivery is known, and by the same run"
            return between - started, time.monotonic() - between  # noqa: TID251

        sent, sent_again = asyncio.run(everything())
        kept = {run.id: json.loads(run.payload) for run in site.runs()}
        print(  # noqa: T201  # the figure
            f"\n{kind} {hook}: {DELIVERIES:,} deliveries, {KILLS} kills, {len(burst.acknowledged):,} acknowledged, "
            f"{len(kept):,} runs, {sent:.0f} s, and {sent_again:.0f} s once more; answers {dict(burst.answers)}"
        )
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
            return
        site.up(command="worker")
        site.until(lambda: len(noted(tmp_path)) >= DELIVERIES, seconds=PATIENCE_SECONDS + DELIVERIES / 20)
        site.until(lambda: {run.state for run in site.runs()} == {"succeeded"})
        assert sorted(noted(tmp_path)) == sorted(names), "each was run, and none twice"
    finally:
        site.close()
