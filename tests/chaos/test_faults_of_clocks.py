"""Clocks that are wrong, are set while everything runs, stand still or run fast: the worker's, the server's, the only host's."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event

import psycopg
import pytest

from tests.support.ground import Ground, Program, children, ground_at, send, until
from tests.support.postgres import PostgresServer
from tests.support.proxy import FaultyProxy, Pass, Silence
from tests.support.site import Site
from tests.support.wall import Wall, wall

HOUR = 3600
CONFIG = """
[agents.witness]
command = ["sh", "-c", "echo $FENCEPOST_TICK >> witness"]
[schedules.second]
agent = "witness"
cron = "* * * * * *"
"""
ASLEEP = """
[agents.long]
command = ["sh", "-c", "touch began; while [ ! -e go ]; do sleep 0.05; done; echo $FENCEPOST_FENCE > over"]
[agents.short]
command = ["true"]
[schedules.hourly]
agent = "short"
cron = "0 * * * *"
"""
# Says when it lives, by the wall clock, which no crystal of this test bends.
BEATING = """
import sys, time
with open(sys.argv[1], "a", buffering=1) as beats:
    while True:
        beats.write(f"{time.time()}\\n")
        time.sleep(0.02)
"""


@pytest.fixture
def clock() -> Iterator[Wall]:
    with wall() as made:
        yield made


class Clocked:
    """A server that lives by a clock which can be set."""

    def __init__(self, server: PostgresServer, clock: Wall) -> None:
        self.server = server
        self.clock = clock


@pytest.fixture(scope="module")
def server_clock() -> Iterator[Clocked]:
    with wall() as made, pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment.items():
            patch.setenv(name, value)
        settings = {"fsync": "on", "full_page_writes": "on", "max_prepared_transactions": "2"}
        with PostgresServer.private(settings) as server:
            for name in made.environment:
                patch.delenv(name)
            yield Clocked(server, made)


@pytest.fixture
def clocked(server_clock: Clocked) -> Iterator[Clocked]:
    server_clock.clock.step(0)
    yield server_clock
    server_clock.clock.step(0)


def up(site: Site, by: Wall, *words: str) -> None:
    site.start(*by.words(), sys.executable, "-m", "fencepost", "up", "--no-web", "--workers", "2", *words)


def ticks(site: Site) -> list[str]:
    path = site.folder / "witness"
    return path.read_text().splitlines() if path.exists() else []


def check(site: Site) -> dict[str, int]:
    """No tick came twice, and each that was owed has a record."""
    assert [tick for tick, times in Counter(ticks(site)).items() if times > 1] == []
    *_, verdict = (json.loads(line) for line in site.fencepost("prove", "--json").splitlines())
    assert (verdict["missing"], verdict["doubled"]) == (0, 0)
    return dict(verdict)


def more(site: Site, number: int = 2) -> None:
    before = len(ticks(site))
    site.until(lambda: len(ticks(site)) >= before + number)


def test_workers_whose_clocks_are_an_hour_off_either_way_live_by_the_servers(
    durable_url: str, tmp_path: Path, clock: Wall
) -> None:
    """F26, F71: a wrong clock at a client has no effect on ticks and leases."""
    site = Site(tmp_path, durable_url)
    began_us = time.time_ns() // 1000  # noqa: TID251
    try:
        site.configure(CONFIG)
        with wall() as behind:
            clock.step(HOUR)
            behind.step(-HOUR)
            up(site, clock, "--ttl", "2s")
            up(site, behind, "--ttl", "2s")
            site.until(lambda: len(ticks(site)) >= 3)
            site.close()
        runs = site.runs()
        assert {run.attempt for run in runs if run.state == "succeeded"} == {1}
        assert all(began_us <= (run.tick_us or 0) <= time.time_ns() // 1000 for run in runs)  # noqa: TID251
        check(site)
    finally:
        site.close()


def test_a_servers_clock_that_jumps_an_hour_ahead_and_back_fires_nothing_twice(
    tmp_path: Path, clocked: Clocked
) -> None:
    """F27, F28: the ticks of the hour are accounted for once; what the clock repeats is not; the jumps are on record."""
    site = Site(tmp_path, clocked.server.create_database())
    try:
        site.configure(CONFIG)
        site.up("--workers", "2", "--ttl", "3s")
        site.until(lambda: len(ticks(site)) >= 2)
        clocked.clock.step(HOUR)
        more(site)
        ahead = site.runs()
        site.until(lambda: len(jumps(site)) == 1)
        clocked.clock.step(0)
        site.until(lambda: len(jumps(site)) == 2)
        clocked.clock.step(HOUR + 20)
        more(site)

        assert check(site)["accounted"] > HOUR
        assert max(run.tick_us or 0 for run in ahead) - min(run.tick_us or 0 for run in ahead) > HOUR * 1_000_000
        first, second, *_ = jumps(site)
        assert HOUR - 60 < first <= HOUR
        assert -HOUR <= second < 60 - HOUR
        assert "the store's clock was set ahead by" in site.said()
        assert "the store's clock was set back by" in site.said()
    finally:
        site.close()


def jumps(site: Site) -> list[int]:
    """Return the sizes of the jumps that are on record, oldest first."""
    rows = [row for row in site.rows("audit", "list") if row["verb"] == "clock_jump"]
    return [json.loads(row["detail"])["seconds"] for row in reversed(rows)]


def test_a_servers_clock_that_jumps_ahead_ends_every_lease_and_no_holder_goes_on(
    tmp_path: Path, clocked: Clocked
) -> None:
    """F27: mass takeover; the old holder finds itself replaced, and its agent is gone."""
    with ground_at(tmp_path, store=clocked.server.create_database()) as ground:
        words = ("exec", "--lock", "z", "--ttl", "60s")
        holder = ground.start(*words, "--", "sh", "-c", "echo $FENCEPOST_FENCE > first; sleep 60")
        first = int(ground.wait_for("first"))
        heir = ground.start(*words, "--wait=40s", "--", "sh", "-c", "echo $FENCEPOST_FENCE > second")
        with closing(ground.store()) as store:
            until(lambda: bool(store.waiters()), "the heir waits")
        clocked.clock.step(HOUR)

        assert ground.told(heir).code == 0
        assert int(ground.wait_for("second")) > first
        assert ground.told(holder, seconds=60).code == 76


def test_a_client_whose_clock_is_an_hour_ahead_is_told_by_the_servers_for_how_long_a_lock_is_held(
    tmp_path: Path, clocked: Clocked, clock: Wall
) -> None:
    """F71: what is shown is counted by the store's clock, in words, tables and lines."""
    clock.step(HOUR)
    ahead = [*clock.words(), sys.executable, "-m", "fencepost"]
    with ground_at(tmp_path, store=clocked.server.create_database()) as ground:
        holder = ground.start("exec", "--lock", "z", "--", "sh", "-c", "echo yes > began; sleep 60")
        ground.wait_for("began")

        refused = ground.told(ground.spawn([*ahead, "exec", "--lock", "z", "--", "true"]))
        listed = ground.told(ground.spawn([*ahead, "lease", "list"]))
        waiter = ground.spawn([*ahead, "exec", "--lock", "z", "--wait=1s", "--", "true"])

        assert refused.code == 75
        assert "1h" not in refused.err.partition(", for ")[2], refused.err
        assert "1h" not in listed.out.decode().splitlines()[1], listed
        assert "1h" not in ground.told(waiter).err
        send(holder.pid, signal.SIGTERM)


def test_a_transaction_that_is_open_for_an_hour_is_named_with_the_way_to_end_it(
    tmp_path: Path, clocked: Clocked
) -> None:
    """F48: the alarm names the process, or what a prepared transaction is called that nobody came back for."""
    site = Site(tmp_path, clocked.server.create_database())
    site.configure(CONFIG)
    with psycopg.connect(site.store, application_name="a-report") as lingering:
        lingering.execute("SELECT count(*) FROM fencepost.run")
        assert transactions(site) == [("ok", "none that this role may see has been open for 5m")]
        clocked.clock.step(HOUR)

        ((status, said),) = transactions(site)

        assert status == "warn"
        assert f"process {lingering.info.backend_pid} (a-report, postgres at 127.0.0.1, idle in transaction)" in said
        assert "has one open for 1h" in said
        clocked.clock.step(0)
        with psycopg.connect(site.store, autocommit=True) as forgetful:
            forgetful.execute("BEGIN")
            forgetful.execute("CREATE TABLE something ()")
            forgetful.execute("PREPARE TRANSACTION 'left-over'")
            lingering.rollback()
            clocked.clock.step(HOUR)
            ((status, said),) = transactions(site)
            assert (status, said[:44]) == ("warn", "prepared transaction 'left-over' of postgres")
            forgetful.execute("ROLLBACK PREPARED 'left-over'")
    site.close()


def transactions(site: Site) -> list[tuple[str, str]]:
    rows = [json.loads(line) for line in site.fencepost("doctor", "--json", code=None).splitlines()]
    return [(row["status"], row["message"]) for row in rows if row["check"] == "transactions"]


def test_a_host_whose_clock_is_set_back_over_a_tick_does_not_fire_it_again(site: Site, clock: Wall) -> None:
    """F29, on SQLite: everybody lives by the clock that is set."""
    site.configure(CONFIG)
    up(site, clock, "--ttl", "3s")
    site.until(lambda: len(ticks(site)) >= 3)
    clock.step(-5)
    Event().wait(1.5)
    clock.step(3)
    more(site)
    site.close()

    assert [tick for tick, times in Counter(ticks(site)).items() if times > 1] == []
    born = [run.occurrence for run in site.runs()]
    assert len(born) == len(set(born))


def test_a_host_that_slept_for_hours_finds_its_leases_as_they_were_and_its_ticks_missed(
    site: Site, clock: Wall
) -> None:
    """F31, on SQLite: the wall and the time since boot went on, the time awake did not, and nobody ran meanwhile."""
    site.configure(ASLEEP)
    daemon = site.start(*clock.words(), *fencepost("up", "--no-web", "--workers", "2", "--ttl", "1500ms"))
    site.fencepost("run", "long")
    site.until((site.folder / "began").exists)
    site.until(lambda: site.runs(agent="long", state="running"))
    (before,) = site.runs(agent="long")
    everybody = family(daemon.pid)
    for pid in everybody:
        send(pid, signal.SIGSTOP)
    # Two full hours go by, and it is half past when the host wakes: no tick is within its grace.
    now = int(time.time())  # noqa: TID251
    clock.sleep(2 * HOUR + (HOUR // 2 - now) % HOUR)
    for pid in everybody:
        send(pid, signal.SIGCONT)
    site.until(lambda: sum(row["count"] for row in site.rows("schedule", "ticks", "hourly")) >= 2)
    Event().wait(2)  # more than the lease lasts
    (site.folder / "go").touch()
    site.until(lambda: site.runs(agent="long", state="succeeded"))

    (after,) = site.runs(agent="long")
    assert after.attempt == 1
    assert (site.folder / "over").read_text().strip() == str(before.fence), "the same agent under the same fence"
    assert {row["disposition"] for row in site.rows("schedule", "ticks", "hourly")} == {"missed"}
    assert daemon.poll() is None


def family(pid: int) -> list[int]:
    """Return a process and all that came of it."""
    return [pid, *(one for child in children(pid) for one in family(child))]


def fencepost(*words: str) -> list[str]:
    return [sys.executable, "-m", "fencepost", *words]


def test_a_holder_whose_crystal_is_five_percent_off_ends_its_tree_before_anybody_else_has_the_lease(
    durable_url: str, tmp_path: Path, clock: Wall
) -> None:
    """F35: slow and fast, each cut off from the store, in a pid namespace where nobody else can end or judge them."""
    if not shutil.which("unshare") or subprocess.run(["unshare", "--pid", "--fork", "true"], check=False).returncode:
        pytest.skip("this host lets us make no pid namespace, so a successor would end the holder in any case")
    with FaultyProxy(durable_url) as proxy, ground_at(tmp_path, store=durable_url) as ground:
        (ground.folder / "beating.py").write_text(BEATING)
        holders = {rate: hold(ground, clock, proxy.url, rate) for rate in (0.95, 1.05)}
        beats = {rate: ground.folder / f"beats-{rate}" for rate in holders}
        until(lambda: all(path.exists() for path in beats.values()), "both run")
        Event().wait(2.5)  # renewed by now
        proxy.switch(Silence())
        heirs = {
            rate: ground.start(*lock(rate), "--wait=30s", "--", "sh", "-c", f"date +%s.%N > heir-{rate}")
            for rate in holders
        }
        for rate, heir in heirs.items():
            told = ground.told(heir, seconds=40)
            assert told.code == 0, told
            last = float(beats[rate].read_text().split()[-1])
            assert last < float((ground.folder / f"heir-{rate}").read_text()), f"both ran, at a rate of {rate}"
            assert last - float(beats[rate].read_text().split()[0]) > 2.5, "it was renewed before"
        proxy.switch(Pass())
        proxy.cut_all()
        for holder in holders.values():
            assert ground.told(holder, seconds=40).code == 76


def lock(rate: float) -> list[str]:
    return ["exec", "--lock", f"crystal-{rate}", "--ttl", "5s"]


def hold(ground: Ground, clock: Wall, store: str, rate: float) -> Program:
    """Hold a lock as a machine does whose crystal has this rate."""
    apart = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    agent = [sys.executable, "-S", "beating.py", f"beats-{rate}"]
    words = [*apart, *clock.words(rate=rate), *fencepost(*lock(rate)), "--", *agent]
    return ground.spawn(words, env={**ground.env, "FENCEPOST_STORE": store})
