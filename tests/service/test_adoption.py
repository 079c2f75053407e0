"""A worker may be restarted, upgraded or killed: its agents go on under their guards, and the next worker adopts them."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fencepost.ports.runs import RunRow
from tests.support.ground import freeze, is_alive, send
from tests.support.manager import Manager
from tests.support.site import Site

if TYPE_CHECKING:
    import subprocess


TTL, SHORT_TTL = "30s", "6s"
COUNTS = """\
echo $$ > new-$FENCEPOST_RUN_ID; mv new-$FENCEPOST_RUN_ID pid-$FENCEPOST_RUN_ID
for i in $(seq 1 400); do echo "line $i"; [ -e go ] && break; sleep 0.05; done
echo the end
"""
AGENTS = f"""
[agents.counts]
command = '''{COUNTS}'''
shell = true
"""
KEEPS = """
[agents.keeps]
command = '''
touch ready
until [ -e gone ]; do sleep 0.05; done
echo '{"step": 7}' | fencepost checkpoint set && touch kept
fencepost gate check && touch checked
until [ -e go ]; do sleep 0.05; done
'''
shell = true
on_lost = "resume"
"""
ORPHANS = """
[agents.orphans]
command = "setsid sh -c 'echo $$ > new; mv new orphan; exec sleep 600' & wait"
shell = true
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, request.getfixturevalue("durable_url") if request.param == "postgresql" else None)
    yield made
    made.close()


def at_work(site: Site, number: int) -> dict[str, int]:
    """Start so many agents and return their pids by their runs."""
    for _ in range(number):
        site.fencepost("run", "counts")
    site.until(lambda: len(list(site.folder.glob("pid-*"))) == number, seconds=60)
    return pids_of(site)


def pids_of(site: Site) -> dict[str, int]:
    """Return the pids of the latest agents, by their runs."""
    return {path.name.removeprefix("pid-"): int(path.read_text()) for path in site.folder.glob("pid-*")}


def leaders(site: Site) -> list[int]:
    """Return the pids of the daemons that hold the lead of the scheduler, in time or not."""
    return [one.supervisor.pid for one in site.leases() if "scheduler:default" in one.resources]


def go_away(worker: "subprocess.Popen[bytes]", how: str) -> None:
    worker.send_signal(signal.SIGKILL if how == "killed" else signal.SIGTERM)
    worker.wait(20)


def up(site: Site, number: int, *, leaves: bool = False, ttl: str = TTL) -> "subprocess.Popen[bytes]":
    words = ("up", "--workers", str(number), "--ttl", ttl, "--no-web")
    return site.start("env", f"FENCEPOST_ON_TERM={'leave' if leaves else ''}", "fencepost", *words)


def log_of(site: Site, run: RunRow) -> list[str]:
    return site.fencepost("logs", run.id).splitlines()


@pytest.mark.parametrize(("how", "number"), [("killed", 1), ("killed", 20), ("left", 1), ("left", 20)])
def test_agents_go_on_when_their_worker_goes_and_the_next_one_settles_them(site: Site, how: str, number: int) -> None:
    site.configure(AGENTS)
    worker = up(site, number, leaves=how == "left")
    pids = at_work(site, number)
    before = {run.id: (run.fence, run.attempt) for run in site.runs()}

    go_away(worker, how)
    assert all(map(is_alive, pids.values()))
    up(site, number)
    site.until(lambda: "adopted" in site.said())
    (site.folder / "go").touch()
    site.until(lambda: len(site.runs(state="succeeded")) == number, seconds=60)

    runs = site.runs()
    assert {run.id: (run.fence, run.attempt) for run in runs} == before, "same lease, same fence, same attempt"
    assert all(
        len(json.loads(row)["attempts"]) == 1 for row in [site.fencepost("show", run.id, "--json") for run in runs]
    )
    for run in runs[:3]:
        lines = log_of(site, run)
        assert lines == [f"line {number}" for number in range(1, len(lines))] + ["the end"]


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_agents_go_on_when_the_manager_of_services_starts_the_worker_again(site: Site, how: str) -> None:
    site.configure(AGENTS)
    unit = site.fencepost("service", "install", "--dry-run", "--workers", "5")
    manager = Manager(site, unit)
    manager.start()
    pids = at_work(site, 5)

    getattr(manager, how)()
    site.until(lambda: "adopted" in site.said())
    assert all(map(is_alive, pids.values()))
    (site.folder / "go").touch()
    site.until(lambda: len(site.runs(state="succeeded")) == len(pids), seconds=60)

    assert pids_of(site) == pids, "same process"
    assert {run.attempt for run in site.runs()} == {1}


def test_a_manager_that_ends_the_whole_unit_ends_the_agents(site: Site) -> None:
    """Shows that the stand-in kills as systemd does: it is KillMode=process that lets the agents live."""
    site.configure(AGENTS)
    unit = site.fencepost("service", "install", "--dry-run", "--workers", "1")
    manager = Manager(site, unit.replace("KillMode=process", "KillMode=control-group"))
    manager.start()
    (pid,) = at_work(site, 1).values()

    manager.stop()

    site.until(lambda: not is_alive(pid))


@pytest.mark.parametrize("who", ["scheduler", "up"])
def test_a_run_whose_worker_and_guard_were_killed_together_is_settled_when_nothing_of_its_tree_is_left(
    site: Site, who: str
) -> None:
    """Another host may begin it again at once: what the agent had started has to be dead by then."""
    site.configure(ORPHANS)
    worker, orphan = site.up("--ttl", TTL, command="worker"), site.folder / "orphan"
    site.fencepost("run", "orphans")
    site.until(lambda: orphan.exists() and [one for one in site.leases() if one.run_id == site.runs()[0].id])
    (held,) = [one for one in site.leases() if one.run_id == site.runs()[0].id]
    freeze(site.store, worker.pid, held.supervisor.pid)
    for pid in (worker.pid, held.supervisor.pid):
        send(pid, signal.SIGKILL)
    assert is_alive(int(orphan.read_text()))
    site.up("--ttl", TTL, command=who)
    site.until(lambda: site.runs()[0].state != "running")

    assert (site.runs()[0].state, is_alive(int(orphan.read_text()))) == ("dead", False)


def test_an_agent_that_ended_while_there_was_no_worker_is_settled_as_it_ended(site: Site) -> None:
    site.configure(AGENTS)
    worker = up(site, 1)
    (pid,) = at_work(site, 1).values()
    go_away(worker, "killed")
    (site.folder / "go").touch()
    site.until(lambda: not is_alive(pid))

    up(site, 1)
    site.until(lambda: site.runs(state="succeeded"))

    (run,) = site.runs()
    assert (run.attempt, run.exit_code) == (1, 0)
    assert log_of(site, run)[-1] == "the end"


def test_an_agent_that_no_worker_comes_for_is_ended_in_time_and_is_lost(site: Site) -> None:
    site.configure(AGENTS)
    worker = up(site, 1, ttl=SHORT_TTL)
    (pid,) = at_work(site, 1).values()
    go_away(worker, "killed")
    site.until(lambda: not is_alive(pid), seconds=10)

    up(site, 1, ttl=SHORT_TTL)
    site.until(lambda: site.runs(state="dead"))

    assert site.runs()[0].reason == "lost"


def test_a_lease_that_ran_out_after_it_was_left_was_a_drain_and_costs_no_attempt(site: Site) -> None:
    site.configure(AGENTS.replace("shell = true", 'shell = true\non_lost = "restart"'))
    worker = up(site, 1, leaves=True)
    (pid,) = at_work(site, 1).values()
    go_away(worker, "left")
    (lease,) = [held for held in site.leases() if held.left_us is not None]
    assert lease.guard is not None
    send(lease.guard.pid, signal.SIGKILL)  # with it dies the agent
    site.until(lambda: not is_alive(pid))
    (site.folder / "go").touch()

    up(site, 1)
    site.until(lambda: site.runs(state="succeeded"), seconds=60)

    assert site.runs()[0].attempt == 1


def test_an_agent_that_was_left_and_adopted_has_no_more_time_than_its_new_worker_renews_for(site: Site) -> None:
    """Its first worker left it for two minutes; a lease of six seconds that nobody renews is over long before that."""
    site.configure(AGENTS)
    worker = up(site, 1, leaves=True, ttl=SHORT_TTL)
    (pid,) = at_work(site, 1).values()
    go_away(worker, "left")
    adopter = up(site, 1, ttl=SHORT_TTL)
    site.until(lambda: "adopted" in site.said())
    (held,) = [one for one in site.leases() if one.guard is not None]
    site.until(lambda: [one for one in site.leases() if one.id == held.id and one.renewals > held.renewals])

    go_away(adopter, "killed")

    site.until(lambda: not is_alive(pid), seconds=10)
    (over,) = [one for one in site.leases() if one.id == held.id]
    assert not over.expired, "it is dead before its lease can be given away"


@pytest.mark.parametrize("guard", ["awake", "frozen"])
def test_a_frozen_worker_is_not_robbed_and_finds_nothing_to_end_when_it_wakes(site: Site, guard: str) -> None:
    site.configure(AGENTS.replace("shell = true", 'shell = true\non_lost = "restart"'))
    frozen = up(site, 1, ttl=SHORT_TTL)
    (pid,) = at_work(site, 1).values()
    (held,) = [one for one in site.leases() if one.guard is not None]
    freeze(site.store, frozen.pid, *([held.supervisor.pid] if guard == "frozen" else []))
    up(site, 1, ttl=SHORT_TTL)
    site.until(lambda: not is_alive(pid), seconds=15)  # by its guard when its time is over, or by its successor
    site.until(lambda: [*pids_of(site).values()] != [pid])
    (again,) = pids_of(site).values()
    (run,) = site.runs(state="running")
    assert run.attempt == 2
    assert "adopted" not in site.said(), "its keeper lives"
    site.until(lambda: "takes over:" in site.said())

    site.until(lambda: frozen.pid not in leaders(site))  # or it would lead on when it wakes
    frozen.send_signal(signal.SIGCONT)
    site.until(lambda: site.said().count("passive:") == 2)  # it is at work again, and another one leads
    assert is_alive(again)
    (site.folder / "go").touch()
    site.until(lambda: site.runs(state="succeeded"))
    assert [(one.attempt, one.fence) for one in site.runs()] == [(run.attempt, run.fence)]


def test_what_an_agent_asks_without_a_worker_waits_for_the_next_one_and_checks_are_answered_at_once(site: Site) -> None:
    site.configure(KEEPS)
    worker = up(site, 1)
    site.fencepost("run", "keeps")
    site.until((site.folder / "ready").exists)
    go_away(worker, "killed")
    (site.folder / "gone").touch()

    up(site, 1)
    site.until((site.folder / "kept").exists)
    site.until((site.folder / "checked").exists)
    (site.folder / "go").touch()
    site.until(lambda: site.runs(state="succeeded"))
