"""An upgrade with runs in flight: from a program whose agents end with their worker, and from one whose guards go on."""

import os
import signal
import sys
from collections import Counter

import pytest

from fencepost.ports.runs import RunRow
from tests.support.ground import is_alive
from tests.support.site import Site
from tests.upgrade.conftest import OldSite

RUNS = int(os.environ.get("FENCEPOST_TEST_RUNS_IN_FLIGHT", "3"))  # of 100 they were all there still
TTL, SHORT_TTL = ("--ttl", "30s"), ("--ttl", "6s")
AGENT = """
[agents.slow]
command = '''
echo $$ > new-$FENCEPOST_RUN_ID; mv new-$FENCEPOST_RUN_ID pid-$FENCEPOST_RUN_ID
until [ -e go ]; do sleep 0.05; done
echo $FENCEPOST_RUN_ID >> done
'''
shell = true
on_lost = "restart"
"""


def in_flight(site: Site) -> dict[str, int]:
    """Let runs begin, and return the pids of their agents."""
    for _ in range(RUNS):
        site.fencepost("run", "slow")
    site.until(lambda: len(pids(site)) == RUNS, seconds=60)
    return pids(site)


def pids(site: Site) -> dict[str, int]:
    return {path.name.removeprefix("pid-"): int(path.read_text()) for path in site.folder.glob("pid-*")}


def ended(site: Site, *, seconds: float = 60) -> list[RunRow]:
    """Let the agents end, and return their runs; each has had its effect once."""
    (site.folder / "go").touch()
    site.until(lambda: len(site.runs(state="succeeded")) == RUNS, seconds=seconds)
    done = (site.folder / "done").read_text().split()
    assert sorted(done) == sorted(pids(site)), "nothing ran twice, and nothing was lost"
    return site.runs()


def up(site: Site, *words: str) -> int:
    """Start a worker with room for all, and return its pid; it says when it is at work."""
    said = site.said().count("room for")
    daemon = site.up("--workers", str(RUNS), *words)
    site.until(lambda: site.said().count("room for") > said)
    return daemon.pid


def test_a_worker_of_today_leaves_alone_what_runs_under_the_worker_before_it(now: Site, before: OldSite) -> None:
    before.configure(AGENT)
    up(before, *SHORT_TTL)
    agents = in_flight(before)
    now.fencepost("store", "migrate", "--store", now.store)
    up(now, *SHORT_TTL)
    fences = {run.id: run.fence for run in now.runs()}
    now.until(lambda: all(held.renewals >= 4 for held in now.leases() if held.guard))  # longer than a lease lasts

    assert pids(now) == agents
    assert all(map(is_alive, agents.values()))
    assert {run.id: (run.fence, run.attempt) for run in ended(now)} == {run: (fences[run], 1) for run in agents}
    assert "adopted" not in now.said(), "its guards know of no keeper"
    assert "Traceback" not in now.said()


def test_what_a_killed_worker_of_before_left_is_ended_and_begun_again_once(now: Site, before: OldSite) -> None:
    before.configure(AGENT)
    worker = before.up("--workers", str(RUNS), *SHORT_TTL)
    agents = in_flight(before)
    now.fencepost("store", "migrate", "--store", now.store)
    worker.kill()
    worker.wait(10)

    up(now, *SHORT_TTL)
    now.until(lambda: not set(pids(now).values()) & set(agents.values()), seconds=60)

    assert not any(map(is_alive, agents.values())), "the old trees are dead before the new ones start"
    assert {run.attempt for run in ended(now)} == {2}


def test_guards_of_today_go_on_beside_a_worker_of_before_until_one_of_today_adopts_them(
    now: Site, before: OldSite
) -> None:
    now.configure(AGENT)
    worker = now.up("--workers", str(RUNS), *TTL)
    agents = in_flight(now)
    fences = {run.id: run.fence for run in now.runs()}
    worker.send_signal(signal.SIGKILL)
    worker.wait(10)

    up(before, *TTL)
    other = now.fencepost("run", "slow").split()[-1]  # the old worker is at work: it begins what waits
    now.until(lambda: other in pids(now))
    assert {run: pid for run, pid in pids(now).items() if run != other} == agents
    assert all(map(is_alive, agents.values()))
    up(now, *TTL)
    now.until(lambda: f"adopted {RUNS} running agents" in now.said())
    (now.folder / "go").touch()
    now.until(lambda: len(now.runs(state="succeeded")) == RUNS + 1, seconds=60)

    ran = {run.id: (run.fence, run.attempt) for run in now.runs() if run.id != other}
    assert ran == {run: (fences[run], 1) for run in agents}, "same lease, same attempt"
    assert sorted((now.folder / "done").read_text().split()) == sorted([*agents, other])


def test_guards_that_nobody_adopts_are_gone_before_a_worker_of_before_begins_their_runs_again(
    now: Site, before: OldSite
) -> None:
    now.configure(AGENT)
    worker = now.up("--workers", str(RUNS), *SHORT_TTL)
    agents = in_flight(now)
    worker.send_signal(signal.SIGKILL)
    worker.wait(10)

    up(before, *SHORT_TTL)
    now.until(lambda: not set(pids(now).values()) & set(agents.values()), seconds=90)

    assert not any(map(is_alive, agents.values()))
    assert {run.attempt for run in ended(now)} == {2}


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_agents_go_on_when_the_program_of_their_worker_is_replaced(
    now: Site, guarding: OldSite, how: signal.Signals
) -> None:
    guarding.configure(AGENT)
    words = ("up", "--workers", str(RUNS), *TTL, "--no-web")
    leaves = {**guarding.environment(), "FENCEPOST_ON_TERM": "leave"}
    worker = guarding.start(sys.executable, "-m", "fencepost", *words, environment=leaves)
    agents = in_flight(guarding)
    worker.send_signal(how)
    worker.wait(20)
    now.fencepost("store", "migrate", "--store", now.store)
    fences = {run.id: run.fence for run in now.runs()}

    up(now, *TTL)
    now.until(lambda: f"adopted {RUNS} running agents" in now.said(), seconds=60)

    assert all(map(is_alive, agents.values()))
    ran = {run.id: (run.fence, run.attempt) for run in ended(now, seconds=60 + RUNS)}
    assert ran == {run: (fences[run], 1) for run in agents}, "same lease, same attempt"
    assert pids(now) == agents, "same processes"
    settled = Counter(row["subject"] for row in now.rows("audit", "--limit", "1000") if row["verb"] == "settle")
    assert settled == {f"run:{run}": 1 for run in agents}
