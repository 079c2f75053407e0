"""A PostgreSQL that is slow, crowded, half frozen or full: holders keep their leases, others go on, nothing is acked and lost."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fencepost import wiring
from fencepost.operations.run_requests import request_run
from fencepost.stores.runtime import RuntimeStore
from fencepost.wiring import new_run_id
from tests.support.ground import ground_at, until
from tests.support.postgres import PostgresServer
from tests.support.proxy import CutAt, Delay, Fail, FaultyProxy, Moment, Pass
from tests.support.site import Site

ROOT = Path(__file__).parents[2]
CONFIG = "[agents.quick]\ncommand = ['true']\n"
NIGHTLY = "[schedules.nightly]\nagent = 'quick'\ncron = '0 3 * * *'\n"
PROMPT_SECONDS = 4.0  # two for others' work, and two to start a program on a busy machine; it used to be five and more
# A client in the middle of what a ticker, a worker and an apply do, stopped by whoever closed the lid.
FREEZING = """
import os, signal, sys
from fencepost import wiring

def freeze(tx):
    tx.rows("lock_registry", tenant="default")
    tx.rows("hold_schedule", tenant="default", name="nightly")
    tx.rows("lock_run", tenant="default", id=sys.argv[2])
    os.kill(os.getpid(), signal.SIGSTOP)

wiring.open_runtime(sys.argv[1]).dialect.write(freeze)
"""


@pytest.fixture
def pg_site(durable_url: str, tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path, durable_url)
    yield site
    site.close()


def fetch(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement).fetchall()


def _connections(url: str) -> int:
    """Count the connections to a database that are not this one."""
    statement = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    return int(fetch(url, statement)[0][0])


def test_a_server_that_takes_its_time_for_each_statement_costs_no_lease(durable_url: str, tmp_path: Path) -> None:
    """F42, in tenths of a second for seconds: 0.3 s for each statement, a lease of nine, held for longer than that."""
    with FaultyProxy(durable_url) as proxy, ground_at(tmp_path, store=proxy.url) as ground:
        holder = ground.start("exec", "--lock", "z", "--ttl", "9s", "--", "sh", "-c", "echo > up; sleep 11")
        ground.wait_for("up")
        until(lambda: _connections(durable_url) >= 2, "the holder has the connection of its renewals")
        proxy.switch(Delay(0.3))

        told = ground.told(holder, seconds=60)

        assert told.code == 0, told
        proxy.switch(Pass())


OPERATORS: list[tuple[str, ...]] = [
    ("schedule", "pause", "nightly"),
    ("schedule", "skip-next", "nightly"),
    ("apply",),
    ("cancel", "RUN"),
    ("halt",),
]


@pytest.mark.parametrize("words", OPERATORS, ids=" ".join)
def test_an_operator_waits_two_seconds_at_most_for_a_client_that_froze_in_a_transaction(
    pg_site: Site, words: tuple[str, ...]
) -> None:
    """F43: the server throws the frozen client out, and the command is carried out."""
    pg_site.configure(CONFIG + NIGHTLY)
    run = pg_site.fencepost("run", "quick").split()[-1]
    text = (pg_site.folder / "fencepost.toml").read_text()
    (pg_site.folder / "fencepost.toml").write_text(text.replace("0 3", "0 4"))
    argv = [sys.executable, "-c", FREEZING, pg_site.store, run]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as frozen:
        os.waitid(os.P_PID, frozen.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        began = time.monotonic()  # noqa: TID251  # of the machine, as an operator sees it
        pg_site.fencepost(*[run if word == "RUN" else word for word in words])
        took = time.monotonic() - began  # noqa: TID251  # likewise
        frozen.kill()
    assert took < PROMPT_SECONDS


def test_a_backend_frozen_with_a_run_in_its_hands_keeps_nobody_from_the_others(
    durable_server: PostgresServer, pg_site: Site
) -> None:
    """F43: SKIP LOCKED, and lock_timeout for what cannot be skipped."""
    pg_site.configure(CONFIG)
    ids = [pg_site.fencepost("run", "quick").split()[-1] for _ in range(3)]
    with psycopg.connect(pg_site.store) as stuck:
        stuck.execute("SELECT 1 FROM fencepost.run WHERE id = %s FOR UPDATE", (ids[0],))
        pid = stuck.info.backend_pid
        durable_server.freeze(pid)
        try:
            pg_site.up("--workers", "2", "--ttl", "3s")
            pg_site.until(lambda: len(pg_site.runs(state="succeeded")) == 2)
            assert {run.id for run in pg_site.runs(state="succeeded")} == set(ids[1:])
        finally:
            durable_server.thaw(pid)
        stuck.rollback()
    pg_site.until(lambda: len(pg_site.runs(state="succeeded")) == 3)


def test_a_transaction_that_somebody_leaves_open_stops_neither_leasing_nor_settling(pg_site: Site) -> None:
    """F48: what it costs is space, which autovacuum gets back later."""
    pg_site.configure(CONFIG)
    with psycopg.connect(pg_site.store) as lingering:
        lingering.execute("SELECT count(*) FROM fencepost.run")
        pg_site.up("--workers", "2")
        for _ in range(3):
            pg_site.fencepost("run", "quick")
        pg_site.until(lambda: len(pg_site.runs(state="succeeded")) == 3)
        lingering.rollback()


DISK_FULL = """
import os, sys, tempfile
from pathlib import Path
tempfile.tempdir = sys.argv[2]
from tests.support.postgres import PostgresServer
from tests.support.site import Site
small = {"fsync": "on", "full_page_writes": "on", "min_wal_size": "32MB", "max_wal_size": "32MB"}
with PostgresServer.private(small, in_memory=False) as server:
    assert str(server.data).startswith(sys.argv[2]), server.data
    site = Site(Path(sys.argv[1]), server.create_database())
    site.of_today = False  # a process of its own, which needs no room on that disk
    site.configure("[agents.quick]\\ncommand = ['true']\\n")
    filler = Path(sys.argv[2]) / "filler"
    room = os.statvfs(sys.argv[2])
    filler.write_bytes(bytes(room.f_bavail * room.f_frsize - 200_000))
    kept = []
    for turn in range(40):
        ran = site.try_fencepost("run", "quick", "--payload", '{"x": "%s"}' % os.urandom(30_000).hex())
        if ran.returncode:
            break
        kept.append(ran.stdout.split()[-1])
    assert (ran.returncode, ran.stdout) == (69, ""), ran.stderr[-500:]
    assert "has no disk space left; nothing was changed" in ran.stderr and "Traceback" not in ran.stderr, ran.stderr[-500:]
    assert kept, "something fitted in before"
    assert sorted(run.id for run in site.runs()) == sorted(kept)
    filler.unlink()
    site.until(lambda: site.try_fencepost("run", "quick").returncode == 0)
    assert len(site.runs()) == len(kept) + 1
    site.up("--workers", "2")
    site.until(lambda: len(site.runs(state="succeeded")) == len(kept) + 1)
    site.close()
"""


def test_a_server_whose_disk_is_really_full_acknowledges_nothing_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """F44: the server lives on a small disk of its own, which is filled to the last page."""
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this host allows no private mounts")
    with tempfile.TemporaryDirectory(prefix="fencepost-disk-", dir="/tmp") as disk:
        mount = 'mount -t tmpfs -o size=400m,mode=777 none "$2" && exec "$3" -c "$4" "$1" "$2"'
        command = [*unshare, "sh", "-c", mount, "sh", str(tmp_path), disk, sys.executable, DISK_FULL]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, timeout=120)

    assert done.returncode == 0, done.stderr[-2000:]


def test_a_disk_that_is_full_acknowledges_nothing_and_is_survived(durable_url: str, tmp_path: Path) -> None:
    """F44: the server says 53100 (disk full) when a request is to be kept."""
    direct = Site(tmp_path, durable_url)
    direct.configure(CONFIG)
    with FaultyProxy(durable_url) as proxy:
        site = Site(tmp_path, proxy.url)
        proxy.switch(Fail("53100", re.compile(rb"INSERT INTO fencepost\.run\b")))
        ran = subprocess.run(
            [sys.executable, "-m", "fencepost", "run", "quick", "--store", proxy.url],
            cwd=tmp_path,
            env=site.environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (ran.returncode, ran.stdout) == (69, ""), ran
        assert "Traceback" not in ran.stderr
        assert direct.runs() == []
        proxy.switch(Pass())
        assert direct.fencepost("run", "quick", "--store", proxy.url).strip()
    assert len(direct.runs()) == 1


def test_a_server_without_connections_to_spare_keeps_those_who_hold_a_lease(tmp_path: Path) -> None:
    """F45: the renewal's connection stays open, so that a crowd at the door costs no lease."""
    with PostgresServer.private({"fsync": "on", "full_page_writes": "on", "max_connections": "8"}) as server:
        url = server.create_database()
        with ground_at(tmp_path, store=url) as ground:
            holder = ground.start("exec", "--lock", "z", "--ttl", "3s", "--", "sh", "-c", "echo > up; sleep 5")
            ground.wait_for("up")
            until(lambda: _connections(url) >= 2, "the holder has the connection of its renewals")
            crowd: list[psycopg.Connection] = []
            give_up = time.monotonic() + 10  # noqa: TID251
            while time.monotonic() < give_up and len(crowd) < 8:  # noqa: TID251
                try:
                    crowd.append(psycopg.connect(url, connect_timeout=5))
                except psycopg.OperationalError:
                    break
            assert crowd, "the door was crowded"
            turned_away = ground.run("exec", "--lock", "y", "--", "true")
            told = ground.told(holder, seconds=60)
            for connection in crowd:
                connection.close()

    assert turned_away.code in (0, 69), turned_away
    assert told.code == 0, told


def test_what_was_committed_and_not_heard_of_is_found_by_its_key(durable_url: str, tmp_path: Path) -> None:
    """F38, F63 at the command line: the answer is lost, the same key finds the same run."""
    direct = Site(tmp_path, durable_url)
    direct.configure(CONFIG)
    with FaultyProxy(durable_url) as proxy:
        proxy.switch(CutAt(moment=Moment.AFTER))
        direct.fencepost("run", "quick", "--key", "k", "--store", proxy.url, code=None)
        proxy.switch(Pass())
        again = direct.fencepost("run", "quick", "--key", "k", "--store", proxy.url).split()[-1]
    assert [run.id for run in direct.runs()] == [again]
    assert json.loads(direct.fencepost("prove", "--json").splitlines()[-1])["doubled"] == 0


IN_PROCESS = "[agents.f]\nengine = 'python'\nfunction = 'm:f'\nin_process = true\n"


@pytest.fixture
def small_server() -> Iterator[PostgresServer]:
    with PostgresServer.private({"max_connections": "14", "superuser_reserved_connections": "2"}) as server:
        yield server


def state_of(store: RuntimeStore, run_id: str) -> str:
    run = store.run(run_id, tenant="default")
    assert run is not None
    return run.state


def test_a_server_without_a_connection_left_is_told_once_while_runs_wait_and_by_doctor(
    small_server: PostgresServer, tmp_path: Path
) -> None:
    """F45: what has its connection goes on, what needs one more waits, and up and doctor say for what."""
    url = small_server.create_database()
    with psycopg.connect(url, autocommit=True) as superuser:
        superuser.execute("CREATE ROLE plain LOGIN")
        superuser.execute(f'ALTER DATABASE "{superuser.info.dbname}" OWNER TO plain')  # our own database
    site = Site(tmp_path, url.replace("postgres@", "plain@"))
    (tmp_path / "m.py").write_text("def f(ctx): pass\n")
    site.configure(CONFIG + IN_PROCESS)
    site.up("--workers", "2")
    site.fencepost("run", "quick", "--wait")
    with closing(wiring.open_runtime(site.store)) as store, ExitStack() as held:
        store.clock_us()  # it has its connection
        with suppress(psycopg.OperationalError):
            while True:
                held.enter_context(psycopg.connect(site.store))
        waits, goes_on = (
            request_run(store, tenant="default", target=name, payload=None, new_run_id=new_run_id, by="me").run.id
            for name in ("f", "quick")
        )

        site.until(lambda: "runs wait, because no lane can begin" in site.said())
        site.until(lambda: state_of(store, goes_on) == "succeeded")
        doctor = site.try_fencepost("doctor").stdout
        time.sleep(3)  # noqa: TID251  # lanes are tried again meanwhile

        assert "has no connection left" in " ".join(doctor.split())
        assert site.said().count("no lane can begin") == 1
        assert "has no connection left" in site.said()
        assert state_of(store, waits) == "ready"
    site.until(lambda: len(site.runs(state="succeeded")) == 3)
    site.close()
