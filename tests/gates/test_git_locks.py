"""Lock files of git in a repository on this machine: cleared if their owner is dead, and else told, with what to do."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fencepost.gates.git.gate import GitGate
from fencepost.gates.git.locks import Locks
from fencepost.host import git_users
from fencepost.host.clock import SystemClock
from fencepost.model.errors import GateUnreachable
from fencepost.model.gate import Proof
from fencepost.operations.gate_kinds import open_gate
from fencepost.operations.gate_probe import target_problems
from tests.gates.harness import GitHarness
from tests.gates.proofs import proof
from tests.gates.test_git_gate import clone, remote, write_hook
from tests.support.ground import send
from tests.support.scratch import wait_until
from tests.support.site import Site

PATIENCE_SECONDS = 60
LOCKS = ("refs/fencepost/main.lock", "refs/heads/main.lock", "HEAD.lock", "packed-refs.lock")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[GitHarness]:
    with GitHarness.made(tmp_path, lambda _: None) as made:
        yield made


@pytest.fixture
def gate(site: GitHarness) -> GitGate:
    opened = site.gate()
    assert isinstance(opened, GitGate)
    opened.raise_fence(proof(5))
    site.write(proof(5), "first")
    return opened


@contextmanager
def push_in_the_middle(site: GitHarness, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Have a gated push stand still while git holds its locks, and yield the program and the git that holds them."""
    commit, noted = site.commit("half"), tmp_path / "receiver"
    hook = f'[ "$1" = prepared ] || exit 0; echo $PPID > {noted}.draft; mv {noted}.draft {noted}; while :; do sleep 1; done'
    write_hook(site, "reference-transaction", hook)
    words = ["gate", "git-push", site.target, commit, "--resource", "lock:z", "--fence", "5"]
    pushing = subprocess.Popen(
        [sys.executable, "-m", "fencepost", *words], cwd=clone(site), start_new_session=True, stderr=subprocess.DEVNULL
    )
    try:
        wait_until(noted.exists, what="the server's git holds its locks", seconds=PATIENCE_SECONDS)
        yield pushing, int(noted.read_text())
    finally:
        kill_all(pushing)


def kill_all(pushing: "subprocess.Popen[bytes]") -> None:
    if pushing.poll() is None:
        os.killpg(pushing.pid, signal.SIGKILL)  # noqa: TID251  # a session of the test's own
    pushing.wait(PATIENCE_SECONDS)


def age(site: GitHarness) -> list[str]:
    """Make the locks a minute old, and return which there are."""
    found = [name for name in LOCKS if (remote(site) / name).exists()]
    for name in found:
        then = SystemClock().wall_us() / 1e6 - 60
        os.utime(remote(site) / name, (then, then))
    return found


def test_a_push_that_was_killed_with_its_whole_tree_does_not_shut_the_gate(
    site: GitHarness, gate: GitGate, tmp_path: Path
) -> None:
    with push_in_the_middle(site, tmp_path) as (pushing, _):
        kill_all(pushing)
    (remote(site) / "hooks" / "reference-transaction").unlink()
    assert len(age(site)) >= 2, "git leaves its locks behind"

    gate.raise_fence(proof(6))
    site.write(proof(6), "second")

    assert age(site) == []
    assert site.content() == "second"


def test_a_push_that_is_only_frozen_keeps_its_locks_and_is_named(
    site: GitHarness, gate: GitGate, tmp_path: Path
) -> None:
    with push_in_the_middle(site, tmp_path) as (_, holder):
        send(holder, signal.SIGSTOP)
        locks = age(site)
        (remote(site) / "hooks" / "reference-transaction").rename(tmp_path / "hook")

        with pytest.raises(GateUnreachable) as refused:
            gate.raise_fence(proof(6))

        assert f"process {holder} (git" in str(refused.value)
        assert age(site) == locks


@pytest.mark.parametrize("name", LOCKS)
def test_each_kind_of_lock_that_nobody_holds_is_cleared(site: GitHarness, gate: GitGate, name: str) -> None:
    (remote(site) / name).touch()
    age(site)

    gate.raise_fence(proof(6))
    site.write(proof(6), "second")
    gate.probe()
    site.git("pack-refs", "--all", folder=remote(site))

    assert site.content() == "second"


def test_a_lock_whose_owner_cannot_be_told_says_which_file_since_when_and_what_to_do(site: GitHarness) -> None:
    """As in a container, which does not show the processes of others that use the same folder."""

    class Blind:
        def at_work(self, _: object, __: int) -> None:
            return None

    lock = remote(site) / "refs" / "heads" / "main.lock"
    lock.touch()
    age(site)

    [left] = Locks(str(remote(site)), clock=SystemClock(), witness=Blind()).cleared(["refs/heads/main"])

    assert f"git's lock {lock} is there since 20" in left.words()
    assert left.words().endswith(f"rm {lock}")
    assert lock.exists()


def test_a_lock_that_was_made_just_now_is_left_alone_and_a_remote_elsewhere_has_none(site: GitHarness) -> None:
    (remote(site) / "HEAD.lock").touch()

    assert Locks(str(remote(site)), clock=SystemClock(), witness=git_users).cleared([])
    assert Locks("https://example.org/r.git", clock=SystemClock(), witness=git_users).cleared([]) == []
    assert (remote(site) / "HEAD.lock").exists()


def test_who_only_stands_in_a_repository_holds_no_lock_and_who_has_a_file_open_may(site: GitHarness) -> None:
    folder, uid = str(remote(site)), os.getuid()
    with subprocess.Popen(["sleep", "60"], cwd=folder) as standing:
        assert git_users.at_work([folder], uid) == []
        standing.kill()
    with open(remote(site) / "HEAD") as file, subprocess.Popen(["sleep", "60"], stdin=file) as reading:
        assert git_users.at_work([folder], uid) == [f"process {reading.pid} (sleep 60)"]
        reading.kill()
    with subprocess.Popen(["git", "-C", folder, "cat-file", "--batch"], stdin=subprocess.PIPE) as working:
        wait_until(lambda: bool(git_users.at_work([folder], uid)), what="git is at work there")
        working.kill()
    relative = os.path.relpath(folder, "/tmp")
    with subprocess.Popen(
        ["git", f"--git-dir={relative}", "hash-object", "--stdin"], cwd="/tmp", stdin=subprocess.PIPE
    ) as sent:
        wait_until(lambda: bool(git_users.at_work([folder], uid)), what="git is at work there from elsewhere")
        sent.kill()
    assert git_users.at_work([folder], uid) == []


def test_a_repository_of_this_machine_clears_its_locks_too(site: GitHarness) -> None:
    home = clone(site) / ".git"
    gate = open_gate(f"repo:{home}")
    gate.raise_fence(Proof("default", ("lock:z",), 5, "A", "host-1", "run-5"))
    for name in ("refs/fencepost-repository/marks.lock", "packed-refs.lock"):
        (home / name).touch()
        os.utime(home / name, (1, 1))

    gate.raise_fence(Proof("default", ("lock:z",), 6, "A", "host-1", "run-6"))

    assert gate.status().marks["default lock:z"].fence == 6


def test_up_why_show_and_doctor_name_the_lock_and_what_to_do(site: GitHarness, tmp_path: Path) -> None:
    lock = remote(site) / "refs" / "fencepost" / "main.lock"
    lock.parent.mkdir(exist_ok=True)
    lock.touch()
    age(site)
    place = Site(tmp_path / "up")
    place.folder.mkdir()
    with open(remote(site) / "HEAD") as file, subprocess.Popen(["sleep", "600"], stdin=file) as holder:
        try:
            said = told_by_each_door(place, site.target)
        finally:
            holder.kill()

    for door, words in said.items():
        flat = " ".join(words.split())
        assert f"{lock} is there since" in flat, (door, words)
        assert f"process {holder.pid} (sleep 600)" in flat, (door, words)
        assert f"rm {lock}" in flat, (door, words)


def told_by_each_door(place: Site, target: str) -> dict[str, str]:
    agent = f'[agents.a]\ncommand = ["true"]\ngates = ["{target}"]\n'
    place.configure(agent + '[schedules.s]\nagent = "a"\ncron = "* * * * * *"\n')
    place.up()
    try:
        place.until(lambda: "gate_unreachable" in place.said() and place.rows("why", "s")[-1]["verdict"] == "overlap")
        answers = (place.fencepost("why", "s") for _ in range(40))  # it says nothing of a gate that is just tried again
        why = next((one for one in answers if "is there since" in one), "never")
        [run] = place.runs()
        return {
            "up": next(line for line in place.said().splitlines() if "gate_unreachable" in line),
            "why": why,
            "show": place.fencepost("show", run.id),
            "doctor": place.fencepost("doctor", code=None),
        }
    finally:
        place.close()


def test_the_probe_tells_of_a_lock_that_stays(site: GitHarness, gate: GitGate) -> None:
    (remote(site) / "refs" / "heads" / "main.lock").touch()
    age(site)
    with open(remote(site) / "HEAD") as file, subprocess.Popen(["sleep", "600"], stdin=file) as holder:
        try:
            [told] = target_problems(gate.target)
        finally:
            holder.kill()

    assert "refs/heads/main.lock is there since" in told
    assert list(target_problems(gate.target)) == []
