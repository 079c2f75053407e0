"""Clocks that are wrong, or are set while everything runs: the worker's, the server's, the only host's."""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from tests.support.ground import ground_at, until
from tests.support.postgres import PostgresServer
from tests.support.site import Site
from tests.support.wall import Wall, wall

HOUR = 3600
CONFIG = """
[agents.witness]
command = ["sh", "-c", "echo $FENCEPOST_TICK >> witness"]
[schedules.second]
agent = "witness"
cron = "* * * * * *"
"""


@pytest.fixture
def clock() -> Iterator[Wall]:
    with wall() as made:
        yield made


def up(site: Site, by: Wall, *words: str) -> None:
    site.start(*by.words(), sys.executable, "-m", "fencepost", "up", "--no-web", "--workers", "2", *words)


def ticks(site: Site) -> list[str]:
    path = site.folder / "witness"
    return path.read_text().splitlines() if path.exists() else []


def check(site: Site) -> dict[str, int]:
    """No tick came twice, and each that was owed has a record."""
    assert [tick for tick, times in Counter(ticks(site)).items() if times > 1] == []
    *_, verdict = (json.loads(line) for line in site.fencepost("prove", "--json").splitlines())
    assert (verdict["missing"], verdict["doubled"]) == (0, 0)
    return dict(verdict)


def more(site: Site, number: int = 2) -> None:
    before = len(ticks(site))
    site.until(lambda: len(ticks(site)) >= before + number)


@pytest.mark.slow
def test_workers_whose_clocks_are_an_hour_off_either_way_live_by_the_servers(
    durable_url: str, tmp_path: Path, clock: Wall
) -> None:
    """F26, F71: a wrong clock at a client has no effect on ticks and leases."""
    site = Site(tmp_path, durable_url)
    began_us = time.time_ns() // 1000  # noqa: TID251
    try:
        site.configure(CONFIG)
        with wall() as behind:
            clock.step(HOUR)
            behind.step(-HOUR)
            up(site, clock, "--ttl", "2s")
            up(site, behind, "--ttl", "2s")
            site.until(lambda: len(ticks(site)) >= 6)
            site.close()
        runs = site.runs()
        assert {run.attempt for run in runs if run.state == "succeeded"} == {1}
        assert all(began_us <= (run.tick_us or 0) <= time.time_ns() // 1000 for run in runs)  # noqa: TID251
        check(site)
    finally:
        site.close()


@pytest.mark.slow
def test_a_servers_clock_that_jumps_an_hour_ahead_and_back_fires_nothing_twice(
    tmp_path: Path, clock: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F27, F28: the ticks of the hour are accounted for once; what the clock repeats is not."""
    for name, value in clock.environment.items():
        monkeypatch.setenv(name, value)
    with PostgresServer.private({"fsync": "on", "full_page_writes": "on"}) as server:
        for name in clock.environment:
            monkeypatch.delenv(name)
        site = Site(tmp_path, server.create_database())
        try:
            site.configure(CONFIG)
            site.up("--workers", "2", "--ttl", "3s")
            site.until(lambda: len(ticks(site)) >= 2)
            clock.step(HOUR)
            more(site)
            ahead = site.runs()
            clock.step(0)
            Event().wait(3)
            clock.step(HOUR + 20)
            more(site)

            assert check(site)["accounted"] > HOUR
            assert max(run.tick_us or 0 for run in ahead) - min(run.tick_us or 0 for run in ahead) > HOUR * 1_000_000
        finally:
            site.close()


@pytest.mark.slow
def test_a_servers_clock_that_jumps_ahead_ends_every_lease_and_no_holder_goes_on(
    tmp_path: Path, clock: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F27: mass takeover; the old holder finds itself replaced, and its agent is gone."""
    for name, value in clock.environment.items():
        monkeypatch.setenv(name, value)
    with PostgresServer.private({"fsync": "on", "full_page_writes": "on"}) as server:
        for name in clock.environment:
            monkeypatch.delenv(name)
        with ground_at(tmp_path, store=server.create_database()) as ground:
            words = ("exec", "--lock", "z", "--ttl", "60s")
            holder = ground.start(*words, "--", "sh", "-c", "echo $FENCEPOST_FENCE > first; sleep 60")
            first = int(ground.wait_for("first"))
            heir = ground.start(*words, "--wait=40s", "--", "sh", "-c", "echo $FENCEPOST_FENCE > second")
            with closing(ground.store()) as store:
                until(lambda: bool(store.waiters()), "the heir waits")
            clock.step(HOUR)

            assert ground.told(heir).code == 0
            assert int(ground.wait_for("second")) > first
            assert ground.told(holder, seconds=60).code == 76


@pytest.mark.slow
def test_a_host_whose_clock_is_set_back_over_a_tick_does_not_fire_it_again(site: Site, clock: Wall) -> None:
    """F29, on SQLite: everybody lives by the clock that is set."""
    site.configure(CONFIG)
    up(site, clock, "--ttl", "3s")
    site.until(lambda: len(ticks(site)) >= 3)
    clock.step(-5)
    Event().wait(3)
    clock.step(3)
    more(site)
    site.close()

    assert [tick for tick, times in Counter(ticks(site)).items() if times > 1] == []
    born = [run.occurrence for run in site.runs()]
    assert len(born) == len(set(born))
