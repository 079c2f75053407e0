"""Real servers for cells: each is started when the first test asks for it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from fencepost.wiring import open_store
from tests.cells.grounds import KINDS, ONCE, Ground, LeaseDoor, Machines, ground_of
from tests.support.scratch import free_port, wait_until

if TYPE_CHECKING:
    from tests.support.etcd import EtcdServer
    from tests.support.sshd import SshServer

# ruff: noqa: PLC0415  # imported where they are needed


@pytest.fixture(scope="session")
def ssh_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SshServer"]:
    from tests.support.sshd import SshServer

    with SshServer.running(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(scope="session")
def etcd_server() -> Iterator["EtcdServer"]:
    from tests.support.etcd import EtcdServer

    with EtcdServer.running() as server:
        yield server


@pytest.fixture(scope="session")
def lease_door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LeaseDoor]:
    """The web door of another Fencepost."""
    folder = tmp_path_factory.mktemp("lease-door")
    store = f"sqlite:{folder}/state.db"
    open_store(store).close()
    port = free_port()
    words = [sys.executable, "-m", "fencepost", "web", "--port", str(port), "--store", store]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(words, cwd=folder, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_until(lambda: _is_served(port), what=f"the web door answers at port {port}", seconds=60)
        yield LeaseDoor(f"http://127.0.0.1:{port}", store)
    finally:
        process.terminate()
        process.wait(timeout=60)


def _is_served(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.fixture(params=KINDS)
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    """An empty place for cells, on a server of each kind."""
    with ground_of(request.param, tmp_path, request.getfixturevalue) as found:
        yield found


@pytest.fixture(params=ONCE)
def machines(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machines]:
    """Machines at one store of each kind."""
    with ground_of(request.param, tmp_path, request.getfixturevalue) as found:
        made = Machines(found, tmp_path)
        yield made
        made.close()
