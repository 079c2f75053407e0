"""However a run ends, nothing of its tree outlives it."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ground import Ground, ground_at, is_alive, send, sh_dead, until

# Everything that an agent can leave behind: in its group, in a session of its own, deaf to TERM, holding stdout.
LEAVES = """
sleep 601 &
(setsid sh -c 'sleep 602 & sleep 603' &)
(setsid sh -c 'trap "" TERM INT HUP; echo deaf > deaf; while :; do sleep 604; done' &)
until [ -e deaf ]; do sleep 0.02; done
echo $$ > up
"""
STAYS = f"{LEAVES} while :; do sleep 605; done"


@pytest.fixture(params=["cgroup", "no cgroup"])
def yard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    with ground_at(tmp_path, cgroup=request.param == "cgroup") as ground:
        yield ground


def check_gone(yard: Ground) -> None:
    """See that nothing of the tree is left when the supervisor is; its own guard may take a moment longer to leave.

    What is leaving has given back its memory, and its command line with it.
    """
    assert {pid: line for pid, line in yard.alive().items() if line and "-m fencepost exec" not in line} == {}
    yard.wait_empty()


def test_after_a_normal_end(yard: Ground) -> None:
    told = yard.run("exec", "--lock", "z", "--ttl", "2s", "--", "sh", "-c", f"{LEAVES} exit 3")
    assert told.code == 3, told
    check_gone(yard)


def test_a_grandchild_that_holds_stdout_does_not_hang_a_command_substitution(yard: Ground) -> None:
    told = yard.run("exec", "--lock", "z", "--ttl", "2s", "--", "sh", "-c", "setsid sleep 606 & echo text")
    assert (told.code, told.out) == (0, b"text\n")
    check_gone(yard)


def test_after_a_timeout(yard: Ground) -> None:
    told = yard.run("exec", "--lock", "z", "--ttl", "2s", "--timeout", "500ms", "--", "sh", "-c", STAYS)
    assert told.code == 124, told
    check_gone(yard)


def test_after_a_broken_lease(yard: Ground) -> None:
    holder = staying(yard)
    assert yard.run("lease", "break", "lock:z", "--note", "by hand").code == 0
    told = yard.told(holder)
    assert told.code == 76, told
    assert "lease lost, the run was ended" in told.err
    check_gone(yard)


def test_after_the_agent_itself_was_killed(yard: Ground) -> None:
    holder = staying(yard)
    send(int(yard.wait_for("up")), signal.SIGKILL)
    assert yard.told(holder).code == 137
    check_gone(yard)


def test_after_the_supervisor_was_killed(yard: Ground) -> None:
    holder = staying(yard)
    holder.kill()
    holder.wait(10)
    yard.wait_empty()
    until(lambda: yard.run_folders() == [], "the guard has removed the run folder")


def test_after_the_guard_was_killed(yard: Ground) -> None:
    holder = staying(yard)
    send(yard.guard_of(holder), signal.SIGKILL)
    told = yard.told(holder)
    assert told.code == 1, told
    assert told.err.endswith("the guard process was killed, so the run was ended.\n")
    check_gone(yard)
    assert yard.leases() == []


def test_after_supervisor_and_guard_were_killed_the_next_run_clears_up_before_it_starts(yard: Ground) -> None:
    holder = staying(yard, ttl="60s")
    old_agent = int(yard.wait_for("up"))
    guard = yard.guard_of(holder)
    holder.send_signal(signal.SIGSTOP)  # so that neither can clear up after the other
    send(guard, signal.SIGKILL)
    until(lambda: not is_alive(guard), "the guard is dead")
    holder.kill()
    holder.wait(10)
    until(lambda: not is_alive(old_agent), "the agent dies with its guard")
    told = yard.run("exec", "--lock", "z", "--", "sh", "-c", f"{sh_dead(old_agent)} && echo clear")
    assert (told.code, told.out) == (0, b"clear\n")
    check_gone(yard)


def test_a_frozen_guard_does_not_save_the_tree_from_a_timeout(yard: Ground) -> None:
    holder = yard.start("exec", "--lock", "z", "--ttl", "2s", "--timeout", "1s", "--", "sh", "-c", STAYS)
    yard.wait_for("up")
    send(yard.guard_of(holder), signal.SIGSTOP)
    assert yard.told(holder).code == 124
    check_gone(yard)


def test_a_frozen_guard_does_not_save_the_tree_from_a_lost_lease(yard: Ground) -> None:
    holder = staying(yard)
    send(yard.guard_of(holder), signal.SIGSTOP)
    assert yard.run("lease", "break", "lock:z").code == 0
    assert yard.told(holder).code == 76
    check_gone(yard)


def test_a_stopped_agent_is_ended_too(yard: Ground) -> None:
    holder = staying(yard)
    send(int(yard.wait_for("up")), signal.SIGSTOP)
    assert yard.run("lease", "break", "lock:z").code == 0
    assert yard.told(holder).code == 76
    check_gone(yard)


def staying(yard: Ground, *, ttl: str = "3s") -> subprocess.Popen[bytes]:
    holder = yard.start("exec", "--lock", "z", "--ttl", ttl, "--", "sh", "-c", STAYS)
    yard.wait_for("up")
    return holder
