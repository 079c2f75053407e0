"""An SQLite file that goes back in time, and a host that boots again."""

import shutil
from pathlib import Path
from zlib import crc32

import pytest

from fencepost.model.lease import Granted, Refused
from fencepost.stores.sqlite.copy import Copied, FenceCopy
from fencepost.stores.sqlite.store import catch_up
from fencepost.stores.transaction import Transaction
from tests.stores.rig import SqliteRig, claim, granted, open_sqlite, sqlite_rig
from tests.support.clock import ManualClock

HOUR = 3600


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def test_a_file_restored_from_yesterday_is_noticed_and_its_fences_go_on_above(path: Path) -> None:
    clock = ManualClock()
    store = open_sqlite(path, clock)
    granted(store, "lock:a")
    store.close()
    shutil.copy(path, path.with_name("yesterday"))

    store = open_sqlite(path, clock)
    granted(store, "lock:b")
    newest = granted(store, "lock:c")
    store.close()
    shutil.copy(path.with_name("yesterday"), path)
    clock.wall -= HOUR * 1_000_000

    store = open_sqlite(path, clock)
    (notice,) = store.facts().notices
    assert "older than the fences" in notice
    assert granted(store, "lock:d").fence > newest.fence
    store.close()

    store = open_sqlite(path, clock)
    assert store.facts().notices == ()
    store.close()


def test_a_file_that_lacks_only_the_very_last_grant_does_not_repeat_its_fence(path: Path) -> None:
    clock = ManualClock()
    store = open_sqlite(path, clock)
    granted(store, "lock:a")
    store.close()
    shutil.copy(path, path.with_name("before"))
    store = open_sqlite(path, clock)
    newest = granted(store, "lock:b")
    store.close()
    shutil.copy(path.with_name("before"), path)

    store = open_sqlite(path, clock)
    assert granted(store, "lock:b").fence > newest.fence
    store.close()


def test_a_deleted_file_goes_on_as_the_same_store_above_its_fences_and_says_so(path: Path) -> None:
    clock = ManualClock()
    store = open_sqlite(path, clock, new_id="first")
    newest = granted(store, "lock:a")
    store.close()
    path.unlink()
    clock.wall -= HOUR * 1_000_000

    store = open_sqlite(path, clock, new_id="second")
    assert store.facts().id == "first"
    assert len(store.facts().notices) == 1
    assert granted(store, "lock:a").fence > newest.fence
    store.close()


def test_a_crash_between_the_copy_and_the_commit_raises_no_alarm(path: Path) -> None:
    store = open_sqlite(path)
    lease = granted(store, "lock:a")

    def crash(tx: Transaction) -> None:
        tx.remember(lease.fence + 100)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store._dialect.write(crash)
    store.close()

    store = open_sqlite(path)
    assert store.facts().notices == ()
    store.close()


def test_a_grant_during_somebody_s_opening_raises_no_alarm(path: Path) -> None:
    """The meta table is read before the copy: a grant between the two must not look like a file from yesterday."""
    clock = ManualClock()
    other = open_sqlite(path, clock)
    store = open_sqlite(path, clock)
    before = {"store_id": "lite", "fence_high": "0"}
    for number in range(3):
        granted(other, f"lock:{number}")

    assert catch_up(store._sqlite, FenceCopy(str(path)), before) == ()
    store.close()
    other.close()


@pytest.mark.parametrize("content", [b"", b"nonsense", b"v1 lite 1 2 00000000\n", b"v9 a b c d e f\n", b"\xff" * 256])
def test_a_copy_that_cannot_be_read_is_written_anew_with_the_next_grant(path: Path, content: bytes) -> None:
    store = open_sqlite(path)
    granted(store, "lock:a")
    store.close()
    copy = path.with_name("state.db.fence")
    copy.write_bytes(content)

    store = open_sqlite(path)
    assert store.facts().notices == ()
    lease = granted(store, "lock:b")
    assert FenceCopy(str(path)).read() == Copied("lite", lease.fence - 1, lease.fence)
    store.close()


@pytest.mark.parametrize("store", ["", "lite", "0123456789abcdef", "ÿ" * 40])
def test_the_copy_is_checked_by_the_sum_that_every_earlier_program_wrote(path: Path, store: str) -> None:
    copy = FenceCopy(str(path))
    copy.write(Copied(store, 1_794_974_419_150_000, 1_794_974_419_150_001))
    copy.close()

    line, _, checksum = path.with_name("state.db.fence").read_text().rstrip().rpartition(" ")
    assert checksum == f"{crc32(line.encode()):08x}"


def test_a_copy_that_was_deleted_under_us_is_written_anew(path: Path) -> None:
    store = open_sqlite(path)
    granted(store, "lock:a")
    path.with_name("state.db.fence").unlink()
    lease = granted(store, "lock:b")

    copied = FenceCopy(str(path)).read()
    assert copied
    assert copied.pending == lease.fence
    store.close()


def test_a_boot_voids_every_lease_and_every_place_in_the_queue(path: Path) -> None:
    clock = ManualClock()
    store = open_sqlite(path, clock)
    granted(store, "lock:a", ttl=HOUR)
    store.enqueue(claim("lock:a"), "ticket")
    store.close()
    clock.awake = 0

    store = open_sqlite(path, clock, boot="boot-2")
    assert isinstance(store.acquire(claim("lock:a")), Granted)
    store.close()


def test_time_asleep_does_not_count(tmp_path: Path) -> None:
    with sqlite_rig(tmp_path) as rig:
        granted(rig.store, "lock:a")
        sleep(rig, hours=8)

        assert isinstance(rig.store.acquire(claim("lock:a")), Refused)


def sleep(rig: SqliteRig, *, hours: float) -> None:
    rig.step_wall(hours * HOUR)
