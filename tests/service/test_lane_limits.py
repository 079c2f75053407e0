"""Lanes keep what attempts in processes of their own keep: limits, gates, effects, and a fence against their zombies."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.host.clock import SystemClock
from fencepost.host.processes import system_processes
from tests.support.site import Site

WORK = """
import os, threading, time
from pathlib import Path
from fencepost import NotDone

def note(ctx, text=""):
    with open("notes", "a") as file:
        file.write(f"{ctx.run_id} {os.getpid()} {text}\\n")

def hang(ctx):
    note(ctx)
    time.sleep(60)

def print_on(ctx):
    for _ in range(8):
        print("still at it")
        time.sleep(0.25)

def beat(ctx):
    for _ in range(8):
        ctx.progress("still at it")
        time.sleep(0.25)

def write(ctx):
    ctx.gate("out").write(str(ctx.fence).encode())

def pay(ctx):
    answer = ctx.once("invoice-7", lambda: note(ctx, "paid") or {"number": 17})
    ctx.report(summary=str(answer["number"]))

def stumble(ctx):
    def effect():
        note(ctx, "stumbled")
        raise ValueError("half way")
    ctx.once("invoice-8", effect)

def name_itself(ctx):
    ctx.checkpoint = ctx.payload["n"]
    ctx.report(summary=f"{ctx.run_id} {ctx.payload['n']}")

def leave_a_thread(ctx):
    def linger():
        time.sleep(0.5)
        try:
            ctx.progress("I am still here")
        except Exception as error:
            Path("refused").write_text(str(error))
    threading.Thread(target=linger, daemon=True).start()
"""


@pytest.fixture(params=["sqlite", "postgres"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, request.getfixturevalue("durable_url") if request.param == "postgres" else None)
    yield made
    made.close()


def configure(site: Site, more: str = "", **agents: str) -> None:
    (site.folder / "work.py").write_text(WORK)
    lanes = [
        f'[agents.{name}]\nengine = "python"\nfunction = "work:{name}"\nin_process = true\n{keys}\n'
        for name, keys in agents.items()
    ]
    site.configure("".join(lanes) + more)


def notes(site: Site) -> list[list[str]]:
    path = site.folder / "notes"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def ask(site: Site, agent: str, *words: str) -> str:
    return site.fencepost("run", agent, *words).split()[-1]


def test_a_function_that_does_not_listen_is_ended_when_its_run_is_cancelled(site: Site) -> None:
    configure(site, hang="")
    run_id = ask(site, "hang")
    site.up("--workers", "1", "--ttl", "2s")
    site.until(lambda: notes(site))
    site.fencepost("cancel", run_id)
    site.until(lambda: site.runs(state="cancelled"))
    (run,) = site.runs()
    assert (run.reason, run.attempt) == ("cancelled", 1)
    assert system_processes(SystemClock()).identify(int(notes(site)[0][1])) is None


def test_silence_is_a_stall_while_printing_and_progress_are_work(site: Site) -> None:
    stall = 'stall_timeout = "1s"\n'
    configure(site, hang=stall, print_on=stall, beat=stall)
    for agent in ("print_on", "beat", "hang"):
        ask(site, agent)
    site.up("--workers", "1", "--ttl", "3s")
    site.until(lambda: not site.runs(state="ready") and not site.runs(state="running"))
    ends = {run.agent: (run.state, run.reason) for run in site.runs()}
    assert ends == {"print_on": ("succeeded", None), "beat": ("succeeded", None), "hang": ("dead", "stall_timeout")}


def test_the_gate_is_raised_before_the_function_is_called_and_takes_its_write(site: Site) -> None:
    target = site.folder / "out.txt"
    gate = f'[gates.out]\nkind = "file"\npath = "{target}"\n'
    configure(site, gate, write='gates = ["out"]\n')
    ask(site, "write")
    site.up("--workers", "1", "--ttl", "3s")
    site.until(lambda: site.runs(state="succeeded"))
    (run,) = site.runs()
    assert target.read_text() == str(run.fence)
    stale = site.fencepost(
        "gate", "write-file", str(target), "--resource", f"run:{run.id}", "--fence", str((run.fence or 0) - 1), code=77
    )
    assert stale == ""


def test_a_keeper_that_was_frozen_beyond_its_lease_changes_nothing_when_it_wakes(site: Site) -> None:
    configure(site, hang='on_lost = "restart"\n')
    ask(site, "hang")
    site.up("--workers", "1", "--ttl", "2s")
    site.until(lambda: notes(site))
    keeper = next(int(row["pid"]) for row in site.rows("lease", "list") if row["resource"].startswith("run:"))
    os.kill(keeper, signal.SIGSTOP)  # noqa: TID251  # of our own site
    try:
        site.up("--workers", "1", "--ttl", "2s")
        site.until(lambda: len(notes(site)) == 2)
        assert system_processes(SystemClock()).identify(int(notes(site)[0][1])) is None, "two at once"
        (taken,) = site.runs()
    finally:
        os.kill(keeper, signal.SIGCONT)  # noqa: TID251  # of our own site
    site.until(lambda: system_processes(SystemClock()).identify(keeper) is None)
    (now,) = site.runs()
    assert (now.state, now.attempt, now.fence) == ("running", 2, taken.fence)
    assert len(notes(site)) == 2


def test_an_effect_is_had_once_by_all_runs_of_a_lane(site: Site) -> None:
    configure(site, pay="")
    runs = [ask(site, "pay") for _ in range(5)]
    site.up("--workers", "1", "--ttl", "3s")
    site.until(lambda: len(site.runs(state="succeeded")) == 5)
    assert [words[2] for words in notes(site)] == ["paid"]
    assert {run.summary for run in site.runs()} == {"17"}
    (entry,) = site.rows("ledger", "list")
    assert (entry["state"], entry["run_id"]) == ("completed", notes(site)[0][0])
    assert entry["run_id"] in runs


def test_an_effect_that_failed_half_way_is_for_a_person_and_not_for_the_next_run(site: Site) -> None:
    configure(site, stumble="")
    for _ in range(3):
        ask(site, "stumble")
    site.up("--workers", "1", "--ttl", "3s")
    site.until(lambda: len(site.runs(state="dead")) == 3)
    assert len(notes(site)) == 1
    (entry,) = site.rows("ledger", "list")
    assert (entry["state"], entry["doubt"]) == ("ambiguous", "ValueError: half way")


def test_what_a_function_says_is_kept_with_its_own_run(site: Site) -> None:
    configure(site, name_itself="", leave_a_thread="")
    for number in range(30):
        ask(site, "name_itself", "--payload", json.dumps({"n": number}))
    ask(site, "leave_a_thread")
    site.up("--workers", "1", "--ttl", "3s")
    site.until(lambda: len(site.runs(state="succeeded")) == 31)
    said = {run.id: run.summary for run in site.runs(agent="name_itself")}
    payloads = {run.id: json.loads(run.payload)["n"] for run in site.runs(agent="name_itself")}
    assert said == {run_id: f"{run_id} {number}" for run_id, number in payloads.items()}
    site.until((site.folder / "refused").exists)
    assert "is over" in (site.folder / "refused").read_text()
