"""Real servers for cells: each is started when the first test asks for it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cells.grounds import KINDS, ONCE, CellGround, LeaseDoor, Machines, ground_of

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
    with LeaseDoor.running(tmp_path_factory.mktemp("lease-door")) as door:
        yield door


@pytest.fixture(params=KINDS)
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CellGround]:
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
