"""Real processes to look at and to end, and the two ways to look at them."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import IO

import pytest

from fencepost.host import cgroup
from fencepost.host.clock import SystemClock
from fencepost.host.identity import this_host
from fencepost.host.proc_table import ProcTable
from fencepost.host.processes import SystemProcesses, system_processes
from fencepost.host.ps_table import PsTable
from fencepost.ports.processes import Traces

Spawn = Callable[..., "Spawned"]


class Spawned:
    """A Python script that runs as a child of the test."""

    def __init__(self, script: str, *arguments: str, environment: dict[str, str]) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-S", "-c", script, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        )
        self.pid = self.child.pid

    def line(self) -> str:
        """Wait for the script to say something."""
        return self.output().readline().decode().strip()

    def output(self) -> IO[bytes]:
        assert self.child.stdout is not None
        return self.child.stdout


@pytest.fixture(params=["proc", "ps"])
def processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SystemProcesses:
    if request.param == "proc":
        if not sys.platform.startswith("linux"):
            pytest.skip("this host has no /proc")
        return SystemProcesses(SystemClock(), ProcTable(), this_host())
    monkeypatch.delattr(os, "pidfd_open", raising=False)  # where there is only ps, there are no handles either
    return SystemProcesses(SystemClock(), PsTable(), this_host())


@pytest.fixture
def run_id() -> Iterator[str]:
    made_up = f"run_{os.urandom(8).hex()}"
    yield made_up
    # What a failed test leaves behind, found by its mark.
    assert system_processes(SystemClock()).end(Traces(made_up, None, None), grace_seconds=0, kill_seconds=5)


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    started: list[Spawned] = []

    def start(script: str, *arguments: str, **environment: str) -> Spawned:
        started.append(Spawned(script, *arguments, environment=environment))
        return started[-1]

    yield start
    for spawned in started:
        spawned.child.kill()
        spawned.child.wait()
        spawned.output().close()


@pytest.fixture
def run_cgroup(run_id: str) -> Iterator[str]:
    path = cgroup.plan(run_id)
    if path is None or not cgroup.make(path):
        pytest.skip("this host does not let us make cgroups")
    yield path
    assert system_processes(SystemClock()).end(Traces(run_id, None, path), grace_seconds=0, kill_seconds=5)
    assert cgroup.remove(path)
