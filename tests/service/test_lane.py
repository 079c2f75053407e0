"""Lanes, from a person's chair: short functions run one after the other in one process, and keep every promise."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from fencepost.host.clock import SystemClock
from fencepost.host.processes import system_processes
from tests.support.site import Site

WORK = """
import asyncio, os, time
from pathlib import Path

def note(ctx):
    with open("notes", "a") as file:
        file.write(f"{ctx.run_id} {os.getpid()} {ctx.payload.get('n')}\\n")

async def later(ctx):
    await asyncio.sleep(0)
    note(ctx)

def fail(ctx):
    print("before")
    raise ValueError("no good")

def hang(ctx):
    note(ctx)
    time.sleep(60)

def obey(ctx):
    note(ctx)
    while not ctx.cancelled:
        time.sleep(0.05)

def log(ctx):
    import logging
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    logging.info("said in %s", ctx.payload["n"])

def leave(ctx):
    note(ctx)
    os._exit(3)

def resume(ctx):
    note(ctx)
    if ctx.checkpoint is None:
        ctx.checkpoint = {"half": True}
        time.sleep(60)
"""


def configure(site: Site, **agents: str) -> None:
    (site.folder / "work.py").write_text(WORK)
    site.configure(
        "".join(
            f'[agents.{name}]\nengine = "python"\nfunction = "work:{name}"\nin_process = true\n{more}\n'
            for name, more in agents.items()
        )
    )


def notes(site: Site) -> list[list[str]]:
    path = site.folder / "notes"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def states(site: Site) -> list[str]:
    return [f"{run.state} {run.reason or ''}".strip() for run in reversed(site.runs())]


def new_runner(site: Site) -> int:
    """Return the process that calls functions as soon as there is one."""
    for _ in range(10_000):
        for pid in site.left_alive():
            with suppress(OSError):
                if b"fencepost.lane_runner" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
    raise AssertionError(f"no lane began; the daemon said:\n{site.said()}")


def test_runs_of_a_lane_share_one_process_and_each_runs_once(site: Site) -> None:
    configure(site, note="", later="")
    for number in range(6):
        site.fencepost("run", "note" if number % 2 else "later", "--payload", f'{{"n": {number}}}')
    site.up("--workers", "1", "--ttl", "3s")
    site.until(lambda: len(site.runs(state="succeeded")) == 6)
    assert sorted(int(one[2]) for one in notes(site)) == list(range(6))
    assert len({one[1] for one in notes(site)}) == 1


def test_a_function_that_raises_is_a_failure_with_its_traceback_in_the_log(site: Site) -> None:
    configure(site, fail="")
    site.up("--workers", "1", "--ttl", "3s")
    site.fencepost("run", "fail", "--wait", code=1)
    (run,) = site.runs()
    text = Path(run.log or "").read_text()
    assert (run.state, run.reason, run.exit_code) == ("dead", "exit_code", 1)
    assert text.startswith("before\n")
    assert "ValueError: no good" in text


def test_a_handler_that_one_run_sets_up_writes_to_the_log_of_the_run_that_is_called(site: Site) -> None:
    configure(site, log="")
    for number in range(3):
        site.fencepost("run", "log", "--payload", f'{{"n": {number}}}')
    site.up("--workers", "1", "--ttl", "3s")
    site.until(lambda: len(site.runs(state="succeeded")) == 3)
    logs = [Path(run.log or "").read_text() for run in reversed(site.runs())]
    assert logs == [f"said in {number}\n" for number in range(3)]


def test_nothing_is_leased_before_the_process_that_calls_it_has_loaded(site: Site) -> None:
    configure(site, note="")
    for _ in range(10):  # on a busy machine it may have loaded before we see it
        site.fencepost("run", "note")
        site.up("--workers", "1", "--ttl", "3s")
        runner = new_runner(site)
        os.kill(runner, signal.SIGSTOP)  # noqa: TID251  # a process of this site
        SystemClock().sleep(0.3)
        found = states(site)[-1]
        os.kill(runner, signal.SIGCONT)  # noqa: TID251  # a process of this site
        site.until(lambda: set(states(site)) == {"succeeded"})
        site.kill()
        if found == "ready":
            return
    raise AssertionError(f"the run was {found}")


def test_a_run_over_its_time_takes_its_process_along_and_the_others_go_on(site: Site) -> None:
    configure(site, hang='timeout = "1s"\n', note="")
    site.fencepost("run", "hang")
    for _ in range(3):
        site.fencepost("run", "note")
    site.up("--workers", "1", "--ttl", "3s")
    site.until(lambda: len(site.runs(state="succeeded")) == 3 and site.runs(state="dead"))
    assert states(site)[0] == "dead timeout"
    assert [run.attempt for run in site.runs(agent="note")] == [1, 1, 1]


def test_a_function_that_ends_its_process_is_settled_by_its_code(site: Site) -> None:
    configure(site, leave="")
    site.up("--workers", "1", "--ttl", "3s")
    site.fencepost("run", "leave", "--wait", code=3)
    (run,) = site.runs()
    assert (run.state, run.reason, run.exit_code) == ("dead", "exit_code", 3)


def test_a_function_hears_that_it_is_cancelled(site: Site) -> None:
    configure(site, obey="")
    run_id = site.fencepost("run", "obey").split()[-1]
    site.up("--workers", "1", "--ttl", "30s")
    site.until(lambda: notes(site))
    site.fencepost("cancel", run_id)
    site.until(lambda: not site.runs(state="running"))
    assert len(notes(site)) == 1


def test_a_worker_that_was_killed_takes_its_lanes_along_and_on_lost_decides(site: Site) -> None:
    configure(site, hang='on_lost = "restart"\n')
    site.fencepost("run", "hang")
    killed = site.up("--workers", "1", "--ttl", "3s")
    site.until(lambda: notes(site))
    os.kill(killed.pid, signal.SIGKILL)  # noqa: TID251  # our own child, not yet reaped
    site.up("--workers", "1", "--ttl", "3s")
    site.until(lambda: len(notes(site)) == 2)
    (run,) = site.runs()
    assert (run.state, run.attempt) == ("running", 2)
    processes = system_processes(SystemClock())
    assert processes.identify(int(notes(site)[0][1])) is None, "the old function still runs beside the new one"


def test_a_drain_hands_a_run_with_a_checkpoint_back_and_the_next_worker_goes_on(site: Site) -> None:
    configure(site, resume="")
    site.fencepost("run", "resume")
    first = site.up("--workers", "1", "--ttl", "3s")
    site.until(lambda: notes(site))
    site.until(lambda: site.rows("runs") and site.fencepost("show", site.runs()[0].id))
    first.send_signal(signal.SIGTERM)
    first.wait(30)
    assert states(site) == ["ready drained"]
    site.up("--workers", "1", "--ttl", "3s")
    site.until(lambda: site.runs(state="succeeded"))
    assert [run.attempt for run in site.runs()] == [1]


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_lane_that_had_nothing_to_say_leaves_no_log_of_its_own(site: Site, end: signal.Signals) -> None:
    configure(site, note="")
    site.fencepost("run", "note")
    worker = site.up("--workers", "1", "--ttl", "3s")
    site.until(lambda: site.runs(state="succeeded"))
    worker.send_signal(end)
    worker.wait(30)
    assert list((site.folder / "state").rglob("lane-*.log")) == []
