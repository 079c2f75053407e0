"""Waiting in line: first come, first served, and little noise."""

import os
import signal
import subprocess
from pathlib import Path

from tests.support.ground import Ground, ground_at, until
from tests.support.proxy import FaultyProxy, Pass, Reset

HOLDER = ["sh", "-c", "echo > up; until [ -e enough ]; do sleep 0.02; done"]


def holding(ground: Ground) -> subprocess.Popen[bytes]:
    holder = ground.start("exec", "--lock", "z", "--", *HOLDER)
    ground.wait_for("up")
    return holder


def waiters(ground: Ground) -> list[int]:
    store = ground.store()
    try:
        return [waiter.process.pid for waiter in store.waiters()]
    finally:
        store.close()


def join(ground: Ground, *words: str) -> subprocess.Popen[bytes]:
    waiter = ground.start("exec", "--lock", "z", "--wait", "--", *words)
    until(lambda: waiter.pid in waiters(ground), "it is in the queue")
    return waiter


def test_five_waiters_start_in_the_order_in_which_they_came(any_ground: Ground) -> None:
    holder = holding(any_ground)
    line = [join(any_ground, "sh", "-c", f"echo {number} >> order") for number in range(5)]
    Path(any_ground.path("enough")).touch()
    for waiter in line:
        assert any_ground.told(waiter, seconds=60).code == 0
    assert Path(any_ground.path("order")).read_text().split() == ["0", "1", "2", "3", "4"]
    assert any_ground.told(holder).code == 0


def test_a_waiter_says_its_place_once_and_again_when_it_changes(ground: Ground) -> None:
    holder = holding(ground)
    first = join(ground, "true")
    second = join(ground, "true")
    (run_id,) = {lease["run_id"] for lease in ground.leases()}
    Path(ground.path("enough")).touch()
    said = [ground.told(one, seconds=60).err.splitlines() for one in (first, second)]
    assert said[0] == [
        f"fencepost: queued · position 1 · behind {line}" for line in [said[0][0].partition("behind ")[2]]
    ]
    assert run_id in said[0][0]
    assert said[1][0].startswith("fencepost: queued · position 2 · behind r")
    assert all(line.startswith("fencepost: queued · position 1 · behind r") for line in said[1][1:])
    assert len(said[1]) <= 2
    assert ground.told(holder).code == 0


def test_a_killed_waiter_leaves_the_queue_at_once(ground: Ground) -> None:
    holder = holding(ground)
    first = join(ground, "touch", "never")
    second = join(ground, "touch", "second")
    first.kill()
    first.wait(10)
    Path(ground.path("enough")).touch()
    assert ground.told(second, seconds=20).code == 0  # the dead one's place would last for 30 s
    assert not os.path.exists(ground.path("never"))
    assert ground.told(holder).code == 0


def test_who_does_not_wait_does_not_overtake_those_who_do(ground: Ground) -> None:
    holder = holding(ground)
    waiter = join(ground, "true")
    waiter.send_signal(signal.SIGSTOP)
    Path(ground.path("enough")).touch()
    assert ground.told(holder).code == 0
    told = ground.run("exec", "--lock", "z", "--", "true")
    assert told.code == 75
    assert "1 waiting before you." in told.err
    waiter.send_signal(signal.SIGCONT)
    assert ground.told(waiter).code == 0


def test_a_passive_session_takes_over_when_the_driving_one_dies(any_ground: Ground) -> None:
    driver = any_ground.start("exec", "--lock", "drive", "--ttl", "60s", "--", *HOLDER)
    any_ground.wait_for("up")
    passive = any_ground.start("exec", "--lock", "drive", "--ttl", "60s", "--wait", "--", "sh", "-c", "echo > driving")
    until(lambda: bool(waiters(any_ground)), "it waits")
    driver.kill()
    driver.wait(10)
    any_ground.wait_for("driving")
    assert any_ground.told(passive).code == 0


def test_a_passive_session_writes_nothing_while_it_probes(ground: Ground) -> None:
    holder = ground.start("exec", "--lock", "z", "--ttl", "1h", "--", *HOLDER)
    ground.wait_for("up")
    passive = ground.start("exec", "--lock", "z", "--ttl", "1h", "--wait", "--", "true")
    until(lambda: passive.pid in waiters(ground), "it is in the queue")
    log = Path(ground.store_url.removeprefix("sqlite:") + "-wal")
    before = (log.stat().st_size, log.read_bytes())
    looks = pauses(passive.pid)
    until(lambda: pauses(passive.pid) > looks + 12, "it has looked many times")
    assert (log.stat().st_size, log.read_bytes()) == before
    Path(ground.path("enough")).touch()
    assert ground.told(holder).code == 0
    assert ground.told(passive).code == 0


def pauses(pid: int) -> int:
    """Return how often a process has waited for something; what it reads it keeps to itself."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["voluntary_ctxt_switches"])


def test_a_waiter_waits_out_a_store_that_is_away_for_a_moment(tmp_path: Path, durable_url: str) -> None:
    with FaultyProxy(durable_url) as proxy, ground_at(tmp_path, store=proxy.url) as ground:
        holder = ground.start("exec", "--lock", "z", "--ttl", "20s", "--", *HOLDER)
        ground.wait_for("up")
        waiter = ground.start("exec", "--lock", "z", "--ttl", "20s", "--wait", "--", "true")
        until(lambda: waiter.pid in waiters(ground), "it is in the queue")
        proxy.switch(Reset())
        bites = proxy.bites
        until(lambda: proxy.bites > bites + 2, "it has tried again")
        proxy.switch(Pass())
        Path(ground.path("enough")).touch()
        assert ground.told(holder).code == 0
        assert ground.told(waiter).code == 0
