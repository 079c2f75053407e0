"""Grant, raise every gate, start: what happens to a run whose gates do not all let it in."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fencepost import wiring
from fencepost.model.gate import Proof
from fencepost.operations.gate_kinds import open_gate
from tests.support.ground import Ground, ground_at, send
from tests.support.scratch import wait_until
from tests.support.site import Site

PATIENCE_SECONDS = 60.0


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> str | None:
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else None


@pytest.fixture
def ground(tmp_path: Path, store: str | None) -> Iterator[Ground]:
    with ground_at(tmp_path, store=store) as made:
        made.env["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        yield made


@pytest.fixture
def site(tmp_path: Path, store: str | None) -> Iterator[Site]:
    made = Site(tmp_path, store)
    yield made
    made.close()


def fence_at(target: str) -> int:
    return max((mark.fence for mark in open_gate(target).status().marks.values()), default=0)


def test_a_supervisor_killed_between_two_raises_leaves_both_gates_to_its_successor(ground: Ground) -> None:
    """And the successor's own list of gates is another one: what was owed is raised all the same."""
    database = ground.path("app.db")
    file, table = f"file:{ground.folder}/a", f"sql:sqlite:{database}"
    with closing(sqlite3.connect(database, isolation_level=None)) as busy:
        busy.execute("CREATE TABLE t (x)")
        busy.execute("BEGIN IMMEDIATE")
        words = ("exec", "--lock", "z", "--gate", file, "--gate", table, "--", "touch", "started")
        killed = ground.start(*words)
        wait_until(lambda: fence_at(file) > 0, what="the first gate is raised", seconds=PATIENCE_SECONDS)
        first = fence_at(file)
        send(killed.pid, signal.SIGKILL)
        killed.wait(PATIENCE_SECONDS)
        busy.execute("ROLLBACK")

    other = f"file:{ground.folder}/b"
    new = ground.run("exec", "--lock", "z", "--gate", other, "--", "sh", "-c", "echo $FENCEPOST_FENCE > fence")

    assert new.code == 0, new
    fence = int(ground.wait_for("fence"))
    assert not os.path.exists(ground.path("started"))
    assert first < fence == fence_at(file) == fence_at(table) == fence_at(other)


def test_a_clean_end_settles_what_was_owed(ground: Ground) -> None:
    file, other = f"file:{ground.folder}/a", f"file:{ground.folder}/b"
    assert ground.run("exec", "--lock", "z", "--gate", file, "--", "true").code == 0
    before = fence_at(file)
    assert ground.run("exec", "--lock", "z", "--gate", other, "--", "true").code == 0

    assert fence_at(file) == before < fence_at(other)


def test_the_end_of_an_agent_that_failed_settles_only_the_gates_of_its_own_machine(ground: Ground) -> None:
    """What it had sent to another machine may be under way there, with nobody left to wait for the answer."""
    file, table = f"file:{ground.folder}/a", f"sql:sqlite:{ground.path('app.db')}"
    with closing(sqlite3.connect(ground.path("app.db"))) as made:
        made.execute("CREATE TABLE t (x)")
    assert ground.run("exec", "--lock", "z", "--gate", file, "--gate", table, "--", "false").code == 1
    before = fence_at(file)
    assert before == fence_at(table)

    assert ground.run("exec", "--lock", "z", "--", "true").code == 0
    raised = fence_at(table)
    assert fence_at(file) == before < raised, "a database may be anywhere"

    assert ground.run("exec", "--lock", "z", "--", "true").code == 0
    assert fence_at(table) == raised, "that one ended well"


def test_every_refused_write_is_counted(ground: Ground) -> None:
    target = f"file:{ground.folder}/a"
    raised = f"fencepost gate raise {target} --resource lock:z --fence $((FENCEPOST_FENCE + 1))"
    write = f"echo x | fencepost gate write-file {ground.folder}/a"
    ended = ground.run("exec", "--lock", "z", "--gate", target, "--", "sh", "-c", f"{raised}; {write}; {write}; exit 3")

    assert ended.code == 3, ended
    assert ended.err.count("refused") >= 2, ended
    with closing(wiring.open_runtime(ground.store_url)) as runtime:
        assert runtime.metering().figures("default").sums.writes_refused == 2


def test_an_edited_list_of_gates_leaves_none_of_a_lost_run_behind(ground: Ground) -> None:
    """Its own new gate, and the one that the list no longer has, until a run has ended well."""
    old, new = f"file:{ground.folder}/a", f"file:{ground.folder}/b"
    lost = ground.start("exec", "--lock", "z", "--gate", old, "--", "sh", "-c", "echo >> started; sleep 600")
    ground.wait_for("started")
    guard = ground.guard_of(lost)
    for pid in (lost.pid, guard):
        send(pid, signal.SIGKILL)
    lost.wait(PATIENCE_SECONDS)
    before = fence_at(old)

    assert (
        ground.run("exec", "--lock", "z", "--wait=60s", "--gate", new, "--", "true", seconds=PATIENCE_SECONDS).code == 0
    )
    assert before < fence_at(old) == fence_at(new)
    assert ground.run("exec", "--lock", "z", "--gate", new, "--", "true").code == 0
    assert fence_at(old) < fence_at(new)


def test_a_gate_that_is_owed_and_gone_for_good_blocks_until_a_person_says_so(ground: Ground) -> None:
    repository = ground.path("site.git")
    make_repository(repository)
    gone = f"git:{repository}#branch=main"
    lost = ground.start("exec", "--lock", "z", "--gate", gone, "--", "sh", "-c", "echo >> started; sleep 600")
    ground.wait_for("started")
    guard = ground.guard_of(lost)
    for pid in (lost.pid, guard):
        send(pid, signal.SIGKILL)
    lost.wait(PATIENCE_SECONDS)
    os.rename(repository, f"{repository}.away")

    words = ("exec", "--lock", "z", "--wait=1s", "--", "true")
    blocked = ground.run(*words, seconds=PATIENCE_SECONDS)
    assert blocked.code == 78, blocked
    assert f"fencepost lease forget lock:z {gone}" in blocked.err
    told = ground.run("lease", "forget", "lock:z", gone, "--store", ground.store_url)
    assert told.code == 0, told
    assert ground.run(*words, seconds=PATIENCE_SECONDS).code == 0


def test_a_gate_that_is_away_blocks_the_start_and_says_so(ground: Ground) -> None:
    target = f"git:{ground.folder}/site.git#branch=main"
    told = ground.run("exec", "--lock", "z", "--gate", target, "--", "touch", "started")

    assert told.code == 78
    assert "cannot be reached" in told.err
    assert not os.path.exists(ground.path("started"))
    assert ground.leases() == [], "it holds nothing while it cannot start"


def test_who_waits_gets_in_when_the_gate_comes_back(ground: Ground) -> None:
    target = f"git:{ground.folder}/site.git#branch=main"
    assert (
        ground.run("exec", "--lock", "z", "--", "true").code == 0
    )  # so that there is a store, and nothing to say about it
    waiting = ground.start("exec", "--lock", "z", "--wait=60s", "--gate", target, "--", "touch", "started")
    assert waiting.stderr is not None
    assert b"waiting for a gate" in waiting.stderr.readline()
    make_repository(ground.path("site.git"))

    assert ground.told(waiting, seconds=PATIENCE_SECONDS).code == 0
    assert os.path.exists(ground.path("started"))
    assert fence_at(target) > 0


def test_a_mark_above_the_newest_fence_is_a_store_that_went_back(ground: Ground) -> None:
    file = f"file:{ground.folder}/a"
    assert ground.run("exec", "--lock", "z", "--", "true").code == 0
    with closing(ground.store()) as store:
        identity = store.facts().id
    above = Proof("default", ("lock:z",), 4 * 10**15, identity, "host", "run-from-the-future")
    open_gate(file).raise_fence(above)

    told = ground.run("exec", "--lock", "z", "--gate", file, "--", "touch", "started")
    assert told.code == 78
    assert "fencepost store bump --to" in told.err
    assert not os.path.exists(ground.path("started"))


def test_another_stores_mark_blocks_the_start_until_it_is_adopted(ground: Ground) -> None:
    file = f"file:{ground.folder}/a"
    open_gate(file).raise_fence(Proof("default", ("lock:z",), 5, "another", "elsewhere", "r"))

    told = ground.run("exec", "--lock", "z", "--gate", file, "--", "touch", "started")
    assert told.code == 77
    assert "fenced by store another on host elsewhere" in told.err
    assert not os.path.exists(ground.path("started"))


def test_a_scheduled_run_waits_for_its_gate_with_the_reason_and_starts_when_it_is_back(site: Site) -> None:
    repository = site.folder / "site.git"
    site.configure(
        '[agents.worker]\ncommand = ["touch", "started"]\ngates = ["site"]\n'
        f'[gates.site]\nkind = "git"\nurl = "{repository}"\n'
    )
    site.up("--workers", "1")
    site.fencepost("run", "worker")
    site.until(lambda: site.runs(reason="gate_unreachable", state="ready"))

    [run] = site.runs()
    assert not (site.folder / "started").exists()
    assert "a gate" in site.fencepost("ps")
    assert "cannot be reached" in site.fencepost("show", run.id)
    make_repository(str(repository))
    site.until(lambda: site.runs(state="succeeded"))

    [run] = site.runs()
    assert (run.attempt, (site.folder / "started").exists()) == (1, True), "waiting for a gate uses no attempt"


def make_repository(path: str) -> None:
    """Make it elsewhere and put it in place whole."""
    subprocess.run(["git", "init", "--quiet", "--bare", f"{path}.tmp"], check=True)
    os.rename(f"{path}.tmp", path)
