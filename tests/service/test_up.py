"""`fencepost up` from a person's chair: schedules run, limits hold, and nothing is lost when it is restarted."""

import json
import os
import signal
from pathlib import Path
from threading import Event

from tests.support.ground import is_alive, send
from tests.support.site import Site


def agent(script: str, **settings: str) -> str:
    """Describe an agent that runs a shell script, and nothing else."""
    more = "".join(f"{name} = {value}\n" for name, value in settings.items())
    return f"[agents.worker]\ncommand = {json.dumps(['sh', '-c', script])}\n{more}"


def run_to_the_end(site: Site, *words: str, code: int | None = 0) -> str:
    site.up("--workers", "2", "--ttl", "3s")
    return site.fencepost("run", "worker", "--wait", *words, code=code)


def test_a_schedule_of_every_second_runs_every_second(site: Site) -> None:
    site.configure(agent("echo $FENCEPOST_TICK >> ticks") + '[schedules.s]\nagent = "worker"\ncron = "* * * * * *"\n')
    site.up("--workers", "2")
    site.until(lambda: len(site.runs(state="succeeded")) >= 3)

    ticks = (site.folder / "ticks").read_text().split()

    assert len(ticks) == len(set(ticks))
    assert ticks == sorted(ticks)


def test_an_agent_sees_its_run_and_nothing_of_the_store(site: Site) -> None:
    site.configure(agent("env | sort", env='{ MINE = "1" }', secrets='{ KEY = "env:HOME" }'))

    run_to_the_end(site)
    (run,) = site.runs()
    seen = dict(line.split("=", 1) for line in Path(run.log or "").read_text().splitlines() if "=" in line)

    assert seen["FENCEPOST_RUN_ID"] == run.id
    assert seen["FENCEPOST_FENCE"] == str(run.fence)
    assert seen["FENCEPOST_TRIGGER"] == "manual"
    assert seen["FENCEPOST_ATTEMPT"] == "1"
    assert seen["MINE"] == "1"
    assert "FENCEPOST_STORE" not in seen
    assert "site.db" not in str(seen)
    assert "PYTHONPATH" not in seen


def test_a_secret_does_not_reach_the_log(site: Site) -> None:
    (site.folder / "secret").write_text("correct-horse-battery\n")
    site.configure(agent("echo key=$KEY", secrets=f'{{ KEY = "file:{site.folder}/secret" }}'))

    run_to_the_end(site)
    (run,) = site.runs()

    assert Path(run.log or "").read_text() == "key=[redacted]\n"


def test_the_payload_is_a_file_and_standard_input(site: Site) -> None:
    site.configure(agent('cat; echo; cat "$FENCEPOST_PAYLOAD"'))
    payload = '{"text": "$(touch X); `touch X`\\n"}'

    run_to_the_end(site, "--payload", payload)
    (run,) = site.runs()

    first, second = map(json.loads, Path(run.log or "").read_text().splitlines())
    assert first == json.loads(payload)
    assert {**first, "fencepost": second["fencepost"]} == second
    assert not (site.folder / "X").exists()


def test_the_payload_file_says_of_the_run_what_the_environment_says(site: Site) -> None:
    names = ("tick", "period_start", "period_end", "last_success", "idempotency_key", "trigger", "run_id")
    echo = "".join(f'echo "$FENCEPOST_{name.upper()}"; ' for name in names)
    once = f'cp "$FENCEPOST_PAYLOAD" "{site.folder}/payload-$FENCEPOST_RUN_ID"; {echo}'
    site.configure(agent(once) + '[schedules.s]\nagent = "worker"\ncron = "* * * * * *"\npayload = { of = "us" }\n')
    site.up("--workers", "2")
    site.until(lambda: len(site.runs(state="succeeded")) >= 2)
    run = site.runs(state="succeeded")[1]

    said = json.loads((site.folder / f"payload-{run.id}").read_text())

    assert said["of"] == "us"
    assert [said["fencepost"][name] or "" for name in names] == Path(run.log or "").read_text().splitlines()
    assert said["fencepost"]["period_end"] == said["fencepost"]["tick"]


def test_the_agents_own_exit_code_comes_back(site: Site) -> None:
    site.configure(agent("exit 7"))

    run_to_the_end(site, code=7)
    (run,) = site.runs()

    assert (run.state, run.reason, run.exit_code) == ("dead", "exit_code", 7)


def test_a_failure_is_tried_again_and_then_succeeds(site: Site) -> None:
    site.configure(agent("test $FENCEPOST_ATTEMPT = 2", max_attempts="3", backoff='"100ms"'))

    run_to_the_end(site)
    (run,) = site.runs()

    assert (run.state, run.attempt) == ("succeeded", 2)


def test_an_agent_that_takes_too_long_is_ended_with_its_tree(site: Site) -> None:
    site.configure(agent("(setsid sleep 321 &); sleep 321", timeout='"500ms"'))

    run_to_the_end(site, code=124)
    (run,) = site.runs()

    assert (run.state, run.reason) == ("dead", "timeout")
    assert "sleep 321" not in _commands()


def test_an_agent_that_stands_still_is_ended_and_one_that_works_is_not(site: Site) -> None:
    site.configure(
        agent("for i in 1 2 3 4; do echo $i; sleep 0.3; done; sleep 99", stall_timeout='"900ms"', timeout='"60s"')
    )

    run_to_the_end(site, code=124)
    (run,) = site.runs()

    assert run.reason == "stall_timeout"
    assert Path(run.log or "").read_text().splitlines()[:4] == [
        "1",
        "2",
        "3",
        "4",
    ]  # the shell may tell of its child's end


def test_a_running_agent_can_be_cancelled(site: Site) -> None:
    site.configure(agent("echo started; sleep 99"))
    site.up("--workers", "1")
    site.fencepost("run", "worker")
    site.until(lambda: [run for run in site.runs(state="running") if run.started_us])

    site.fencepost("cancel", site.runs()[0].id)
    site.until(lambda: site.runs(state="cancelled"))

    assert site.runs()[0].reason == "cancelled"


def test_what_a_killed_worker_and_guard_left_alive_is_ended_before_anything_new_is_leased_there(site: Site) -> None:
    site.configure(
        '[agents.left]\ncommand = ["sh", "-c", "setsid sleep 323 & wait"]\n'
        '[agents.next]\ncommand = ["sh", "-c", "pgrep -fx \'sleep 323\' > beside; touch next"]\n'
    )
    worker = site.up("--workers", "1", "--ttl", "30s")
    site.fencepost("run", "left")
    site.until(lambda: [run for run in site.runs(state="running") if run.started_us])
    site.until(lambda: "sleep 323" in _commands())
    (lease,) = (row for row in site.rows("lease", "list") if row["resource"].startswith("run:"))
    guard = int(lease["pid"])
    for pid in (worker.pid, guard):
        send(pid, signal.SIGKILL)
    worker.wait(10)
    site.until(lambda: not is_alive(guard))
    assert "sleep 323" in _commands(), "the agent dies with its guard, and what it detached does not"
    site.fencepost("run", "next")

    site.up("--workers", "1", "--ttl", "30s")
    site.until((site.folder / "next").exists)

    assert (site.folder / "beside").read_text() == ""
    site.until(lambda: site.runs(agent="left")[0].state == "dead")
    assert site.runs(agent="left")[0].reason == "lost"
    assert [letter["id"] for letter in site.rows("dead", "list")] == [site.runs(agent="left")[0].id]
    assert all("run:" not in row["resource"] for row in site.rows("lease", "list"))


RESUMABLE = """\
if [ -n "$FENCEPOST_RESUME" ]; then cat "$FENCEPOST_CHECKPOINT" > resumed; exit 0; fi
echo '{"step": 41}' | fencepost checkpoint set
touch kept
sleep 99
"""


def test_a_restart_in_the_middle_of_a_run_resumes_it_with_its_checkpoint(site: Site) -> None:
    site.configure(agent(RESUMABLE, on_lost='"resume"'))
    daemon = site.up("--workers", "1", "--ttl", "5s", "--drain-timeout", "30s")
    site.fencepost("run", "worker")
    site.until((site.folder / "kept").exists)

    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(20) == 0
    (handed_back,) = site.runs()
    site.up("--workers", "1", "--ttl", "5s")
    site.until(lambda: site.runs(state="succeeded"))
    (run,) = site.runs()

    assert (handed_back.state, handed_back.reason) == ("ready", "drained")
    assert (run.id, run.attempt) == (handed_back.id, 1)  # a deploy uses no attempt
    assert run.fence is not None
    assert handed_back.fence is not None
    assert run.fence > handed_back.fence
    assert json.loads((site.folder / "resumed").read_text()) == {"step": 41}


def test_a_drain_lets_an_agent_finish_that_could_not_be_resumed(site: Site) -> None:
    site.configure(agent("touch started; sleep 2; touch finished"))
    daemon = site.up("--workers", "1")
    site.fencepost("run", "worker")
    site.until((site.folder / "started").exists)
    site.fencepost("run", "worker")

    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(30) == 0

    assert (site.folder / "finished").exists()
    assert [run.state for run in site.runs()] == ["ready", "succeeded"]  # what was queued stays queued


def test_a_gate_that_cannot_be_reached_blocks_the_start(site: Site) -> None:
    site.configure(
        agent("touch started", gates='["out"]') + f'[gates.out]\nkind = "file"\npath = "{site.folder}/no/such/f"\n'
    )
    site.up("--workers", "1")
    site.fencepost("run", "worker")
    site.until(lambda: site.runs(reason="gate_unreachable") or site.runs(reason="misconfigured"))

    assert not (site.folder / "started").exists()


def test_a_run_writes_through_the_gate_that_its_agent_declares_and_no_other(site: Site) -> None:
    line = (
        "echo fenced | fencepost gate write-file out.txt; echo none | fencepost gate write-file b 2>why; echo $? >>why"
    )
    site.configure(
        agent(line, gates='["out"]') + f'[gates.out]\nkind = "file"\npath = "{site.folder}/out.txt"\n',
    )

    run_to_the_end(site)

    assert (site.folder / "out.txt").read_text() == "fenced\n"
    told = (site.folder / "why").read_text()
    assert "add NAME to the agent's gates" in told
    assert told.endswith("\n78\n")


def test_a_python_function_is_called_with_its_context(site: Site) -> None:
    (site.folder / "mine.py").write_text(
        "import json\n"
        "async def work(run):\n"
        "    run.checkpoint = {'seen': run.payload['n']}\n"
        "    run.progress()\n"
        "    print(json.dumps([run.fence, run.attempt, run.checkpoint, run.cancelled, run.trigger]))\n"
    )
    site.configure('[agents.worker]\nengine = "python"\nfunction = "mine:work"\n')

    run_to_the_end(site, "--payload", '{"n": 5}')
    (run,) = site.runs()

    assert json.loads(Path(run.log or "").read_text()) == [run.fence, 1, {"seen": 5}, False, "manual"]


def test_a_halted_worker_waits_without_spinning(site: Site) -> None:
    site.configure(agent("true"))
    daemon = site.up("--workers", "2")
    site.until(lambda: "Ctrl-C" in site.said())
    site.fencepost("halt")
    site.fencepost("run", "worker")

    before = _spent_on_attempts(daemon.pid)
    Event().wait(2.0)

    assert _spent_on_attempts(daemon.pid) - before < 0.6  # seconds; one after the other would spend all of it
    assert [run.state for run in site.runs()] == ["ready"]
    site.fencepost("unhalt")
    site.until(lambda: site.runs(state="succeeded"))


def _spent_on_attempts(daemon: int) -> float:
    """Return the processor time of all attempts that have ended, which the daemon's helper has reaped."""
    (helper, *_) = Path(f"/proc/{daemon}/task/{daemon}/children").read_text().split()
    fields = Path(f"/proc/{helper}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def test_a_second_daemon_stays_passive_and_takes_over(site: Site) -> None:
    site.configure(agent("true") + '[schedules.s]\nagent = "worker"\ncron = "* * * * * *"\n')
    first = site.up("--workers", "1", "--ttl", "5s")
    site.until(lambda: site.runs(state="succeeded"))
    site.up("--workers", "1", "--ttl", "5s")
    site.until(lambda: "passive: scheduler:default is held by" in site.said())

    first.send_signal(signal.SIGKILL)
    first.wait(10)
    before = len(site.runs())
    site.until(lambda: len(site.runs()) > before + 1)

    assert site.said().count("passive:") == 1  # said once, not at every probe
    ticks = [run.tick_us for run in site.runs()]
    assert len(ticks) == len(set(ticks))


def _commands() -> str:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # it has ended meanwhile
    return "\n".join(found)


class SiteWithStore(Site):
    """A site whose store is named by the environment."""

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "FENCEPOST_STORE": self.store}


def test_the_stores_address_reaches_no_agent(tmp_path: Path) -> None:
    site = SiteWithStore(tmp_path)
    try:
        site.configure('[agents.nosy]\ncommand = ["sh", "-c", "env"]\npass_env = ["XDG_STATE_HOME"]\n')
        site.up("--workers", "1")

        said = site.fencepost("run", "nosy", "--wait")

        assert "XDG_STATE_HOME=" in said
        assert "FENCEPOST_STORE=" not in said
    finally:
        site.close()


def test_without_a_file_it_says_so_and_waits_for_what_is_applied_later(site: Site) -> None:
    process = site.up("--store", site.store)
    site.until(lambda: "there is no fencepost.toml here or above" in site.said())
    assert process.poll() is None


def test_up_says_one_line_for_each_run_that_ends_and_none_when_asked_to_be_quiet(site: Site) -> None:
    site.configure('[agents.fine]\ncommand = ["true"]\n[agents.broken]\ncommand = ["sh", "-c", "exit 7"]\n')
    loud = site.up("--workers", "1", "--ttl", "3s")
    fine = site.fencepost("run", "fine", "--wait").split()[-1]
    broken = site.fencepost("run", "broken", "--wait", code=7).split()[-1]
    site.until(lambda: f"broken {broken} dead" in site.said())
    assert f"fine {fine} succeeded after " in site.said()
    assert f"exit code 7; see: fencepost show {broken}" in site.said()
    assert "\033" not in site.said(), "colours are for terminals"
    loud.send_signal(signal.SIGTERM)
    loud.wait(30)

    site.up("--workers", "1", "--ttl", "3s", "--quiet")
    again = site.fencepost("run", "fine", "--wait").split()[-1]
    assert again not in site.said()
