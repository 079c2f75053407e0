"""Faults of processes, one by one, on real daemons: what is killed, stopped, starved or flooded, and what comes of it."""

import json
import os
import resource
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

from fencepost.host.log_files import read_log
from tests.support.ground import Ground, children, is_alive, send, until
from tests.support.locked import locked
from tests.support.site import Site

MEGABYTE = 1_000_000


def agent(script: str, **settings: str) -> str:
    words = "".join(f"{name} = {value}\n" for name, value in settings.items())
    return f"[agents.worker]\ncommand = ['sh', '-c', '''{script}''']\n{words}"


def kill_at_once(*pids: int) -> None:
    """Kill a daemon and everything below it, as a host that loses its power does."""
    found = list(pids)
    for pid in found:
        found += children(pid)
    for pid in found:
        send(pid, signal.SIGKILL)
    until(lambda: not any(map(is_alive, found)), "they are gone")


def test_when_all_schedulers_were_away_each_policy_accounts_for_every_tick(site: Site) -> None:
    """F03, in seconds for minutes: three policies over one outage."""
    schedules = "".join(
        f'[schedules.{missed}]\nagent = "worker"\ncron = "* * * * * *"\nmissed = "{missed}"\ngrace = "1s"\n'
        f'catchup_max = 3\nstagger = "0s"\noverlap = "queue"\nqueue_max = 10\n'
        for missed in ("skip", "coalesce", "replay")
    )
    site.configure(agent("true") + schedules)
    first, second = site.up("--workers", "3"), site.up("--workers", "3")
    site.until(lambda: len(site.runs(state="succeeded")) >= 3)
    kill_at_once(first.pid, second.pid)
    before = len(site.rows("schedule", "ticks", "skip"))
    os.waitpid(-1, os.WNOHANG)
    until(lambda: _pending(site) >= 9, "three seconds are owed by each of three schedules")

    site.up("--workers", "3")
    site.until(lambda: len(site.rows("schedule", "ticks", "skip")) >= before + 3)

    fates = {name: Counter[str]() for name in ("skip", "coalesce", "replay")}
    for name, fate in fates.items():
        for row in site.rows("schedule", "ticks", name):
            fate[row["disposition"]] += row["count"]
    assert fates["skip"]["missed"] >= 2
    assert fates["coalesce"]["coalesced"] >= 2
    assert fates["coalesce"]["missed"] == 0
    assert fates["replay"]["run"] > fates["skip"]["run"]
    *_, verdict = (json.loads(line) for line in site.fencepost("prove", "--json").splitlines())
    assert (verdict["missing"], verdict["doubled"]) == (0, 0)


def _pending(site: Site) -> int:
    *_, verdict = (json.loads(line) for line in site.fencepost("prove", "--json", code=None).splitlines())
    return int(verdict["pending"])


def test_a_worker_and_guard_killed_after_the_agent_ended_and_before_anybody_wrote_it_down_call_for_a_person(
    site: Site,
) -> None:
    """F06: the agent has ended, and nobody who saw it lived to tell."""
    daemon, pid, guard = _ending(site)
    send(guard, signal.SIGSTOP)
    with locked(site.store):
        _let_end(site, pid)
        kill_at_once(daemon.pid, guard)

    site.up("--workers", "1")
    site.until(lambda: site.runs(state="dead"))

    (run,) = site.runs()
    assert (run.reason, run.attempt, run.exit_code) == ("lost", 1, None)


def test_a_worker_killed_after_its_agent_ended_leaves_the_end_to_its_guard_and_the_next_worker(site: Site) -> None:
    """F06: the guard has written it down, and the next worker keeps it, once."""
    daemon, pid, _ = _ending(site)
    with locked(site.store):
        _let_end(site, pid)
        send(daemon.pid, signal.SIGKILL)

    site.up("--workers", "1")
    site.until(lambda: site.runs(state="dead"))

    (run,) = site.runs()
    assert (run.reason, run.attempt, run.exit_code) == ("exit_code", 1, 3)


def _ending(site: Site) -> tuple[Popen[bytes], int, int]:
    """Return a daemon, its agent that ends when it may, and the agent's guard."""
    site.configure(agent("echo $$ $PPID > draft; mv draft began; while [ ! -e go ]; do sleep 0.02; done; exit 3"))
    daemon = site.up("--workers", "1", "--ttl", "20s")
    site.fencepost("run", "worker")
    site.until((site.folder / "began").exists)
    pid, guard = map(int, (site.folder / "began").read_text().split())
    return daemon, pid, guard


def _let_end(site: Site, pid: int) -> None:
    (site.folder / "go").touch()
    until(lambda: not is_alive(pid), "the agent is gone")


def test_a_worker_killed_after_the_result_is_kept_repeats_nothing(site: Site) -> None:
    """F07."""
    site.configure(agent("echo once >> witness", on_lost='"restart"'))
    daemon = site.up("--workers", "1")
    run_id = site.fencepost("run", "worker").split()[-1]
    site.until(lambda: site.runs(state="succeeded"))
    kill_at_once(daemon.pid)

    site.up("--workers", "1")
    site.fencepost("run", "worker")
    site.until(lambda: len(site.runs(state="succeeded")) == 2)

    assert (site.folder / "witness").read_text() == "once\nonce\n"
    assert [run.attempt for run in site.runs(id=run_id)] == [1]


def test_a_killed_agent_is_an_ambiguous_end_with_its_log_kept(site: Site) -> None:
    """F08."""
    site.configure(agent("echo said before; kill -9 $$", max_attempts="3"))
    site.up("--workers", "1")
    site.fencepost("run", "worker")
    site.until(lambda: site.runs(state="dead"))

    (run,) = site.runs()
    assert (run.exit_code, run.reason, run.attempt) == (137, "ambiguous", 1)
    assert read_log(run.log or "") == b"said before\n"


def test_a_killed_agent_is_tried_again_if_its_owner_says_so(site: Site) -> None:
    """F08, F20."""
    script = 'test "$FENCEPOST_ATTEMPT" = 2 || kill -9 $$'
    site.configure(agent(script, max_attempts="3", backoff='"100ms"', retry_exit_codes="[137]"))
    site.up("--workers", "1")
    site.fencepost("run", "worker")
    site.until(lambda: site.runs(state="succeeded"))

    assert site.runs()[0].attempt == 2


def test_a_stopped_agent_keeps_its_lease_until_its_timeout(site: Site) -> None:
    """F11: the worker goes on renewing; the wall time-out ends what stands still."""
    site.configure(agent("kill -STOP $$", timeout='"3s"'))
    site.up("--workers", "1", "--ttl", "1s")
    site.fencepost("run", "worker")
    site.until(lambda: site.runs(state="dead"))

    (run,) = site.runs()
    assert (run.reason, run.attempt) == ("timeout", 1)
    assert run.started_us is not None
    assert run.ended_us is not None
    assert run.ended_us - run.started_us >= 3_000_000, "its lease of a second was renewed all the time"


def test_a_flood_of_bytes_that_are_no_text_costs_bounded_memory(site: Site) -> None:
    """F19: NULs, invalid UTF-8 and no line end, far more than the log may hold."""
    script = "head -c 150000000 /dev/zero | tr '\\\\0' '\\\\377'; head -c 1000000 /dev/urandom; printf 'the end'"
    site.configure(agent(script, log_max="2000000"))
    daemon = site.up("--workers", "1")
    peaks: list[int] = []
    site.fencepost("run", "worker")

    def watched() -> bool:
        peaks.extend(_peaks(daemon.pid))
        return bool(site.runs(state="succeeded"))

    site.until(watched, seconds=90)

    (run,) = site.runs()
    kept = read_log(run.log or "")
    assert kept.endswith(b"the end")
    assert len(kept) <= 2_000_000
    assert peaks
    assert max(peaks) < 110 * MEGABYTE, "an attempt is some 40 MB by itself"


def _peaks(pid: int) -> Iterator[int]:
    """Yield the largest memory that each process of the product has had so far."""
    for child in [pid, *children(pid)]:
        if child != pid:
            yield from _peaks(child)
        try:
            lines = Path(f"/proc/{child}/status").read_text().splitlines()
            name = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
        if b"fencepost" in name:
            yield from (int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def test_a_worker_that_is_asked_to_stop_hands_its_resumable_run_back_without_waiting_for_the_ttl(site: Site) -> None:
    """F24."""
    script = 'echo 1 | fencepost checkpoint set; touch "began-$FENCEPOST_ATTEMPT-$FENCEPOST_RESUME"; sleep 60'
    site.configure(agent(script, on_lost='"resume"'))
    daemon = site.up("--workers", "1", "--ttl", "60s")
    site.fencepost("run", "worker")
    site.until(lambda: list(site.folder.glob("began-1-*")))
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(20) == 0
    assert site.runs()[0].state == "ready"

    site.up("--workers", "1")
    site.until(lambda: list(site.folder.glob("began-1-1")), seconds=20)
    site.fencepost("cancel", site.runs()[0].id)
    site.until(lambda: site.runs(state="cancelled"))


def test_a_poison_run_that_kills_its_guard_every_time_ends_as_a_dead_letter(site: Site) -> None:
    """F25 and F66: counted before the start, bounded, and others are unharmed."""
    script = "echo x >> tries; kill -9 $PPID"
    site.configure(agent(script, on_lost='"restart"') + "[agents.calm]\ncommand = ['true']\n")
    site.up("--workers", "2", "--ttl", "2s")
    site.fencepost("run", "worker")
    site.fencepost("run", "calm")
    site.until(lambda: site.runs(agent="worker", state="dead"), seconds=60)

    (run,) = site.runs(agent="worker")
    assert run.attempt == len((site.folder / "tries").read_text().split()) == 3
    assert site.runs(agent="calm", state="succeeded")


def test_without_descriptors_to_spare_it_says_so_and_starts_nothing(ground: Ground) -> None:
    """F73."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft > 9
    for few in (7, 9, 12):
        told = ground.told(
            ground.start(
                *("exec", "--lock", "z", "--", "touch", "started"),
                preexec_fn=lambda few=few: resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard)),
            )
        )
        assert told.code == 0 or (told.err and "Traceback" not in told.err), told
        assert (ground.folder / "started").exists() is (told.code == 0), told
    assert ground.run("exec", "--lock", "z", "--", "true").code == 0, "nothing is left held"


def test_a_worker_with_few_descriptors_takes_fewer_runs_says_so_once_and_loses_none(site: Site) -> None:
    """F73: what is kept for the store renews what runs."""
    site.configure("[agents.worker]\ncommand = ['sleep', '600']\n")
    site.start("sh", "-c", "ulimit -n 72; exec fencepost up --no-web --workers 12 --ttl 6s")
    site.fencepost("run", "worker", "--payloads", "-", data="{}\n" * 12)
    site.until(lambda: len(site.runs(state="running")) == 8)
    site.until(lambda: all(held.renewals >= 2 for held in site.leases() if held.guard))

    assert len(site.runs(state="running", attempt=1)) == 8, "the others wait"
    assert site.said().count("room for 8 runs at once instead of 12: this process may open 72 files") == 1
    assert ", room for 8 runs at once." in site.said()
    (told,) = [one for one in site.rows("doctor") if one["check"] == "limits"]
    assert (told["status"], "may have 72 open files" in told["message"]) == ("warn", True), (
        "whatever this shell may have"
    )
