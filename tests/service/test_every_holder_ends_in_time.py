"""P7 in whatever way an agent runs: a holder that cannot renew has its tree ended before its lease can be given away.

The store is locked or silent, and the guard, the worker or nobody is frozen meanwhile. Whoever is left ends the tree.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import pytest

from fencepost import wiring
from fencepost.host.clock import SystemClock
from fencepost.model.lease import Held
from tests.support.ground import is_alive, send
from tests.support.proxy import FaultyProxy, Pass, Silence
from tests.support.site import Site

TTL_SECONDS = 6.0  # grace 1.5 s: the guard kills at 0.6 of it, its worker at 0.8
LOOK_SECONDS = 0.25  # our own look at who is alive may be late by this on a busy machine

WORK = """
import os, time
from pathlib import Path

def work(ctx):
    Path(f"up-{ctx.run_id}.new").write_text(str(os.getpid()))
    os.rename(f"up-{ctx.run_id}.new", f"up-{ctx.run_id}")
    while True:
        time.sleep(1)
"""
SHELL = "echo $$ > up-$FENCEPOST_RUN_ID.new; mv up-$FENCEPOST_RUN_ID.new up-$FENCEPOST_RUN_ID; exec sleep 600"
AGENTS = f"""
[agents.command]
command = '{SHELL}'
shell = true
[agents.function]
engine = "python"
function = "work:work"
[agents.lane]
engine = "python"
function = "work:work"
in_process = true
"""
WAYS = ("exec", "command", "function", "lane")
FROZEN = ("nobody", "guard", "worker")


@dataclass
class Scene:
    """A site, a second way to its store, and a way to take the store away from everybody who goes by the first."""

    site: Site
    beside: Site
    away: Callable[[], AbstractContextManager[None]]
    counts_sleep: bool
    pids: list[int] = field(default_factory=list)

    def start(self, way: str, number: int = 1) -> None:
        """Start agents and wait until all of them are at work and renewed at least once."""
        self.site.configure(AGENTS)
        (self.site.folder / "work.py").write_text(WORK)
        if way == "exec":
            for one in range(number):
                self.site.start(
                    "fencepost", "exec", "--lock", f"z{one}", "--ttl", f"{TTL_SECONDS:g}s", "--store", self.site.store,
                    "--", "sh", "-c", SHELL,
                )  # fmt: skip
        else:
            self.site.up("--workers", str(number), "--ttl", f"{TTL_SECONDS:g}s", "--quiet")
            for _ in range(number):
                self.site.fencepost("run", way)
        self.site.until(lambda: len(self.agents()) == number, seconds=60 + number)
        self.site.until(lambda: all(held.renewals for held in self.held()), seconds=60)
        self.pids = self.agents()

    def agents(self) -> list[int]:
        return [int(path.read_text()) for path in self.site.folder.glob("up-*") if path.suffix != ".new"]

    def held(self) -> list[Held]:
        """Return the leases that agents run under."""
        store = wiring.open_runtime(self.beside.store)
        try:
            return [held for held in store.leases() if held.guard is not None and not held.lost]
        finally:
            store.close()

    def freeze(self, who: str, held: list[Held]) -> None:
        """Freeze the guards or those who renew; a daemon is both worker and parent of lanes."""
        for one in held:
            assert one.guard is not None
            if who == "guard":
                send(one.guard.pid, signal.SIGSTOP)
            elif who == "worker" and one.supervisor != one.guard:
                send(one.supervisor.pid, signal.SIGSTOP)
        if who == "worker" and any(one.supervisor == one.guard for one in held):
            for daemon in self.site.daemons():
                send(daemon.pid, signal.SIGSTOP)


@pytest.fixture(params=["sqlite", "postgresql"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    (tmp_path / "beside").mkdir()
    if request.param == "sqlite":
        site = Site(tmp_path)
        made = Scene(site, site, lambda: locked(site), counts_sleep=False)
        yield made
        site.close()
        return
    url = request.getfixturevalue("durable_url")
    with FaultyProxy(url) as proxy:
        site, beside = Site(tmp_path, proxy.url), Site(tmp_path / "beside", url)
        yield Scene(site, beside, lambda: silent(proxy), counts_sleep=True)
        proxy.switch(Pass())
        site.close()


@contextmanager
def locked(site: Site) -> Iterator[None]:
    """Keep everybody else out of the SQLite file."""
    connection = apsw.Connection(site.store.removeprefix("sqlite:"))
    connection.set_busy_timeout(10_000)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


@contextmanager
def silent(proxy: FaultyProxy) -> Iterator[None]:
    """Let a server take everything in and answer nothing."""
    proxy.switch(Silence())
    try:
        yield
    finally:
        proxy.switch(Pass())


def end_of_last_lease(scene: Scene, held: list[Held]) -> float:
    """Return when the last of the leases can be given away, on the clock of the store's kind."""
    clock = SystemClock()
    now = clock.boot_ns() if scene.counts_sleep else clock.awake_ns()
    return now + max(one.remaining_seconds for one in held) * 1e9


def ended_before(scene: Scene, expires_ns: float) -> None:
    clock = SystemClock()
    now = clock.boot_ns if scene.counts_sleep else clock.awake_ns
    while [pid for pid in scene.pids if is_alive(pid)]:
        late = (now() - expires_ns) / 1e9
        left = sum(map(is_alive, scene.pids))
        assert late < LOOK_SECONDS, f"{left} of {len(scene.pids)} agents live {late:.2f} s after their lease"
        clock.sleep(0.01)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("frozen", FROZEN)
def test_a_tree_is_ended_before_its_lease_can_be_given_away(scene: Scene, way: str, frozen: str) -> None:
    scene.start(way)
    held = scene.held()
    scene.freeze(frozen, held)
    with scene.away():
        ended_before(scene, end_of_last_lease(scene, scene.held() if scene.counts_sleep else held))


@pytest.mark.parametrize("frozen", FROZEN)
def test_a_hundred_trees_are_ended_in_time_too(scene: Scene, frozen: str) -> None:
    scene.start("command", 100)
    held = scene.held()
    scene.freeze(frozen, held)
    with scene.away():
        ended_before(scene, end_of_last_lease(scene, scene.held() if scene.counts_sleep else held))


@pytest.mark.parametrize("way", ["exec", "command", "function", "lane"])
def test_what_was_frozen_whole_is_ended_as_soon_as_it_wakes(scene: Scene, way: str) -> None:
    """Nobody is left to end it meanwhile: its gates are fenced by then, and it finds out at once."""
    scene.start(way)
    held = scene.held()
    pids = [*scene.pids, *(one.guard.pid for one in held if one.guard), *(one.supervisor.pid for one in held)]
    pids += [daemon.pid for daemon in scene.site.daemons()]
    for pid in dict.fromkeys(pids):
        send(pid, signal.SIGSTOP)
    with scene.away() if scene.counts_sleep else nullcontext():
        SystemClock().sleep(TTL_SECONDS)
        for pid in dict.fromkeys(pids):
            send(pid, signal.SIGCONT)
        scene.site.until(lambda: not any(map(is_alive, scene.pids)), seconds=3)
