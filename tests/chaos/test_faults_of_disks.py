"""Faults of disks: logs that cannot be kept, a reader that keeps the write-ahead log from being cleared."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from fencepost import wiring
from tests.support.site import Site

ROOT = Path(__file__).parents[2]
TURNS = 600  # the log is moved into the file a dozen times
LOGS_FULL = """
import os, sys
from pathlib import Path
from tests.support.site import Site
site = Site(Path(sys.argv[1]))
site.configure("[agents.loud]\\ncommand = ['sh', '-c', 'head -c 3000000 /dev/zero; touch done']\\n")
site.up("--workers", "1")
try:
    site.fencepost("run", "loud")
    site.until(lambda: site.runs(state="succeeded"))
    assert (site.folder / "done").exists()
    assert "bytes of its output could not be kept: No space left on device" in site.said(), site.said()
    (run,) = site.runs()
    assert site.fencepost("prove", "--json").strip()
finally:
    site.close()
"""


def test_a_full_disk_of_logs_costs_output_and_an_alarm_but_neither_the_run_nor_the_store(tmp_path: Path) -> None:
    """F21: the logs are on a disk of their own, of one megabyte."""
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this host allows no private mounts")
    logs = tmp_path / "state/fencepost/logs"
    logs.mkdir(parents=True, mode=0o700)
    mount = 'mount -t tmpfs -o size=1m,mode=700 none "$2" && exec "$3" -c "$4" "$1"'
    command = [*unshare, "sh", "-c", mount, "sh", str(tmp_path), str(logs), sys.executable, LOGS_FULL]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, timeout=120)

    assert done.returncode == 0, done.stderr


def test_a_reader_who_looks_all_the_time_does_not_let_the_write_ahead_log_grow_without_bound(memory_path: Path) -> None:
    """F60: our own readers let go after each look; one that does not costs the file's size and nothing else."""
    site = Site(memory_path)
    site.configure("[agents.none]\ncommand = ['true']\n")
    path = Path(site.store.removeprefix("sqlite:"))
    reader, writer = wiring.open_runtime(site.store), wiring.open_runtime(site.store)
    wal = path.with_name(f"{path.name}-wal")
    try:
        sizes = []
        for turn in range(TURNS):
            writer.registry().halt("default", note=str(turn), actor="test")
            writer.registry().unhalt("default", actor="test")
            reader.runs(tenant="default", limit=10)
            sizes.append(wal.stat().st_size)
    finally:
        reader.close()
        writer.close()

    assert max(sizes) < 20_000_000
    assert max(sizes[TURNS // 2 :]) <= 2 * max(sizes[: TURNS // 2])


def test_a_stranger_who_holds_a_read_open_stops_nobody(memory_path: Path) -> None:
    """F60: the log cannot be cleared meanwhile; it is as soon as the reader has gone."""
    site = Site(memory_path)
    site.configure("[agents.none]\ncommand = ['true']\n")
    path = Path(site.store.removeprefix("sqlite:"))
    wal = path.with_name(f"{path.name}-wal")
    stranger = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    stranger.execute("BEGIN")
    stranger.execute("SELECT count(*) FROM run").fetchall()
    writer = wiring.open_runtime(site.store)
    try:
        for turn in range(300):
            writer.registry().halt("default", note=str(turn), actor="test")
            writer.registry().unhalt("default", actor="test")
        held = wal.stat().st_size
        stranger.execute("COMMIT")
        stranger.close()
        for turn in range(300):
            writer.registry().halt("default", note=str(turn), actor="test")
            writer.registry().unhalt("default", actor="test")
        assert wal.stat().st_size <= held + 5_000_000
    finally:
        writer.close()
