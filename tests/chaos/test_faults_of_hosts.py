"""A host that runs out of processes or memory, and a worker that loses the process which starts its attempts."""

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from fencepost.host.log_files import read_log
from tests.support.ground import children, send, until
from tests.support.limits import limited
from tests.support.site import Site

MEGABYTE = 1_000_000
BOMB = """
import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    except OSError:
        open("full", "w").close()
        time.sleep(0.01)
"""
GLUTTON = """
import sys
print("eating", flush=True)
eaten = []
while True:
    eaten.append(b"x" * 5_000_000)
"""
CALM = "[agents.calm]\ncommand = ['true']\n"


def agent(folder: Path, script: str, more: str = "") -> str:
    """Write a Python program and return an agent that runs it."""
    (folder / "agent.py").write_text(script)
    return f"[agents.worker]\ncommand = ['{sys.executable}', '-S', 'agent.py']\n{more}"


def test_an_agent_that_forks_without_end_is_ended_and_harms_nobody_else(site: Site) -> None:
    """F18: the service's bound on processes is used up, so that the worker itself can start nothing more."""
    site.configure(agent(site.folder, BOMB, "timeout = '2s'\n") + CALM)
    with limited("pids", 45) as limit:
        daemon = site.start(*limit.words(), sys.executable, "-m", "fencepost", "up", "--no-web", "--workers", "2")
        site.fencepost("run", "worker")
        site.until((site.folder / "full").exists)
        site.fencepost("run", "calm")
        site.until(lambda: site.runs(agent="worker", state="dead"))
        site.until(lambda: site.runs(agent="calm", state="succeeded"))

        assert site.runs(agent="worker")[0].reason == "timeout"
        assert daemon.poll() is None
        until(lambda: limit.number() < 12, "nothing is left of what it forked")
        site.close()


def test_a_worker_without_processes_to_spare_says_so_once_and_starts_the_others_when_there_is_room(site: Site) -> None:
    """F18: what runs goes on, what waits goes on waiting, no attempt used."""
    site.configure("[agents.worker]\ncommand = ['cat', 'gate']\n")
    gate, opened = site.folder / "gate", site.folder / "opened"
    os.mkfifo(gate)
    opened.touch()
    held_open = os.open(gate, os.O_RDWR)  # whoever reads it waits
    with limited("pids", 40) as limit:
        site.start(
            *limit.words(), sys.executable, "-m", "fencepost", "up", "--no-web", "--workers", "30", "--ttl", "6s"
        )
        site.fencepost("run", "worker", "--payloads", "-", data="{}\n" * 30)
        site.until(lambda: "can be started, trying again" in site.said())
        running = site.runs(state="running")
        site.until(lambda: all(held.renewals >= 2 for held in site.leases() if held.guard))

        assert site.runs(state="dead") == []
        assert site.said().count("can be started, trying again") <= 2, "once for agents, and once for guards"
        assert "lost_before_start" not in site.said()
        (told,) = [one for one in site.rows("doctor") if one["check"] == "limits"]
        assert told["status"] == "warn", "doctor looks at the worker's own limits, and not at those of this shell"
        assert re.fullmatch(r"worker \d+: \d+ more process(es)? may be started", told["message"])
        opened.rename(gate)  # for those who come
        os.close(held_open)
        site.until(lambda: len(site.runs(state="succeeded")) == 30, seconds=90)
        assert {run.attempt for run in site.runs()} == {1}
        assert len(running) > 1
        site.close()


def test_an_agent_that_eats_memory_is_ended_by_the_kernel_and_the_worker_survives(site: Site) -> None:
    """F20: the service's bound on memory; the log says that memory was the matter."""
    site.configure(agent(site.folder, GLUTTON) + CALM)
    with limited("memory", 300 * MEGABYTE) as limit:
        daemon = site.start(*limit.words(), sys.executable, "-m", "fencepost", "up", "--no-web", "--workers", "1")
        site.fencepost("run", "worker")
        site.until(lambda: site.runs(agent="worker", state="dead"))
        site.fencepost("run", "calm")
        site.until(lambda: site.runs(agent="calm", state="succeeded"))

        (run,) = site.runs(agent="worker")
        assert (run.exit_code, run.reason, run.attempt) == (137, "ambiguous", 1)
        assert b"eating\nfencepost: killed, while the kernel of this machine ended" in read_log(run.log or "")
        assert daemon.poll() is None
        assert site.said().count("the kernel killed an agent for want of memory") == 1
        site.close()


@pytest.mark.parametrize("kind", ["small", "full"])
def test_a_worker_whose_helper_was_killed_ends_and_says_so(site: Site, kind: str) -> None:
    """F20, the other way: the kernel chose the helper, without which nothing could be started any more."""
    site.configure("[agents.worker]\ncommand = ['sleep', '600']\non_lost = 'restart'\n")
    daemon = site.up("--workers", "1", "--ttl", "3s")
    site.fencepost("run", "worker")
    site.until(lambda: site.runs(state="running") and site.runs()[0].started_us)
    site.until(lambda: helpers(daemon.pid, small=kind == "small"))
    (zygote,) = helpers(daemon.pid, small=kind == "small")
    send(zygote, signal.SIGKILL)

    assert daemon.wait(20) == 1
    assert "the helper that starts agents was killed" in site.said()
    site.up("--workers", "1", "--ttl", "3s")
    site.until(lambda: "adopted 1 running agent" in site.said())
    assert site.runs(state="running", attempt=1), "the agent goes on under its guard"
    site.fencepost("cancel", site.runs()[0].id)
    site.until(lambda: site.runs(state="cancelled"))


def helpers(worker: int, *, small: bool) -> list[int]:
    """Return the worker's children that fork guards of this kind; a full one has a name once it has loaded everything."""
    return [
        pid
        for pid in children(worker)
        if Path(f"/proc/{pid}/comm").read_text().startswith("fencepost-zyg")
        and ("plain_zygote" in Path(f"/proc/{pid}/cmdline").read_text()) is small
    ]
