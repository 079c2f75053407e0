"""Daemons that are killed and restarted at random: every tick exactly once, or with a reason."""

import json
import random  # noqa: TID251  # seeded
import re
import signal
import subprocess
from collections import Counter
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from tests.support.postgres import PostgresServer
from tests.support.site import Site

CONFIG = """
[agents.witness]
command = ["sh", "-c", "echo $FENCEPOST_SCHEDULE $FENCEPOST_TICK >> witness"]
[schedules.second]
agent = "witness"
cron = "* * * * * *"
[schedules.parallel]
agent = "witness"
cron = "*/2 * * * * *"
overlap = "allow_parallel"
[schedules.after]
agent = "witness"
every = "1s"
"""


def torment(site: Site, *, daemons: int, kills: int, seed: int) -> list[subprocess.Popen[bytes]]:
    """Kill daemons at random moments, and start each again at once."""
    dice = random.Random(seed)
    running = [site.up("--workers", "2", "--ttl", "3s") for _ in range(daemons)]
    site.until(lambda: site.runs(state="succeeded"))
    for _ in range(kills):
        Event().wait(dice.uniform(0.2, 1.2))
        victim = dice.randrange(daemons)
        running[victim].send_signal(signal.SIGKILL)
        running[victim].wait(10)
        running[victim] = site.up("--workers", "2", "--ttl", "3s")
    for daemon in running:  # one that is only starting ends if it finds no server, and rightly so
        site.until(partial(heeds_signals, daemon.pid))
    return running


def go_on(site: Site, runs: int = 1) -> None:
    """Wait until so many runs have been made from now on."""
    before = len(site.runs())
    site.until(lambda: len(site.runs()) >= before + runs)


def come_to_rest(site: Site, running: list[subprocess.Popen[bytes]]) -> None:
    """Let everything settle, then stop."""
    go_on(site, 4)
    for daemon in running:  # one that was started last may still be loading itself, and would just die
        site.until(partial(heeds_signals, daemon.pid))
        daemon.send_signal(signal.SIGTERM)
    for daemon in running:
        assert daemon.wait(30) == 0
    assert not site.runs(state="running")
    assert site.fencepost("lease", "list", "--store", site.store, "--json") == ""


def heeds_signals(pid: int) -> bool:
    """Tell whether a daemon has come so far that SIGTERM means: drain."""
    caught = re.search(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)


def check(site: Site) -> None:
    """No tick ran twice, and every owed one has what became of it."""
    seen = Counter((site.folder / "witness").read_text().splitlines())
    assert [line for line, times in seen.items() if times > 1] == []
    born = [(run.schedule, run.occurrence) for run in site.runs() if run.trigger in ("cron", "every", "at")]
    assert len(born) == len(set(born))
    *_, verdict = map(json.loads, site.fencepost("prove", "--json").splitlines())
    assert (verdict["missing"], verdict["doubled"]) == (0, 0)
    assert verdict["accounted"] > 10


def test_two_daemons_killed_at_random_run_every_tick_once_or_say_why(site: Site) -> None:
    site.configure(CONFIG)

    come_to_rest(site, torment(site, daemons=2, kills=12, seed=1))

    check(site)


@pytest.fixture
def durable_postgres() -> object:
    with PostgresServer.private() as server:
        yield server


def test_four_daemons_on_a_postgresql_that_restarts_run_every_tick_once_or_say_why(
    durable_postgres: PostgresServer, tmp_path: Path
) -> None:
    site = Site(tmp_path, durable_postgres.create_database())
    site.configure(CONFIG)
    try:
        running = torment(site, daemons=4, kills=4, seed=2)
        durable_postgres.restart("fast")
        go_on(site)
        durable_postgres.restart("immediate")
        go_on(site)
        come_to_rest(site, running)
        check(site)
    finally:
        site.close()
