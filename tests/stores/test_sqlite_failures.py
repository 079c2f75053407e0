"""Files that cannot be a store: one sentence each, and nothing is made worse."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from fencepost import wiring
from fencepost.model.errors import StoreUnavailable
from fencepost.model.lease import Granted
from fencepost.stores.sqlite.store import Opening, SqliteStore, check_library, make_file
from tests.stores.rig import claim, granted, open_sqlite, opening
from tests.support.clock import ManualClock

ROOT = Path(__file__).parents[2]
FULL = 2  # as SQLite counts them


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def used(path: Path) -> Path:
    """A store that was used and closed."""
    store = open_sqlite(path)
    for number in range(50):
        granted(store, f"lock:{number}")
    store.close()
    return path


def test_a_file_that_another_process_keeps_locked_is_given_up_after_a_while(path: Path) -> None:
    store = opening(path, busy_ms=50).open(new_id="lite")
    rival = apsw.Connection(str(path))
    rival.execute("BEGIN EXCLUSIVE")

    with pytest.raises(StoreUnavailable, match=r"locked by another process.* fuser"):
        store.acquire(claim("lock:a"))
    rival.execute("ROLLBACK")
    assert isinstance(store.acquire(claim("lock:a")), Granted)
    store.close()


def test_a_full_disk_changes_nothing_and_is_survived(path: Path) -> None:
    store = open_sqlite(path)
    lease = granted(store, "lock:kept")
    pages = limit_pages(store, 0)
    with pytest.raises(StoreUnavailable, match="full; nothing was changed"):
        fill(store, "before")
    store.renew(lease)

    limit_pages(store, pages * 100)
    fill(store, "after", times=5)
    assert store._sqlite._connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    store.close()


def test_a_disk_that_fills_up_at_any_point_is_one_sentence_each(tmp_path: Path) -> None:
    in_private_mounts("mount -t tmpfs -o size=4m none $1", tmp_path, FILL_THE_DISK)


FILL_THE_DISK = """
import os, sys
from fencepost import wiring
from fencepost.model.errors import StoreUnavailable
from tests.stores.rig import granted, open_sqlite
folder = sys.argv[1]
path, ballast = f"{folder}/state.db", f"{folder}/ballast"
done, refused = 0, 0
for pages_left in [*range(16), 64, 512]:
    free = os.statvfs(folder).f_bavail
    with open(ballast, "wb") as file:
        file.write(bytes(max(0, free - pages_left) * 4096))
    try:
        store = open_sqlite(path)
    except StoreUnavailable:
        refused += 1
        continue
    for number in range(3):
        try:
            granted(store, f"lock:{pages_left}-{number}")
            done += 1
        except StoreUnavailable:
            refused += 1
    os.truncate(ballast, 0)
    store.close()
os.truncate(ballast, 0)
store = open_sqlite(path)
granted(store, "lock:after")
assert store._sqlite._connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
assert refused > 3 and done > 3, (refused, done)
assert len(store.leases()) == done + 1
"""


def test_a_folder_that_is_read_only_is_one_sentence(used: Path) -> None:
    in_private_mounts("mount --bind $1 $1 && mount -o remount,ro,bind $1", used.parent, EXPECT_READ_ONLY)


def test_a_new_store_in_a_folder_that_is_read_only_is_one_sentence(tmp_path: Path) -> None:
    in_private_mounts("mount --bind $1 $1 && mount -o remount,ro,bind $1", tmp_path, EXPECT_READ_ONLY)


def test_a_file_that_is_read_only_is_one_sentence(used: Path) -> None:
    mount = "mount --bind $1/state.db $1/state.db && mount -o remount,ro,bind $1/state.db"
    in_private_mounts(mount, used.parent, EXPECT_READ_ONLY)


EXPECT_READ_ONLY = """
import sys
from fencepost import wiring
from fencepost.model.errors import StoreUnavailable
from tests.stores.rig import granted, open_sqlite
try:
    store = open_sqlite(f"{sys.argv[1]}/state.db")
    granted(store, "lock:new")
except StoreUnavailable as error:
    sentence = str(error).lower()
    assert "read-only" in sentence and "state.db" in sentence, sentence
else:
    raise AssertionError("a read-only store was used")
"""

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "corrupt pages": lambda data: data[:4096] + b"\xa5" * (len(data) - 4096),
    "truncated": lambda data: data[: len(data) // 2],
    "not a database": lambda _: b"Dear diary, " * 1000,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_with_the_way_out_and_is_not_overwritten(used: Path, damage: str) -> None:
    used.write_bytes(DAMAGES[damage](used.read_bytes()))
    before = used.read_bytes()

    with pytest.raises(StoreUnavailable, match=rf"{used}.*store restore"):
        use(used)
    assert used.read_bytes() == before


def test_an_empty_file_is_a_new_store(path: Path) -> None:
    path.touch(0o600)

    use(path)


def test_another_program_s_database_is_left_alone(path: Path) -> None:
    theirs = apsw.Connection(str(path))
    theirs.execute("CREATE TABLE theirs (id)")
    theirs.close()

    with pytest.raises(StoreUnavailable, match="another program's database"):
        use(path)
    assert apsw.Connection(str(path)).execute("SELECT name FROM sqlite_schema").fetchall() == [("theirs",)]


@pytest.mark.parametrize("name", ["state.db", "state.db-wal"])
@pytest.mark.parametrize("fate", ["deleted", "moved", "replaced"])
def test_a_file_that_is_taken_away_while_in_use_is_noticed(path: Path, name: str, fate: str) -> None:
    store = open_sqlite(path)
    lease = granted(store, "lock:a")
    victim = path.with_name(name)
    match fate:
        case "deleted":
            victim.unlink()
        case "moved":
            victim.rename(path.with_name("elsewhere"))
        case _:
            shutil.copy(victim, path.with_name("double"))
            path.with_name("double").rename(victim)

    for verb in (lambda: store.renew(lease), store.leases, lambda: store.acquire(claim("lock:b"))):
        with pytest.raises(StoreUnavailable, match="moved, deleted or replaced"):
            verb()
    store.close()


def test_a_commit_means_disk(path: Path) -> None:
    durable = wiring.open_store(f"sqlite:{path}")
    assert isinstance(durable, SqliteStore)
    assert _setting(durable, "synchronous") == FULL
    assert _setting(durable, "fullfsync") == 1
    durable.close()


def _setting(store: SqliteStore, name: str) -> int:
    ((found,),) = store._sqlite._connection.execute(f"PRAGMA {name}").fetchall()
    return int(str(found))


def test_a_network_file_system_is_refused(path: Path) -> None:
    remote = Opening(str(path), clock=ManualClock(), boot="boot", network_kind=lambda _: "nfs4")

    with pytest.raises(StoreUnavailable, match=r"network file system \(nfs4\).*postgresql"):
        remote.open(new_id="lite")
    assert not path.exists()


def test_a_directory_is_no_store_and_nobody_is_told_to_change_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)

    with pytest.raises(
        StoreUnavailable, match=f"is a directory; name a file in it, such as sqlite:{tmp_path}/state.db"
    ):
        make_file(str(tmp_path))


@pytest.mark.parametrize("mode", [0o666, 0o620])
def test_a_file_that_others_may_change_is_refused(used: Path, mode: int) -> None:
    used.chmod(mode)

    with pytest.raises(StoreUnavailable, match="chmod 600"):
        use(used)


def test_a_new_store_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "state.db"
    old = os.umask(0)
    try:
        use(path)
    finally:
        os.umask(old)

    modes = {entry.name: entry.stat().st_mode & 0o777 for entry in path.parent.iterdir()}
    assert set(modes.values()) == {0o600}, modes
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_folder_in_which_everybody_may_replace_files_is_refused_unless_it_is_sticky(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(StoreUnavailable, match="chmod o-w"):
        use(folder / "state.db")
    folder.chmod(0o1777)
    use(folder / "state.db")


def test_a_planted_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path.with_name("state.db.fence").symlink_to(victim)

    with pytest.raises(StoreUnavailable):
        use(path)
    assert victim.read_text() == "precious"


def test_a_schema_that_needs_a_newer_program_is_refused(used: Path) -> None:
    set_meta(used, schema="99", schema_needs="99")

    with pytest.raises(StoreUnavailable, match="needs a Fencepost that knows schema 99"):
        use(used)


def test_a_newer_schema_that_old_programs_can_work_with_is_used(used: Path) -> None:
    set_meta(used, schema="99", schema_needs="1")

    use(used)


def test_a_library_that_can_corrupt_shared_files_is_refused() -> None:
    check_library("3.51.3")
    with pytest.raises(StoreUnavailable, match=r"3\.40\.1 can corrupt"):
        check_library("3.40.1")


def use(path: Path) -> None:
    store = open_sqlite(path)
    try:
        granted(store, "lock:new")
    finally:
        store.close()


def fill(store: SqliteStore, name: str, *, times: int = 10_000) -> None:
    for number in range(times):
        granted(store, f"lock:{name}-{number}-{'x' * 400}")


def limit_pages(store: SqliteStore, limit: int) -> int:
    """Let the file have only so many pages, or as many as it has; return the limit."""
    ((found,),) = store._sqlite._connection.execute(f"PRAGMA max_page_count = {limit or 1}").fetchall()
    return int(str(found))


def set_meta(path: Path, **values: str) -> None:
    connection = apsw.Connection(str(path))
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(values.items()))
    connection.close()


def in_private_mounts(mount: str, folder: Path, script: str) -> None:
    """Run a script with the folder as its argument, after a mount that nobody else sees; skip where that is forbidden."""
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this host allows no private mounts")
    command = [*unshare, "sh", "-c", f'{mount} && exec "$2" -c "$3" "$1"', "sh", str(folder), sys.executable, script]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
