"""A schema that grew is none of an old program's business; one that shrank refuses it, with a word on what to do."""

import json
import os
import re
import tarfile
from pathlib import Path

import psycopg
import pytest

from fencepost import wiring
from fencepost.flow.notary import Notary
from fencepost.flow.run_recheck import claim_for, recheck_for
from fencepost.host.clock import SystemClock
from fencepost.host.processes import system_processes
from fencepost.model.audit_chain import key_id
from fencepost.model.errors import StoreUnavailable
from fencepost.model.outcome import Settlement
from fencepost.model.run import RunState
from fencepost.operations.audit_verification import verify_audit
from fencepost.ports.runs import Ended, Offer, Report, Starting
from fencepost.stores.runtime import RuntimeStore
from fencepost.stores.sqlite.store import newest_schema
from tests.stores.rig import QUEUE_DIFFERS
from tests.support.site import Site
from tests.upgrade.conftest import PACKED, OldSite

MIGRATION = re.compile(r"/migrations/\d{4}_\w+\.sql$")
SOURCE = Path(wiring.__file__).parents[2]
KEY = b"the key that is not in the store"
WORKDAY = str(Path(__file__).with_name("workday.py"))


def test_an_old_program_does_a_days_work_on_the_schema_of_today(now: Site, then: OldSite) -> None:
    now.fencepost("store", "migrate", "--store", now.store)
    states = json.loads(then.python(WORKDAY, now.store))
    assert states["succeeded"] >= 3
    assert (states["dead"], states["cancelled"]) >= (2, 1)
    assert now.fencepost("prove", "--store", now.store)
    if now.store.startswith("postgresql"):  # it has never heard of the queue's tables, and has kept them all the same
        with psycopg.connect(now.store) as connection:
            assert connection.execute(QUEUE_DIFFERS.encode()).fetchall() == []
            assert connection.execute("SELECT count(*) FROM fencepost.served").fetchone() != (0,)


def test_the_packed_programs_are_those_that_the_schema_still_admits(now: Site) -> None:
    with_store(now, lambda store: assert_admitted(meta(store)))


@pytest.mark.parametrize("archive", PACKED, ids=lambda path: path.name)
def test_a_store_of_an_old_program_gets_every_migration_that_it_has_not_had(archive: Path) -> None:
    """A store remembers one number: a migration that is added below it is never carried out there."""
    with tarfile.open(archive) as packed:
        had = {Path(name).relative_to("src") for name in packed.getnames() if MIGRATION.search(name)}
    schema = max(int(path.name[:4]) for path in had)
    now = {path.relative_to(SOURCE) for path in SOURCE.glob("fencepost/stores/*/migrations/*.sql")}
    assert {path for path in now if int(path.name[:4]) <= schema} == had


def assert_admitted(found: dict[str, str]) -> None:
    packed = [int(path.name.split("-")[1].split(".")[0]) for path in PACKED]
    assert packed, "an upgrade is tested with the real old program"
    assert int(found["schema"]) == newest_schema()
    assert all(int(found["schema_needs"]) <= one for one in packed), "drop what can no longer work, and say so in docs"


def test_an_old_program_is_refused_by_a_schema_that_needs_a_newer_one(now: Site, then: OldSite) -> None:
    then.configure('[agents.a]\ncommand = ["true"]\n')
    daemon = then.up("--workers", "1")
    run = then.fencepost("run", "a").split()[-1]
    then.until(lambda: then.rows("show", run)[0]["state"] == "succeeded")
    now.fencepost("store", "migrate", "--store", now.store)
    with_store(now, lambda store: set_meta(store, "schema_needs", "1000"))

    then.fencepost("runs", code=69)
    with pytest.raises(StoreUnavailable, match="needs a Fencepost that knows schema 1000; this one knows"):
        wiring.open_runtime(now.store)
    daemon.terminate()
    assert daemon.wait(30) == 0


def test_an_old_program_is_refused_by_a_packed_audit_and_one_at_work_says_so(now: Site, then: OldSite) -> None:
    then.configure('[agents.a]\ncommand = ["true"]\n')
    daemon = then.up("--workers", "1")
    now.fencepost("store", "migrate", "--store", now.store)
    with_store(now, note_and_seal)
    then.fencepost("runs")
    assert "packed 1000 entries" in now.fencepost("store", "compact", "--store", now.store)

    then.fencepost("runs", code=69)
    run = now.fencepost("run", "a", "--store", now.store).split()[-1]
    then.until(lambda: "this one knows 3. Upgrade Fencepost" in then.said())
    daemon.terminate()
    assert daemon.wait(30) == 0
    newer = now.up("--workers", "1")
    now.until(lambda: now.rows("show", run)[0]["state"] == "succeeded")
    newer.terminate()
    assert newer.wait(30) == 0
    with_store(now, note_and_seal)
    with_store(now, assert_whole)


def note_and_seal(store: RuntimeStore) -> None:
    entry = {"tenant": "default", "actor": "ada", "verb": "look", "subject": "store:here", "detail": "{}"}
    store.dialect.write(lambda tx: tx.rows("write_audit", entries=json.dumps([entry] * 2_100)))
    notary = Notary(store.audit_chain(), KEY, store.clock_us, lambda _: None)
    while notary.step():
        pass


def assert_whole(store: RuntimeStore) -> None:
    report = verify_audit(store, "default", keys={key_id(KEY): KEY})
    assert (report.faults, report.loose.entries) == ((), 0)
    assert report.entries > 4_200


def test_a_program_that_is_at_work_is_told_when_its_tables_go(now: Site) -> None:
    now.configure('[agents.a]\ncommand = ["true"]\n')

    def contract(store: RuntimeStore) -> None:
        store.dialect.write(lambda tx: raw(tx, "ALTER TABLE {}checkpoint RENAME COLUMN content TO words"))
        with pytest.raises(StoreUnavailable, match=r"no longer has what this Fencepost asks for .*Upgrade this one"):
            store.checkpoint("r1")

    with_store(now, contract)


def with_store(site: Site, work) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    store = wiring.open_runtime(site.store)
    try:
        work(store)
    finally:
        store.close()


def meta(store: RuntimeStore) -> dict[str, str]:
    return dict(store.dialect.read(lambda tx: tx.rows("all_meta")))


def set_meta(store: RuntimeStore, key: str, value: str) -> None:
    store.dialect.write(lambda tx: tx.rows("set_meta", key=key, value=value))


def raw(tx: object, text: str) -> None:
    """Do what a migration of tomorrow would."""
    connection = tx._connection  # type: ignore[attr-defined]
    connection.execute(text.format("" if "sqlite" in type(tx).__module__ else "fencepost.").encode().decode())


LOOKS = """
import sys
from fencepost import wiring
from fencepost.flow.reaper import Reaper, store_now
from fencepost.host.clock import SystemClock
from fencepost.host.processes import system_processes
store = wiring.open_runtime(sys.argv[1])
reaped = Reaper(store, store, system_processes(SystemClock()), store_now(store.clock_us)).step()
print(reaped, *(f"{held.run_id} {held.supervisor.pid}" for held in store.leases()))
"""


def test_an_old_program_leaves_a_run_alone_whose_guard_lives_whoever_keeps_it(now: Site, then: OldSite) -> None:
    now.configure('[agents.a]\ncommand = ["true"]\n')
    run_id = now.fencepost("run", "a").split()[-1]
    guard = system_processes(SystemClock()).myself()

    def keep(store: RuntimeStore) -> None:
        (run,) = store.next_runs(9)
        assert run.id == run_id
        claim = claim_for(run, lease_id="l1", supervisor=guard, guard=guard, ttl_seconds=600)
        kept = claim._replace(keeper="w1", adopt_key="k", keeper_socket="/run/k.sock")
        (leased,) = store.lease_runs([Offer(run.id, kept)], recheck_for)
        assert store.start_runs([Starting(leased.lease, leased.run)]) == {}
        adopted = store.adopt(leased.lease, keeper="w2")
        assert adopted is not None
        assert then.python("-c", LOOKS, now.store).split() == ["0", run_id, str(guard.pid)]
        ended = Ended(leased._replace(lease=adopted), Settlement(RunState.SUCCEEDED), Report("succeeded"))
        assert store.settle_runs([ended]) == {}

    with_store(now, keep)
    assert then.rows("show", run_id)[0]["state"] == "succeeded"


def test_what_an_old_program_has_leased_is_kept_by_nobody_and_settled_as_ever(now: Site, then: OldSite) -> None:
    now.configure('[agents.a]\ncommand = ["sh", "-c", "read line < hold"]\n')
    (now.folder / "hold").unlink(missing_ok=True)
    os.mkfifo(now.folder / "hold")
    then.fencepost("apply")
    daemon = then.up("--workers", "1")
    run_id = then.fencepost("run", "a").split()[-1]
    then.until(lambda: then.rows("show", run_id)[0]["state"] == "running")

    def look(store: RuntimeStore) -> None:
        (held,) = [held for held in store.leases() if held.run_id == run_id]
        assert (held.keeper, held.epoch, held.left_us) == (None, 0, None)
        assert store.adoptable(held.supervisor.host) == []

    then.until(lambda: then.rows("show", run_id)[0]["started_at"] is not None)
    with_store(now, look)
    with open(now.folder / "hold", "w") as hold:
        hold.write("go on\n")
    then.until(lambda: then.rows("show", run_id)[0]["state"] == "succeeded")
    daemon.terminate()
    assert daemon.wait(30) == 0
