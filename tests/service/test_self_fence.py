"""A holder that cannot renew ends its own tree before its lease can be given away."""

import os
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.host.clock import SystemClock
from tests.support.ground import Ground, ground_at, is_alive, send, until
from tests.support.locked import locked
from tests.support.postgres import PostgresServer
from tests.support.proxy import FaultyProxy, Pass, Silence

TTL_SECONDS = 2.0
AGENT = ["sh", "-c", "echo $$ > up; while :; do sleep 0.02; done"]


@pytest.fixture
def proxied(tmp_path: Path, durable_url: str) -> Iterator[tuple[Ground, FaultyProxy, Ground]]:
    """A ground whose store is behind a proxy, and one that reaches the same store directly."""
    for name in ("far", "near"):
        (tmp_path / name).mkdir()
    with (
        FaultyProxy(durable_url) as proxy,
        ground_at(tmp_path / "far", store=proxy.url) as far,
        ground_at(tmp_path / "near", store=durable_url) as near,
    ):
        yield far, proxy, near


def started(ground: Ground, *, ttl: str = f"{TTL_SECONDS:g}s") -> tuple[subprocess.Popen[bytes], int]:
    holder = ground.start("exec", "--lock", "z", "--ttl", ttl, "--", *AGENT)
    return holder, int(ground.wait_for("up"))


def expiry_ns(ground: Ground, clock_ns: int) -> float:
    """Return when the store may give the lease away, on the clock that was read just before."""
    store = ground.store()
    try:
        (held,) = store.leases()
    finally:
        store.close()
    return clock_ns + held.remaining_seconds * 1e9


def test_a_locked_file_ends_the_tree_before_the_lease_does(ground: Ground) -> None:
    clock = SystemClock()
    holder, pid = started(ground)
    with locked(ground.store_url):
        expires_ns = expiry_ns(ground, clock.awake_ns())
        until(lambda: not is_alive(pid), "the agent was ended")
        dead_ns = clock.awake_ns()
        assert dead_ns < expires_ns + 20e6, (dead_ns - expires_ns) / 1e9  # the look itself is up to 20 ms late
    told = ground.told(holder)
    assert told.code == 76, told
    assert "lease lost" in told.err


def test_an_agent_that_is_deaf_to_term_is_killed_in_time_as_well(ground: Ground) -> None:
    clock = SystemClock()
    holder = ground.start("exec", "--lock", "z", "--ttl", "2s", "--", "sh", "-c", f"trap '' TERM; {AGENT[2]}")
    pid = int(ground.wait_for("up"))
    with locked(ground.store_url):
        expires_ns = expiry_ns(ground, clock.awake_ns())
        until(lambda: not is_alive(pid), "the agent was ended")
        assert clock.awake_ns() < expires_ns + 20e6
    assert ground.told(holder).code == 76


def test_a_short_lock_is_survived(ground: Ground) -> None:
    holder, pid = started(ground)
    with locked(ground.store_url):
        select.select([], [], [], TTL_SECONDS * 0.35)
    until(lambda: ground.leases()[0]["renewals"] >= 2, "it renews again")
    assert is_alive(pid)
    holder.terminate()
    assert ground.told(holder).code == 143


def test_silence_from_the_server_ends_the_tree_before_the_lease_does(
    proxied: tuple[Ground, FaultyProxy, Ground],
) -> None:
    far, proxy, near = proxied
    clock = SystemClock()
    holder, pid = started(far)
    proxy.switch(Silence())
    expires_ns = expiry_ns(near, clock.boot_ns())
    successor = near.start(
        "exec", "--lock", "z", "--wait=20s", "--", "sh", "-c", f"test -d /proc/{pid} && cat /proc/{pid}/cmdline; exit 0"
    )
    until(lambda: not is_alive(pid), "the agent was ended")
    assert clock.boot_ns() < expires_ns + 20e6
    told = near.told(successor)
    assert (told.code, told.out) == (0, b""), told
    proxy.switch(Pass())
    assert far.told(holder).code == 76


def test_a_short_silence_is_survived(proxied: tuple[Ground, FaultyProxy, Ground]) -> None:
    far, proxy, near = proxied
    holder, pid = started(far, ttl="4s")
    proxy.switch(Silence())
    select.select([], [], [], 1.2)
    proxy.switch(Pass())
    renewals = near.leases()[0]["renewals"]
    until(lambda: near.leases()[0]["renewals"] > renewals, "it renews again")
    assert is_alive(pid)
    holder.terminate()
    assert far.told(holder).code == 143


def test_a_server_that_was_restarted_is_found_again(tmp_path: Path) -> None:
    settings = {"fsync": "on", "full_page_writes": "on"}
    with PostgresServer.private(settings) as server, ground_at(tmp_path, store=server.create_database()) as ground:
        holder, pid = started(ground, ttl="6s")
        server.restart("immediate")
        renewals = ground.leases()[0]["renewals"]
        until(lambda: ground.leases()[0]["renewals"] > renewals, "it renews again")
        assert is_alive(pid)
        holder.terminate()
        told = ground.told(holder)
        assert told.code == 143, told
        assert ground.leases() == []
        server.stop("immediate")
        assert ground.run("exec", "--lock", "z", "--", "true").code == 69
        server.start()


def test_a_reader_of_stderr_who_stopped_reading_delays_neither_renewal_nor_the_end(ground: Ground) -> None:
    assert ground.run("exec", "--", "true").code == 0
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    while True:
        try:
            os.write(writer, b"x" * 4096)
        except BlockingIOError:
            break
    os.set_blocking(writer, True)
    holder = ground.start("exec", "--lock", "z", "--ttl", "3s", "--", *AGENT, stderr=writer)
    ground.wait_for("up")
    until(lambda: ground.leases()[0]["renewals"] >= 2, "it renews")
    assert ground.run("lease", "break", "lock:z").code == 0
    assert holder.wait(20) == 76
    os.close(reader)
    os.close(writer)


def test_renewal_goes_on_while_the_guard_is_frozen(ground: Ground) -> None:
    holder, pid = started(ground, ttl="2s")
    guard = ground.guard_of(holder)
    send(guard, signal.SIGSTOP)
    until(lambda: ground.leases()[0]["renewals"] >= 4, "more than a ttl of renewals")
    assert is_alive(pid)
    send(guard, signal.SIGCONT)
    holder.terminate()
    assert ground.told(holder).code == 143


def test_a_frozen_guard_and_a_dead_store_end_the_tree_all_the_same(ground: Ground) -> None:
    clock = SystemClock()
    holder, pid = started(ground, ttl="6s")  # the guard gets most of the grace before it is replaced
    send(ground.guard_of(holder), signal.SIGSTOP)
    with locked(ground.store_url):
        expires_ns = expiry_ns(ground, clock.awake_ns())
        until(lambda: not is_alive(pid), "the supervisor took the guard's place")
        assert clock.awake_ns() < expires_ns + 20e6
    assert ground.told(holder).code == 76
