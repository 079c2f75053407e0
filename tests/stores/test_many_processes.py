"""Real processes that start together on a store that does not exist yet."""

import subprocess
import sys
from pathlib import Path

import pytest

PROCESSES = 8
GRANTS_EACH = 6

WORKER = """
import os, sys, time
from fencepost.host.clock import SystemClock
from fencepost.model.errors import StoreUnavailable
from fencepost.model.lease import Granted
from tests.stores.rig import claim
url, log, count = sys.argv[1], os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND), int(sys.argv[3])
if url.startswith("sqlite:"):
    from fencepost.stores.sqlite.store import Opening
    opening = Opening(url[7:], clock=SystemClock(), boot="boot", network_kind=lambda _: None, busy_ms=120_000)
    store = opening.open(new_id=str(os.getpid()))
else:
    from fencepost.stores.postgres.store import open_store
    store = open_store(url, new_id=str(os.getpid()), allow_lossy=True)
def patiently(ask):
    # A server whose locks are held for long, by processes that wait for a processor, says so after six seconds.
    for _ in range(20):
        try:
            return ask()
        except StoreUnavailable:
            time.sleep(0.1)
    return ask()
for turn in range(count):
    wanted = claim("lock:a", id=f"{os.getpid()}-{turn}", ttl=600.0)
    while not isinstance(answer := patiently(lambda: store.acquire(wanted)), Granted):
        time.sleep(0.003)
    os.write(log, f"enter {answer.lease.fence}\\n".encode())
    os.write(log, f"leave {answer.lease.fence}\\n".encode())
    patiently(lambda: store.release(answer.lease, clean=True))
print(store.facts().id)
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_processes_that_start_together_share_one_store_and_never_hold_together(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    url = request.getfixturevalue("postgres_url") if kind == "postgresql" else f"sqlite:{tmp_path}/new/state.db"
    log = tmp_path / "log"
    log.touch()
    command = [sys.executable, "-c", WORKER, url, str(log), str(GRANTS_EACH)]
    root = Path(__file__).parents[2]
    workers = [
        subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    answers = [worker.communicate(timeout=180) for worker in workers]

    assert [error for _, error in answers if error] == []
    assert len({store_id for store_id, _ in answers}) == 1
    lines = log.read_text().splitlines()
    fences = [int(line.split()[1]) for line in lines[::2]]
    assert lines == [f"{verb} {fence}" for fence in fences for verb in ("enter", "leave")]
    assert len(fences) == PROCESSES * GRANTS_EACH
    assert fences == sorted(set(fences))
