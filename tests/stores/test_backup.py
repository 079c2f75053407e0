"""Taking a store away in one file and putting it back, on either kind, also on the other one."""

import hashlib
import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from fencepost.model.errors import Invalid, LeaseLost, StoreUnavailable
from fencepost.model.gate import FLOOR_MAX
from fencepost.model.lease import Granted, Lease
from fencepost.operations import store_maintenance
from fencepost.stores.postgres.store import open_store
from tests.stores.rig import AnyStore, Rig, claim, everything, granted, open_sqlite
from tests.support.clock import ManualClock

HOUR = 3600


def yes(_url: str) -> bool:
    return True


def no(_url: str) -> bool:
    return False


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "fencepost.backup"


@pytest.fixture(params=["sqlite", "postgresql"])
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], AnyStore]]:
    """A way into another, empty store."""
    opened: list[AnyStore] = []
    clock = ManualClock()

    def open_it() -> AnyStore:
        opened.append(
            open_store(request.getfixturevalue("postgres_url"), new_id="elsewhere", allow_lossy=True)
            if request.param == "postgresql"
            else open_sqlite(tmp_path / "elsewhere.db", clock, new_id="elsewhere")
        )
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


def test_a_backup_moves_to_either_kind_of_store(rig: Rig, file: Path, elsewhere: Callable[[], AnyStore]) -> None:
    held = granted(rig.store, "lock:é'🦊", "project:p", gates=("file:x",))
    ended = granted(rig.store, "lock:ended", gates=("file:y",))
    rig.store.start(ended)
    rig.store.release(ended, clean=True)
    rig.store.enqueue(claim("lock:é'🦊"), "ticket")

    backed_up = store_maintenance.backup(rig.store, str(file))
    restored = store_maintenance.restore(elsewhere(), str(file), confirm=no)

    store = elsewhere()
    assert store.facts().id == restored.store == backed_up.store == held.store
    assert restored.rows == backed_up.rows >= 5
    assert store.waiters() == []
    assert [(one.id, one.lost) for one in store.leases()] == [(held.id, True)]
    answer = store.acquire(claim("lock:é'🦊"))
    assert isinstance(answer, Granted)
    assert [one.id for one in answer.predecessors] == [held.id]
    assert answer.lease.gates == ("file:x",)
    assert answer.lease.fence > restored.floor >= held.fence
    assert granted(store, "lock:ended").gates == ()


def test_a_live_holder_finds_out_at_its_next_renewal(rig: Rig, file: Path) -> None:
    lease = granted(rig.store, "lock:a")
    store_maintenance.backup(rig.store, str(file))
    store_maintenance.restore(rig.store, str(file), confirm=yes)

    with pytest.raises(LeaseLost):
        rig.store.renew(lease)
    assert [(one.id, one.lost) for one in rig.store.leases()] == [(lease.id, True)]


def test_no_fence_is_given_out_twice_although_the_clock_went_back(rig: Rig, file: Path) -> None:
    store_maintenance.backup(rig.store, str(file))
    seen = [granted(rig.store, f"lock:{number}") for number in range(3)]
    rig.step_wall(-HOUR)
    restored = store_maintenance.restore(rig.store, str(file), confirm=yes)

    assert restored.floor >= max(lease.fence for lease in seen)
    assert granted(rig.open_another(), "lock:new").fence > restored.floor


def test_fences_go_on_above_the_backup_s_when_it_knows_of_higher_ones(rig: Rig, file: Path, tmp_path: Path) -> None:
    floor = rig.store.bump(rig.now_us() + 10**12)
    store_maintenance.backup(rig.store, str(file))
    target = open_sqlite(tmp_path / "new.db", new_id="new")
    store_maintenance.restore(target, str(file), confirm=no)
    target.close()

    store = open_sqlite(tmp_path / "new.db")
    assert granted(store, "lock:b").fence > floor
    assert store.facts().notices == ()
    store.close()


def test_what_happened_since_the_backup_is_named(rig: Rig, file: Path) -> None:
    store_maintenance.backup(rig.store, str(file))
    rig.pass_time(HOUR)
    restored = store_maintenance.restore(rig.store, str(file), confirm=yes)

    assert (restored.lost_until - restored.lost_from).total_seconds() == HOUR


def test_gates_that_were_owed_at_either_time_stay_owed(rig: Rig, file: Path) -> None:
    first = granted(rig.store, "lock:a", gates=("file:then",))
    store_maintenance.backup(rig.store, str(file))
    rig.store.start(first)
    rig.store.release(first, clean=True)
    granted(rig.store, "lock:a", gates=("file:now",))
    store_maintenance.restore(rig.store, str(file), confirm=yes)

    assert set(granted(rig.open_another(), "lock:a").gates) == {"file:then", "file:now"}


def test_a_store_that_was_restored_under_somebody_is_opened_anew_before_it_grants(rig: Rig, file: Path) -> None:
    other = open_sqlite(file.parent / "other.db", new_id="other")
    store_maintenance.backup(other, str(file))
    other.close()
    bystander = rig.open_another()
    store_maintenance.restore(rig.store, str(file), confirm=yes)

    with pytest.raises(StoreUnavailable, match="restored"):
        bystander.acquire(claim("lock:a"))
    if rig.kind == "postgresql":
        put_the_id_back(rig)


def test_a_store_that_is_not_empty_is_replaced_only_when_confirmed(rig: Rig, file: Path) -> None:
    store_maintenance.backup(rig.store, str(file))
    store_maintenance.restore(rig.store, str(file), confirm=no)
    granted(rig.store, "lock:a")
    before = rig.contents()

    with pytest.raises(Invalid, match="--yes"):
        store_maintenance.restore(rig.store, str(file), confirm=no)
    assert rig.contents() == before


def test_a_backup_is_for_its_owner_only_and_leaves_no_draft(rig: Rig, file: Path) -> None:
    store_maintenance.backup(rig.store, str(file))

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [entry.name for entry in file.parent.iterdir() if "tmp" in entry.name] == []


def test_a_backup_replaces_an_older_one_as_a_whole_or_not_at_all(
    rig: Rig, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_maintenance.backup(rig.store, str(file))
    before = file.read_bytes()

    def fail(_rows: int) -> None:
        raise KeyboardInterrupt

    granted(rig.store, "lock:a")
    monkeypatch.setattr("fencepost.stores.backup.PROGRESS_EVERY", 1)
    with pytest.raises(KeyboardInterrupt):
        store_maintenance.backup(rig.store, str(file), progress=fail)
    assert file.read_bytes() == before
    assert not list(file.parent.glob("*.tmp"))


def test_a_backup_is_one_state_although_others_go_on(rig: Rig, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = rig.open_another()
    leases: list[Lease] = [granted(rig.store, "lock:a")]

    def meanwhile(_rows: int) -> None:
        leases.append(granted(other, f"lock:{len(leases)}"))

    monkeypatch.setattr("fencepost.stores.backup.PROGRESS_EVERY", 1)
    store_maintenance.backup(rig.store, str(file), progress=meanwhile)

    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(leases) > 2
    assert [line["row"]["id"] for line in lines if line.get("table") == "lease"] == [leases[0].id]


def test_a_backup_that_cannot_be_written_is_one_sentence(rig: Rig, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="could not be written: No such file"):
        store_maintenance.backup(rig.store, str(tmp_path / "missing" / "file"))


def test_every_table_is_in_the_backup_and_has_the_same_columns_in_both_stores(
    tmp_path: Path, postgres_url: str
) -> None:
    lite, many = open_sqlite(tmp_path / "lite.db"), open_store(postgres_url, new_id="many", allow_lossy=True)
    many.close()
    with psycopg.connect(postgres_url) as connection:
        query = (
            "SELECT table_name, column_name FROM information_schema.columns JOIN information_schema.tables "
            "USING (table_schema, table_name) WHERE table_schema = 'fencepost' AND table_type = 'BASE TABLE'"
        )
        of_postgres = set(connection.execute(query))
    of_sqlite = set(lite._dialect.read(lambda tx: tx.rows("meta", key="schema") and columns_of(tx)))
    lite.close()

    pairs = {("lease", "expires"), ("waiter", "stale"), ("workplace", "stale")}
    assert of_sqlite - of_postgres == {(table, f"{what}_{unit}") for table, what in pairs for unit in ("boot", "ns")}
    # The queue's own tables are made anew from the runs by triggers, which `kept` is for.
    derived = {(table, column) for table, column in of_postgres if table in ("ready", "running", "served", "dead")}
    assert of_postgres - of_sqlite - derived == {(table, f"{what}_us") for table, what in pairs} | {("run", "kept")}


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut off in a line": lambda data: data[: len(data) // 2],
    "cut off at a line": lambda data: b"".join(data.splitlines(keepends=True)[:-1]),
    "without its last row": lambda data: b"".join(
        line for n, line in enumerate(data.splitlines(keepends=True), 1) if n != 3
    ),
    "one byte changed": lambda data: data.replace(b"lock:a", b"lock:b", 1),
    "something after its end": lambda data: data + b"{}\n",
    "empty": lambda _: b"",
    "something else": lambda _: b"hello\n",
    "another program's JSON": lambda _: b'{"a": 1}\n',
    "header without a store": lambda data: data.replace(b'"store_id"', b'"stor_eid"', 1),
    "binary": lambda _: b"\x00\xff" * 100,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_backup_changes_nothing(rig: Rig, file: Path, damage: str) -> None:
    granted(rig.store, "lock:a")
    store_maintenance.backup(rig.store, str(file))
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    before = everything(rig.store)

    with pytest.raises(Invalid):
        store_maintenance.restore(rig.store, str(file), confirm=yes)
    assert everything(rig.store) == before


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"schema": 99}, "has schema 99, this Fencepost knows"),
        ({"fencepost_backup": 3}, "written by a newer Fencepost"),
    ],
)
def test_a_backup_of_a_newer_fencepost_is_refused(
    rig: Rig, file: Path, change: dict[str, object], sentence: str
) -> None:
    store_maintenance.backup(rig.store, str(file))
    rewrite(file, header=change)

    with pytest.raises(Invalid, match=sentence):
        store_maintenance.restore(rig.store, str(file), confirm=yes)


@pytest.mark.parametrize("row", [{"table": "nonsense", "row": {"a": 1}}, {"table": "schedule", "row": {"a": 1}}])
def test_a_row_that_has_no_place_rolls_the_restore_back(rig: Rig, file: Path, row: dict[str, object]) -> None:
    lease = granted(rig.store, "lock:a")
    store_maintenance.backup(rig.store, str(file))
    rewrite(file, extra=row)

    with pytest.raises(Invalid):
        store_maintenance.restore(rig.store, str(file), confirm=yes)
    rig.store.renew(lease)


def test_a_missing_backup_is_one_sentence(rig: Rig, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be read: No such file"):
        store_maintenance.restore(rig.store, str(tmp_path / "nothing"), confirm=yes)


def test_a_bump_without_a_number_is_above_everything_so_far(rig: Rig) -> None:
    fence = granted(rig.store, "lock:a").fence
    rig.step_wall(-HOUR)

    assert store_maintenance.bump(rig.store) >= fence
    assert store_maintenance.bump(rig.store, to=fence + 10**9) == fence + 10**9
    with pytest.raises(Invalid, match="floor"):
        store_maintenance.bump(rig.store, to=FLOOR_MAX + 1)


def rewrite(file: Path, *, header: dict[str, object] | None = None, extra: dict[str, object] | None = None) -> None:
    """Change a backup and make its checksum right again, as a tinkerer would."""
    first, *rows, _ = [json.loads(line) for line in file.read_text().splitlines()]
    rows += [extra] if extra else []
    body = "".join(json.dumps(line) + "\n" for line in [first | (header or {}), *rows]).encode()
    footer = {"rows": len(rows), "sha256": hashlib.sha256(body).hexdigest()}
    file.write_bytes(body + json.dumps(footer).encode() + b"\n")


def columns_of(tx: object) -> list[tuple[str, str]]:
    tables = tx.tables()  # type: ignore[attr-defined]
    return [(name, column) for name in tables.names() for column in tables._columns(name)]


def put_the_id_back(rig: Rig) -> None:
    rig.store._dialect.write(lambda tx: tx.rows("set_meta", key="store_id", value="conformance"))
