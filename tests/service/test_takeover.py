"""A holder that is dead or frozen is replaced; the old tree is dead before the new one starts."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.host import cgroup
from fencepost.host.clock import SystemClock
from fencepost.host.processes import system_processes
from fencepost.model.lease import Claim, Granted
from fencepost.model.process import ProcessId
from tests.support.ground import Ground, is_alive, send, sh_dead, until

FROZEN_FAR_BEYOND = 60.0  # seconds; whoever waits for a ttl of this length has not proven anything


def agent(name: str, more: str = "while :; do sleep 0.05; done") -> list[str]:
    return ["sh", "-c", f'echo "$$ $FENCEPOST_FENCE" > {name}; {more}']


def started(ground: Ground, name: str, *, ttl: str) -> tuple[subprocess.Popen[bytes], int, int]:
    holder = ground.start("exec", "--lock", "z", "--ttl", ttl, "--", *agent(name))
    pid, fence = map(int, ground.wait_for(name).split())
    return holder, pid, fence


def test_the_successor_of_a_killed_holder_starts_at_once_and_finds_the_old_agent_dead(any_ground: Ground) -> None:
    holder, pid, fence = started(any_ground, "one", ttl="60s")
    holder.kill()
    told = any_ground.run("exec", "--lock", "z", "--", *agent("two", sh_dead(pid)), seconds=20)
    assert told.code == 0, told
    assert int(any_ground.wait_for("two").split()[1]) > fence


def test_the_orphan_of_a_killed_holder_is_dead_even_if_its_guard_is_frozen(ground: Ground) -> None:
    holder, pid, _ = started(ground, "one", ttl="60s")
    guard = ground.guard_of(holder)
    send(guard, signal.SIGSTOP)
    holder.kill()
    told = ground.run("exec", "--lock", "z", "--", *agent("two", sh_dead(pid)))
    assert told.code == 0, told
    until(lambda: not is_alive(guard), "the frozen guard is gone too")


@pytest.mark.parametrize("who", ["supervisor", "all"])
def test_a_holder_frozen_beyond_its_ttl_is_replaced_and_knows_it_when_it_wakes(any_ground: Ground, who: str) -> None:
    holder, pid, _ = started(any_ground, "one", ttl="1s")
    frozen = [holder.pid, *([any_ground.guard_of(holder), pid] if who == "all" else [])]
    any_ground.freeze(*frozen)
    successor = any_ground.start(
        "exec", "--lock", "z", "--ttl", "3s", "--wait=20s", "--",
        *agent("two", f"{sh_dead(pid)} || exit 9; until [ -e enough ]; do sleep 0.05; done"),
    )  # fmt: skip
    any_ground.wait_for("two")
    for one in frozen:
        send(one, signal.SIGCONT)
    told = any_ground.told(holder)
    assert told.code == 76, told
    (lease,) = any_ground.leases()
    assert lease["pid"] == successor.pid
    renewals = lease["renewals"]
    until(lambda: any_ground.leases()[0]["renewals"] > renewals, "the successor renews")
    Path(any_ground.path("enough")).touch()
    assert any_ground.told(successor).code == 0


def test_a_holder_in_a_frozen_cgroup_is_replaced(ground: Ground) -> None:
    path = cgroup.plan(f"test{os.urandom(8).hex()}")
    if path is None or not cgroup.make(path):
        pytest.skip("this host does not let us make cgroups")
    holder = ground.spawn(
        ["sh", "-c", f'echo $$ > {path}/cgroup.procs; exec "$@"', "sh", sys.executable, "-m", "fencepost", "exec",
         "--lock", "z", "--ttl", "1s", "--", *agent("one")]
    )  # fmt: skip
    pid = int(ground.wait_for("one").split()[0])
    try:
        assert cgroup.freeze(path)
        told = ground.run("exec", "--lock", "z", "--wait=20s", "--", *agent("two", "exit 0"))
        assert told.code == 0, told
        assert not is_alive(pid)
    finally:
        cgroup.thaw(path)
    assert ground.told(holder).code == 76
    until(lambda: cgroup.remove(path), "the cgroup is empty")


def test_a_broken_lease_can_be_taken_at_once(any_ground: Ground) -> None:
    holder, pid, _ = started(any_ground, "one", ttl="60s")
    assert any_ground.run("lease", "break", "lock:z").code == 0
    told = any_ground.run("exec", "--lock", "z", "--", *agent("two", sh_dead(pid)))
    assert told.code == 0, told
    assert any_ground.told(holder).code in (1, 76)


def test_a_run_many_times_longer_than_its_ttl_keeps_its_lease(any_ground: Ground) -> None:
    holder, _, fence = started(any_ground, "one", ttl="1500ms")
    until(lambda: any_ground.leases()[0]["renewals"] >= 6, "two ttls of renewals")
    assert any_ground.leases()[0]["fence"] == fence
    assert any_ground.run("exec", "--lock", "z", "--", "true").code == 75
    holder.terminate()
    assert any_ground.told(holder).code == 143


def test_killed_at_any_moment_the_next_run_starts_at_once_with_a_higher_fence(ground: Ground) -> None:
    """Kill -9 between any two steps: the moment varies over the whole start-up."""
    fence = 0
    for step in range(24):
        holder = ground.start("exec", "--lock", "z", "--ttl", "60s", "--", "sh", "-c", "sleep 600 & sleep 600")
        select.select([], [], [], 0.006 * step)
        holder.kill()
        holder.wait(10)
        told = ground.run("exec", "--lock", "z", "--", "sh", "-c", "echo $FENCEPOST_FENCE", seconds=20)
        assert told.code == 0, told
        assert int(told.out) > fence
        fence = int(told.out)
    ground.wait_empty()
    until(lambda: ground.run_folders() == [], "the guards have removed the run folders")


def test_a_strangers_process_with_a_reused_pid_is_neither_waited_for_nor_killed(ground: Ground) -> None:
    stranger = ground.spawn(["sleep", "600"])
    me = system_processes(SystemClock()).myself()
    forged = ProcessId(me.host, stranger.pid, "1")
    forge(ground, supervisor=forged, guard=forged)
    assert ground.run("exec", "--lock", "z", "--", "true").code == 0
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait(10)


def test_a_process_of_another_pid_namespace_is_neither_judged_nor_killed(ground: Ground) -> None:
    stranger = ground.spawn(["sleep", "600"])
    processes = system_processes(SystemClock())
    real = processes.identify(stranger.pid)
    assert real is not None
    elsewhere = real._replace(host=real.host._replace(pid_namespace="1"))
    forge(ground, supervisor=elsewhere, guard=elsewhere, ttl_seconds=1.0)
    told = ground.run("exec", "--lock", "z", "--", "true")
    assert told.code == 75, told
    told = ground.run("exec", "--lock", "z", "--wait=20s", "--", "true")
    assert told.code == 0, told
    assert "may still run; it is fenced" in told.err
    assert stranger.poll() is None
    assert ground.run("exec", "--lock", "z", "--", "true").err == "", "it is said once"
    stranger.kill()
    stranger.wait(10)


def test_the_same_holder_takes_over_from_its_dead_process_and_is_busy_while_it_lives(ground: Ground) -> None:
    words = ("exec", "--lock", "z", "--holder", "session-1", "--ttl", "60s", "--")
    holder = ground.start(*words, *agent("one"))
    ground.wait_for("one")
    assert ground.run(*words, "true").code == 75
    holder.kill()
    holder.wait(10)
    assert ground.run(*words, "true").code == 0


def forge(ground: Ground, *, supervisor: ProcessId, guard: ProcessId, ttl_seconds: float = FROZEN_FAR_BEYOND) -> None:
    """Put a lease into the store as if this process had been granted it."""
    store = ground.store()
    try:
        claim = Claim(
            id="forged", tenant="default", resources=("lock:z",), run_id="rforged", ttl_seconds=ttl_seconds,
            supervisor=supervisor, guard=guard,
        )  # fmt: skip
        assert isinstance(store.acquire(claim), Granted), json.dumps(claim)
    finally:
        store.close()
