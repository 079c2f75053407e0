"""One directory, one writer: runs, commands and people line up for it, whatever path they came by."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost import wiring
from fencepost.model.lease import Held
from fencepost.operations.records import as_json
from fencepost.operations.records.run_record import live_record
from fencepost.operations.run_queries import list_live
from tests.support.site import Site

# Writes its name when it starts and when it ends, and can be held back in between.
WORK = "echo $NAME+ >> $LOG; while [ -e $LOG.hold ]; do sleep 0.05; done; echo $NAME- >> $LOG"

both_stores = pytest.mark.parametrize("home", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """A site with a project `repo`; its store is a file, unless the test says otherwise."""
    store = request.getfixturevalue("durable_url") if getattr(request, "param", "") == "postgres" else None
    repo = tmp_path / "repo"
    (repo / "deep" / "down").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    (tmp_path / "shortcut").symlink_to(repo / "deep")
    made = Site(tmp_path, store)
    yield made
    for name in ("log.hold", "mine.hold"):
        (tmp_path / name).unlink(missing_ok=True)
    made.close()


def agents(site: Site, *names: str, **project: object) -> str:
    settings = "".join(f"{name} = {json.dumps(value)}\n" for name, value in project.items())
    text = f'[projects.repo]\npath = "repo"\n{settings}'
    for name in names:
        env = f'{{ NAME = "{name}", LOG = "{site.folder}/log" }}'
        text += f'[agents.{name}]\nproject = "repo"\ncommand = {json.dumps(["sh", "-c", WORK])}\nenv = {env}\n'
    return text


def human(site: Site, name: str, *options: str, at: str = "repo", hold: str = "log") -> subprocess.Popen[bytes]:
    """Start a command as a person does, in some folder."""
    script = WORK.replace("$LOG.hold", f"{site.folder}/{hold}.hold")
    with (site.folder / f"{name}.err").open("wb") as told:
        return subprocess.Popen(
            [sys.executable, "-m", "fencepost", "exec", *options, "--", "sh", "-c", script],
            cwd=site.folder / at,
            env={**site.environment(), "NAME": name, "LOG": f"{site.folder}/log"},
            stderr=told,
        )


def told(site: Site, name: str) -> str:
    """Return what a person was told, once there is something."""
    path = site.folder / f"{name}.err"
    site.until(lambda: path.read_text().endswith("\n"))
    return path.read_text()


def queue(site: Site) -> list[dict[str, object]]:
    """Return what `queue --json` says, without a process for each look."""
    store = wiring.open_runtime(site.store)
    try:
        listing = list_live(store, "default", limit=50, waiting_only=True)
    finally:
        store.close()
    return [as_json(live_record(one, listing)) for one in listing.waiting]


def positions(site: Site) -> list[tuple[object, object]]:
    """Return who stands where: a run by its agent, a person by nothing."""
    return [(row["agent"], row["position"]) for row in queue(site)]


def log(site: Site) -> list[str]:
    path = site.folder / "log"
    return path.read_text().split() if path.exists() else []


@both_stores
def test_three_runs_queue_behind_a_person_who_came_by_a_symlink_and_a_subdirectory(home: Site) -> None:
    home.configure(agents(home, "one", "two", "three"))
    (home.folder / "mine.hold").touch()
    person = human(home, "person", "--project", ".", at="shortcut/down", hold="mine")
    home.until(lambda: log(home) == ["person+"])
    home.up("--workers", "4")
    ids = [home.fencepost("run", name).split()[-1] for name in ("one", "two", "three")]
    home.until(lambda: len(queue(home)) == 3 and all("(sh -c" in str(row["waits_for"]) for row in queue(home)))

    assert [(row["id"], row["position"], row["project"], row["depth"]) for row in home.rows("queue")] == [
        (run_id, place, "repo", 3) for place, run_id in enumerate(ids, 1)
    ]
    (home.folder / "mine.hold").unlink()
    home.until(lambda: len(home.runs(state="succeeded")) == 3)

    assert log(home) == ["person+", "person-", "one+", "one-", "two+", "two-", "three+", "three-"]
    assert person.wait(10) == 0


@both_stores
def test_a_person_takes_her_turn_between_runs_and_says_where_she_stands(home: Site) -> None:
    home.configure(agents(home, "one", "two"))
    (home.folder / "log.hold").touch()
    home.up("--workers", "4")
    first = home.fencepost("run", "one").split()[-1]
    home.until(lambda: log(home) == ["one+"])
    person = human(home, "person", "--wait", "--project", str(home.folder / "shortcut"), at=".")
    line = told(home, "person")
    home.fencepost("run", "two")
    home.until(lambda: positions(home) == [(None, 1), ("two", 2)])
    shown = [(row["id"], row["trigger"], row["state"]) for row in home.rows("ps")]
    (home.folder / "log.hold").unlink()
    home.until(lambda: len(home.runs(state="succeeded")) == 2)

    assert line.startswith(f"fencepost: queued · position 1 · behind {first} (one, ")
    assert [one[1:] for one in shown] == [("manual", "running"), ("exec", "ready"), ("manual", "ready")]
    assert log(home) == ["one+", "one-", "person+", "person-", "two+", "two-"]
    assert person.wait(10) == 0


def test_a_command_waits_behind_a_run_that_was_queued_before_it(home: Site) -> None:
    home.configure(agents(home, "one", "two"))
    (home.folder / "log.hold").touch()
    home.up("--workers", "4")
    home.fencepost("run", "one")
    home.until(lambda: log(home) == ["one+"])
    home.fencepost("run", "two")
    person = human(home, "person", "--wait", "--project", "repo", at=".")
    assert "queued · position 2 · behind" in told(home, "person")
    (home.folder / "log.hold").unlink()

    assert person.wait(30) == 0
    assert log(home) == ["one+", "one-", "two+", "two-", "person+", "person-"]


def test_a_waiting_command_that_is_killed_leaves_the_queue_at_once(home: Site) -> None:
    home.configure(agents(home, "one", "two"))
    (home.folder / "log.hold").touch()
    home.up("--workers", "4")
    home.fencepost("run", "one")
    home.until(lambda: log(home) == ["one+"])
    person = human(home, "person", "--wait", "--ttl", "5m", "--project", "repo", at=".")
    told(home, "person")
    home.fencepost("run", "two")
    home.until(lambda: positions(home) == [(None, 1), ("two", 2)])
    person.kill()
    person.wait()
    home.until(lambda: positions(home) == [("two", 1)], seconds=10)
    (home.folder / "log.hold").unlink()
    home.until(lambda: len(home.runs(state="succeeded")) == 2, seconds=10)


def test_a_command_that_is_killed_in_the_project_makes_room_at_once(home: Site) -> None:
    home.configure(agents(home, "one"))
    (home.folder / "mine.hold").touch()
    person = human(home, "person", "--ttl", "5m", "--project", "repo", at=".", hold="mine")
    home.until(lambda: log(home) == ["person+"])
    home.up("--workers", "4")
    home.fencepost("run", "one")
    home.until(lambda: len(queue(home)) == 1)
    person.kill()
    person.wait()

    home.until(lambda: len(home.runs(state="succeeded")) == 1, seconds=15)
    assert "person-" not in log(home)


@both_stores
def test_a_project_takes_as_many_as_it_says_and_no_more(home: Site) -> None:
    home.configure(agents(home, "one", "two", "three", concurrency=2))
    (home.folder / "log.hold").touch()
    home.up("--workers", "4")
    for name in ("one", "two", "three"):
        home.fencepost("run", name)
    home.until(lambda: len(log(home)) == 2)
    home.until(lambda: [row["position"] for row in queue(home)] == [1])
    busy = human(home, "person", "--project", "repo", at=".")
    assert busy.wait(20) == 75
    assert "project repo (" in told(home, "person")
    (home.folder / "log.hold").unlink()
    home.until(lambda: len(home.runs(state="succeeded")) == 3)

    assert set(log(home)[:2]) == {"one+", "two+"}


def test_a_cancelled_run_leaves_the_line_and_a_drain_leaves_the_others_in_it(home: Site) -> None:
    home.configure(agents(home, "one", "two", "three"))
    (home.folder / "mine.hold").touch()
    person = human(home, "person", "--project", "repo", at=".", hold="mine")
    home.until(lambda: log(home) == ["person+"])
    daemon = home.up("--workers", "4")
    ids = [home.fencepost("run", name).split()[-1] for name in ("one", "two", "three")]
    home.until(lambda: ["(sh -c" in str(row["waits_for"]) for row in queue(home)] == [True] * 3)
    home.fencepost("cancel", ids[1])
    assert [(row["id"], row["position"]) for row in queue(home)] == [(ids[0], 1), (ids[2], 2)]
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(20) == 0

    assert [run.state for run in home.runs(state="ready")] == ["ready", "ready"]
    other = human(home, "other", "--wait", "--project", "repo", at=".")
    (home.folder / "mine.hold").unlink()
    assert person.wait(10) == other.wait(10) == 0  # nobody would take the queued runs, so nobody waits for them


@both_stores
def test_a_tick_and_a_command_line_up_behind_an_announced_session(home: Site) -> None:
    home.configure(agents(home, "one") + '[schedules.tick]\nagent = "one"\nevery = "1h"\n')
    session = announce(home)
    home.until(lambda: len(holders(home)) == 1)
    home.up("--workers", "4")
    home.until(lambda: positions(home) == [("one", 1)])
    person = human(home, "person", "--wait", "--project", "repo", at=".")
    home.until(lambda: positions(home) == [("one", 1), (None, 2)])

    (held,) = holders(home)
    assert (held.label, held.started_us is not None) == ("claude session", True)
    assert "behind" in told(home, "person")
    assert "(claude session, " in told(home, "person")
    assert log(home) == []
    session.communicate(b"end\n", timeout=30)
    assert person.wait(30) == 0
    assert log(home) == ["one+", "one-", "person+", "person-"]


def announce(site: Site) -> subprocess.Popen[bytes]:
    """Start a person's agent session, which calls its hooks when it begins and when it ends."""
    hook = f"{sys.executable} -m fencepost hook"
    script = f"echo {{}} | {hook} session-start; read end; echo {{}} | {hook} session-end"
    env = {**site.environment(), "CLAUDECODE": "1"}
    words = ["sh", "-c", script]
    return subprocess.Popen(words, cwd=site.folder / "repo" / "deep", env=env, stdin=subprocess.PIPE)


def holders(site: Site) -> list[Held]:
    store = wiring.open_runtime(site.store)
    try:
        return [held for held in store.leases() if held.resources[0].startswith("project:")]
    finally:
        store.close()


def test_a_worker_leaves_runs_alone_whose_project_it_does_not_have(home: Site) -> None:
    home.configure(agents(home, "one") + '[agents.free]\ncommand = ["true"]\n')
    elsewhere = home.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "fencepost.toml").write_text(
        f'[fencepost]\nstore = "{home.store}"\n[projects.repo]\npath = "missing"\n'
    )
    home.up("--config", str(elsewhere / "fencepost.toml"), command="worker")
    home.fencepost("run", "one")
    home.fencepost("run", "free")
    home.until(lambda: len(home.runs(state="succeeded")) == 1)

    assert [run.agent for run in home.runs(state="ready")] == ["one"]
    assert "missing does not exist" in home.said()
    home.up("--workers", "1", command="worker")
    home.until(lambda: len(home.runs(state="succeeded")) == 2)
