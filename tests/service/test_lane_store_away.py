"""Lanes while their store is away: they hear who wants them to stop, and no end is lost."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.proxy import FaultyProxy, Pass, Reset
from tests.support.site import Site

if TYPE_CHECKING:
    import subprocess

LOOKS = 3  # in vain, until a station has surely noticed
WORK = """
import time
from pathlib import Path

def quick(ctx):
    pass

def slow(ctx):
    ctx.checkpoint = 1
    with open("notes", "a") as file:
        file.write("began\\n")
    while not Path("go").exists():
        time.sleep(0.05)
"""


@pytest.fixture
def site(tmp_path: Path, faulty_proxy: FaultyProxy) -> Iterator[Site]:
    made = Site(tmp_path, faulty_proxy.url)
    yield made
    faulty_proxy.switch(Pass())
    made.close()


def configure(site: Site) -> None:
    (site.folder / "work.py").write_text(WORK)
    agent = '[agents.{0}]\nengine = "python"\nfunction = "work:{0}"\nin_process = true\n'
    site.configure(agent.format("quick") + agent.format("slow"))


def take_the_store_away(proxy: FaultyProxy) -> Callable[[], bool]:
    """Reset every connection from now on; what is returned tells whether the store was asked for in vain."""
    proxy.switch(Reset())
    before = proxy.bites
    return lambda: proxy.bites >= before + LOOKS


def is_over(station: "subprocess.Popen[bytes]") -> bool:
    return station.poll() is not None


def test_a_lane_with_nothing_to_do_hears_that_it_shall_stop(site: Site, faulty_proxy: FaultyProxy) -> None:
    configure(site)
    site.fencepost("run", "quick")
    station = site.up("--workers", "1", "--ttl", "30s")
    site.until(lambda: site.runs(state="succeeded"))
    missed = take_the_store_away(faulty_proxy)
    site.until(missed)  # the lane looks for work, and finds no store
    station.send_signal(signal.SIGTERM)
    site.until(lambda: is_over(station), seconds=50)  # without an ear, it takes 80


def test_an_end_that_comes_while_the_store_is_away_is_written_down_when_it_is_back(
    site: Site, faulty_proxy: FaultyProxy
) -> None:
    configure(site)
    site.fencepost("run", "slow")
    site.up("--workers", "1", "--ttl", "30s")
    site.until((site.folder / "notes").exists)
    missed = take_the_store_away(faulty_proxy)
    (site.folder / "go").touch()
    site.until(missed)
    faulty_proxy.switch(Pass())
    site.until(lambda: site.runs(state="succeeded"))
    (run,) = site.runs()
    assert (run.attempt, run.reason) == (1, None)
    assert (site.folder / "notes").read_text() == "began\n"


def test_a_drain_while_the_store_is_away_waits_for_it_and_hands_the_run_back(
    site: Site, faulty_proxy: FaultyProxy
) -> None:
    configure(site)
    site.fencepost("run", "slow")
    station = site.up("--workers", "1", "--ttl", "30s")
    site.until((site.folder / "notes").exists)
    missed = take_the_store_away(faulty_proxy)
    station.send_signal(signal.SIGTERM)
    site.until(missed)
    assert station.poll() is None, "its run is under way, and it is not known whether it left a checkpoint"
    faulty_proxy.switch(Pass())
    site.until(lambda: site.runs(state="ready"))
    (run,) = site.runs()
    assert (run.attempt, run.reason) == (0, "drained"), "and no attempt was used"
    site.until(lambda: is_over(station))
