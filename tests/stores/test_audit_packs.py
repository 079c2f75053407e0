"""Old entries of the audit go into packs, and every question is answered as before."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random  # noqa: TID251  # seeded: every store is made the same way again

import pytest

from fencepost import wiring
from fencepost.flow.notary import Notary
from fencepost.model.audit_chain import key_id
from fencepost.model.audit_pack import PackDamaged, PackSize, pack, unpack
from fencepost.operations import store_maintenance
from fencepost.operations.audit_verification import VerifiedAudit, export_audit, verify_audit
from fencepost.operations.run_queries import list_audit
from fencepost.service import chores
from fencepost.stores import audit_packs
from fencepost.stores.runtime import RuntimeStore
from tests.support.runtime import Runtime, open_runtime, together

KEY = b"the key that is not in the store"
SMALL = PackSize(entries=7, plain=5)
TENANTS = ("default", "other")
VERBS = ("tick", "lease", "settle", "cancel")
RUNS = [f"r{n}" for n in range(12)]
FOLDER = Path(audit_packs.__file__).parent


@pytest.fixture(params=["sqlite", "postgresql"])
def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runtime]:
    with open_runtime(request.param, tmp_path, lambda: str(request.getfixturevalue("conformance_url"))) as found:
        yield found


def write(store: RuntimeStore, entries: list[dict[str, str]]) -> None:
    store.dialect.write(lambda tx: tx.rows("write_audit", entries=json.dumps(entries)))


def entry(chance: Random, tenant: str) -> dict[str, str]:
    """Make up what somebody did: to a schedule, to a run, or to many runs at once."""
    runs = chance.sample(RUNS, 3)
    subject, detail = chance.choice(
        [
            (f"run:{runs[0]}", {"reason": 'he said "no"', "who": "naïve 🦊"}),
            ("schedule:s", {"waits": chance.random()}),
            (f"batch:l{chance.randrange(9)}", {"note": '"', "runs": runs}),
        ]
    )
    actor = chance.choice(["ada", "settler"])
    return {
        "tenant": tenant,
        "actor": actor,
        "verb": chance.choice(VERBS),
        "subject": subject,
        "detail": json.dumps(detail),
    }


def seal(store: RuntimeStore, batch: int = 1_000) -> None:
    notary = Notary(store.audit_chain(), KEY, store.clock_us, lambda _: None, batch=batch)
    while notary.step():
        pass


def fill(runtime: Runtime, chance: Random, number: int) -> None:
    """Write entries of two tenants, and seal all but the newest."""
    store = runtime.another()
    for _ in range(number // 10):
        write(store, [entry(chance, chance.choice(TENANTS)) for _ in range(10)])
        runtime.pass_time(1)
        if chance.random() < 0.5:
            seal(store, batch=chance.randrange(1, 30))
    seal(store, batch=13)
    write(store, [entry(chance, "default")])


def verify(store: RuntimeStore, tenant: str = "default") -> VerifiedAudit:
    return verify_audit(store, tenant, keys={key_id(KEY): KEY})


def answers(runtime: Runtime) -> dict[str, object]:
    """Ask everything that may be asked of the audit."""
    store, found = runtime.store, dict[str, object]()
    now_us = runtime.rig.now_us()
    for tenant in TENANTS:
        everything = list_audit(store, tenant, limit=10_000)
        found[f"all {tenant}"] = everything
        middle = everything[len(everything) // 2].seq if everything else 0
        for verb in ("", *VERBS):
            for subject in ("", "schedule:s", "run:r1", "run:nobody", "batch:l3"):
                look = store.reads(tenant).audit
                asked = f"{tenant} {verb} {subject}"
                found[f"first {asked}"] = look(verb=verb, subject=subject, limit=3)
                found[f"page {asked}"] = look(verb=verb, subject=subject, before_seq=middle, limit=5)
                found[f"then {asked}"] = look(verb=verb, subject=subject, until_us=now_us - 3_000_000, limit=4)
        found[f"verify {tenant}"] = verify(store, tenant)
        found[f"export {tenant}"] = list(export_audit(store, tenant))
        found[f"beyond {tenant}"] = [store.audit_chain().place_beyond(tenant, place) for place in (0, 9, 30, 10_000)]
    rows = runtime.rig.store.care().export(lambda snapshot: list(snapshot.rows))
    found["backup"] = sorted(json.dumps([name, row], sort_keys=True) for name, row in rows if name != "meta")
    return found


TAMPERED = [
    "",
    "UPDATE $audit SET hash = 'x' WHERE place = 11",
    "UPDATE $audit SET hash = NULL WHERE place = 12",
    "UPDATE $audit SET actor = 'eve' WHERE place = 3",
    "UPDATE $audit SET said_seq = seq + 100000 WHERE place > 9",
    "DELETE FROM $audit WHERE place = 8",
    "DELETE FROM $seal WHERE number = 2",
]


@pytest.mark.parametrize("statement", TAMPERED)
def test_every_question_is_answered_the_same_after_each_pack(runtime: Runtime, statement: str) -> None:
    fill(runtime, Random(statement), 90)
    if statement:
        runtime.sql(statement)
    before = answers(runtime)
    audit, packs = runtime.another().audit_chain(), 0
    for tenant in TENANTS:
        while audit.pack(tenant, SMALL):
            packs += 1
            if packs % 3 == 0:
                assert answers(runtime) == before

    assert packs > 3
    assert answers(runtime) == before
    assert runtime.sql("SELECT sum(entries) FROM $audit_pack")[0][0] == packs * SMALL.entries


def test_the_audit_goes_on_behind_its_packs(runtime: Runtime) -> None:
    chance = Random(1)
    for _ in range(3):
        fill(runtime, chance, 60)
        while runtime.store.audit_chain().pack("default", SMALL):
            pass
    report = verify(runtime.store)

    assert (report.good, report.faults) == (True, ())
    assert report.entries > 60


def test_what_was_changed_in_a_pack_shows_and_names_the_entry(runtime: Runtime) -> None:
    fill(runtime, Random(2), 60)
    runtime.store.audit_chain().pack("default", SMALL)
    changed = runtime.store.audit_chain().sealed(next(runtime.store.audit_chain().seals("default")))[0].entry
    ((content, hashes),) = runtime.sql("SELECT content, hashes FROM $audit_pack")
    entries = unpack(content, hashes)
    made = pack([entries[0]._replace(actor="eve"), *entries[1:]])
    runtime.sql("UPDATE $audit_pack SET content = ?", made.content)
    fault = verify(runtime.store).first("integrity")

    assert fault is not None
    assert fault.where == f"entry {changed.seq}"
    assert "by eve" in fault.what


def test_a_pack_that_cannot_be_read_is_missing_and_no_list_hides_it(runtime: Runtime) -> None:
    fill(runtime, Random(3), 60)
    runtime.store.audit_chain().pack("default", SMALL)
    runtime.sql("UPDATE $audit_pack SET content = ?", b"torn")
    report = verify(runtime.store)

    assert report.first("completeness") is not None
    assert report.first("completeness").where == "place 1"  # type: ignore[union-attr]
    with pytest.raises(PackDamaged):
        list_audit(runtime.store, "default", limit=10_000)
    with pytest.raises(PackDamaged):
        list(export_audit(runtime.store, "default"))


def test_a_pack_that_is_gone_shows_as_missing_entries(runtime: Runtime) -> None:
    fill(runtime, Random(4), 60)
    runtime.store.audit_chain().pack("default", SMALL)
    runtime.sql("DELETE FROM $audit_pack")
    fault = verify(runtime.store).first("completeness")

    assert fault is not None
    assert fault.where == "place 1"


def test_packs_of_several_compactors_hold_each_entry_once(runtime: Runtime) -> None:
    fill(runtime, Random(5), 200)
    before = answers(runtime)
    stores = [runtime.another() for _ in range(4)]

    def compact(store: RuntimeStore) -> None:
        for tenant in TENANTS:
            while store.audit_chain().pack(tenant, SMALL) is not None:
                pass

    together(compact, stores)
    assert answers(runtime) == before
    assert runtime.store.audit_chain().packable(SMALL) == {tenant: pytest.approx(3, abs=3) for tenant in TENANTS}


def test_long_entries_make_smaller_packs(runtime: Runtime) -> None:
    store = runtime.another()
    long = {**entry(Random(6), "default"), "detail": json.dumps({"runs": RUNS * 200})}
    write(store, [long] * 400)
    seal(store)
    packed = store.audit_chain().pack("default", PackSize(entries=300, letters=1_000_000, plain=5))

    assert packed == 100
    assert verify(store).good


def test_a_store_that_was_not_told_is_left_as_it_is(runtime: Runtime) -> None:
    """An older program may open it, and would take what was packed for lost."""
    store = runtime.another()
    write(store, [entry(Random(n), "default") for n in range(4_100)])
    seal(store)
    chore = chores.packing()
    chore.step(store)
    assert runtime.sql("SELECT count(*) FROM $audit_pack") == [(0,)]
    assert needs(runtime) == 1

    assert store_maintenance.compact(store, dry=True).entries == 3_100
    assert needs(runtime) == 1
    told: list[tuple[int, int]] = []
    assert store_maintenance.compact(store, progress=lambda done, of: told.append((done, of))).entries == 3_000
    assert told[:3] == [(1_000, 3_100), (2_000, 3_100), (3_000, 3_100)]
    assert needs(runtime) == audit_packs.SCHEMA

    write(store, [entry(Random(n), "default") for n in range(2_000)])
    seal(store)
    waits = [chore.step(store) for _ in range(3)]
    assert waits == [chores.PAGE_SECONDS, chores.PAGE_SECONDS, chores.PRUNE_SECONDS]
    assert runtime.sql("SELECT sum(entries) FROM $audit_pack")[0][0] == 5_000
    assert verify(store).good


def needs(runtime: Runtime) -> int:
    return int(runtime.sql("SELECT value FROM $meta WHERE key = 'schema_needs'")[0][0])


def test_the_program_that_a_packed_store_needs_is_the_one_with_the_table() -> None:
    for kind in ("sqlite", "postgres"):
        assert (FOLDER / kind / "migrations" / f"{audit_packs.SCHEMA:04d}_audit_packs.sql").exists()


def test_a_backup_of_a_packed_store_is_restored_as_plain_entries(runtime: Runtime, tmp_path: Path) -> None:
    fill(runtime, Random(7), 80)
    while runtime.store.audit_chain().pack("default", SMALL):
        pass
    before = answers(runtime)
    file = str(tmp_path / "backup")
    store_maintenance.backup(runtime.rig.store, file)
    store_maintenance.restore(runtime.rig.store, file, confirm=lambda _: True)

    assert runtime.sql("SELECT count(*) FROM $audit_pack") == [(0,)]
    after = answers(runtime)
    assert {name: one for name, one in after.items() if name != "backup"} == {
        name: one for name, one in before.items() if name != "backup"
    }


def test_a_tenant_takes_its_packed_entries_along(runtime: Runtime, tmp_path: Path) -> None:
    fill(runtime, Random(8), 80)
    while runtime.store.audit_chain().pack("other", SMALL):
        pass
    told = [one[2:] for one in list_audit(runtime.store, "other", limit=1_000)]
    file = str(tmp_path / "backup")
    store_maintenance.backup(runtime.rig.store, file, tenant="other")
    (tmp_path / "there").mkdir()
    with open_runtime("sqlite", tmp_path / "there") as there:
        there.store.audit_chain().note("default", actor="me", verb="here", subject="first", detail={})
        store_maintenance.restore(there.rig.store, file, confirm=lambda _: True, by="ada")
        seal(there.another())

        assert verify(there.store, "other").good
        moved = [one[2:] for one in list_audit(there.store, "other", limit=1_000)]
        assert sorted(moved[-len(told) :]) == sorted(told)


def test_a_compaction_that_is_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/state.db"
    store = wiring.open_runtime(url)
    write(store, [entry(Random(n), "default") for n in range(15_000)])
    seal(store)
    before, entries = verify(store), list_audit(store, "default", limit=20_000)
    kills = 0
    while not compacts_until(url, grown(store)):
        kills += 1
        assert verify(store) == before
        assert store.audit_chain().packable()["default"] % 1_000 == 0
    assert list_audit(store, "default", limit=20_000) == entries
    store.close()

    assert kills >= 3


def grown(store: RuntimeStore) -> Callable[[], bool]:
    """Return a way to ask whether there is less to pack than at first."""
    first = store.audit_chain().packable()
    return lambda: store.audit_chain().packable() != first


def compacts_until(url: str, is_time: Callable[[], bool]) -> bool:
    """Compact in a process of its own, which is killed when it is time; tell whether it came to its end before."""
    process = subprocess.Popen([sys.executable, "-m", "fencepost", "store", "compact", "--store", url])
    while process.poll() is None and not is_time():
        pass
    if process.poll() is None:
        process.kill()
    return process.wait(30) == 0
