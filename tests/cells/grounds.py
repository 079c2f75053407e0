"""A real server of each kind that cells can be kept in, and machines that share it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from fencepost.cells.local_memory import MemoryFolder, StoreMemory
from fencepost.cells.opening import open_cell_store
from fencepost.cells.store import CellStore, Here
from fencepost.model.access import Role
from fencepost.model.lease import Claim, Granted, Lease
from fencepost.model.process import Host, ProcessId
from fencepost.operations.web_keys import create_key
from fencepost.ports.cells import Cells
from fencepost.stores.runtime import RuntimeStore
from fencepost.wiring import open_store
from fencepost.wiring.cell_stores import open_cells
from tests.support.clock import ManualClock
from tests.support.s3 import CREDENTIALS
from tests.support.scratch import free_port, wait_until

KINDS = ("git", "git-ssh", "s3", "redis", "etcd", "http")
ONCE = tuple(kind for kind in KINDS if kind != "git-ssh")  # the same code as git's, at ten times the price
_numbers = count(1)
Asked = Callable[[str], Any]  # for a fixture by its name


class CellGround:
    """A place for cells that nobody else uses, and what a program must know to get there."""

    def __init__(self, kind: str, url: str, environment: dict[str, str] | None = None) -> None:
        self.kind = kind
        self.url = url
        self.environment = environment or {}

    def cells(self) -> Cells:
        return open_cells(self.url)


@contextmanager
def ground_of(kind: str, folder: Path, ask: Asked) -> Iterator[CellGround]:
    """Prepare a place on a server of this kind, with its credentials in our environment."""
    ground = _MAKERS[kind](folder, ask)
    before = {name: os.environ.get(name) for name in ground.environment}
    os.environ.update(ground.environment)
    try:
        yield ground
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _repository(folder: Path) -> Path:
    path = folder / f"site-{next(_numbers)}.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(path)], check=True)
    return path


def _git(folder: Path, _: Asked) -> CellGround:
    return CellGround("git", f"git+file://{_repository(folder)}")


def _git_ssh(folder: Path, ask: Asked) -> CellGround:
    server = ask("ssh_server")
    return CellGround("git-ssh", server.url(_repository(folder)), {"GIT_SSH_COMMAND": server.command})


def _s3(_: Path, ask: Asked) -> CellGround:
    server = ask("s3_server")
    url = f"s3://{server.new_bucket()}/leases?endpoint_url={server.endpoint}"
    return CellGround("s3", url, dict(CREDENTIALS))


def _redis(_: Path, ask: Asked) -> CellGround:
    server = ask("redis_server")
    server.client().flushall()
    return CellGround("redis", server.url)


def _etcd(_: Path, ask: Asked) -> CellGround:
    return CellGround("etcd", ask("etcd_server").url(f"test-{os.getpid()}-{next(_numbers)}"))


def _http(_: Path, ask: Asked) -> CellGround:
    door = ask("lease_door")
    key = door.new_key(f"tenant-{next(_numbers)}")
    return CellGround("http", door.url, {"FENCEPOST_STORE_KEY": key})


_MAKERS: dict[str, Callable[[Path, Asked], CellGround]] = {
    "git": _git,
    "git-ssh": _git_ssh,
    "s3": _s3,
    "redis": _redis,
    "etcd": _etcd,
    "http": _http,
}


class LeaseDoor:
    """The web door of another Fencepost, in a process of its own, on SQLite."""

    def __init__(self, url: str, store: str) -> None:
        self.url = url
        self._store = store

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator["LeaseDoor"]:
        """Start it, and end it afterwards."""
        store = f"sqlite:{folder}/state.db"
        open_store(store).close()
        port = free_port()
        words = [sys.executable, "-m", "fencepost", "web", "--port", str(port), "--store", store]
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(words, cwd=folder, stdout=log, stderr=log, start_new_session=True)
        try:
            wait_until(lambda: _is_served(port), what=f"the web door answers at port {port}", seconds=60)
            yield cls(f"http://127.0.0.1:{port}", store)
        finally:
            process.terminate()
            process.wait(timeout=60)

    def new_key(self, tenant: str) -> str:
        """Make a key with which one tenant's machines come in."""
        store = RuntimeStore(open_store(self._store))
        try:
            return create_key(store.keys(), tenant=tenant, name="laptop", role=Role.LEASE, by="test").secret.text
        finally:
            store.close()


def _is_served(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


class Machine:
    """One machine at a store: its own clock, its own memory, its own processes."""

    def __init__(self, ground: CellGround, folder: Path, name: str, *, cells: Cells | None = None) -> None:
        self.name = name
        self.clock = ManualClock()
        self.host = Host(name, f"machine-{name}", f"boot-{name}", "pid:1")
        self.folder = folder / f"memory-{name}"
        self._ground = ground
        self._open: list[CellStore] = []
        # As on a machine that has tried the store today: test_port does that on every kind.
        MemoryFolder(str(self.folder)).keep_store(StoreMemory(probed_us=self.clock.wall))
        self.store = self.open(cells)

    def open(self, cells: Cells | None = None) -> CellStore:
        """Open the store once more, as another process of this machine would."""
        here = Here(self.host, self.clock, MemoryFolder(str(self.folder)))
        store = open_cell_store(cells or self._ground.cells(), here)
        self._open.append(store)
        return store

    def reboot(self) -> None:
        """Start the clock anew."""
        self.host = self.host._replace(boot=f"{self.host.boot}-again")
        self.clock.awake = 1_000_000_000
        self.store = self.open()

    def claim(self, resource: str = "lock:a", *, ttl: float = 30.0, gates: tuple[str, ...] = (), **more: Any) -> Claim:  # noqa: ANN401
        number = next(_numbers)
        return Claim(
            id=f"claim-{self.name}-{number}",
            tenant=more.pop("tenant", "default"),
            resources=(resource,),
            run_id=f"run-{self.name}-{number}",
            ttl_seconds=ttl,
            supervisor=ProcessId(self.host, 4000 + number, f"{number}"),
            gates=gates,
            label=more.pop("label", "agent --secret hunter2"),
            **more,
        )

    def granted(self, resource: str = "lock:a", **more: Any) -> Lease:  # noqa: ANN401
        """Acquire, and fail the test if it is refused."""
        answer = self.store.acquire(self.claim(resource, **more))
        assert isinstance(answer, Granted), answer
        return answer.lease

    def close(self) -> None:
        for store in self._open:
            store.close()


class Machines:
    """Makes machines at one store, and puts them away."""

    def __init__(self, ground: CellGround, folder: Path) -> None:
        self.ground = ground
        self._folder = folder
        self._made: list[Machine] = []

    def __call__(self, name: str, *, cells: Cells | None = None) -> Machine:
        machine = Machine(self.ground, self._folder, name, cells=cells)
        self._made.append(machine)
        return machine

    def close(self) -> None:
        with ExitStack() as stack:
            for machine in self._made:
                stack.callback(machine.close)


def pass_time(seconds: float, *machines: Machine) -> None:
    """Let time go by on every machine."""
    for machine in machines:
        machine.clock.pass_time(seconds)
