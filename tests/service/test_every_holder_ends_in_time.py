"""P7 in whatever way an agent runs: a holder that cannot renew has its tree ended before its lease can be given away.

The store is locked or silent, and the guard, the worker or neither is frozen meanwhile. What is left of them ends the
tree. A session's keeper and a scheduler that leads have no tree to end: they let go. `make holders` plays the whole
matrix; without it a row of each kind is played.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import pytest

from fencepost import wiring
from fencepost.host.clock import SystemClock
from fencepost.model.lease import Held
from fencepost.stores.runtime import RuntimeStore
from tests.support.ground import freeze, is_alive, send
from tests.support.locked import locked
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
KEEPER = """
import os, sys
from fencepost import wiring
from fencepost.host.clock import SystemClock
from fencepost.service.session_holder import SessionHolder
from fencepost.service.command_order import Order

store, name, ttl = sys.argv[1:]
tools = wiring.exec_tools(store)
order = Order((), "default", ("project:site",), name, float(ttl), wait_seconds=float("inf"), holder=name)
SessionHolder(order, tools, tools.processes.myself(), lambda text: print(f"{name}: {text}", flush=True)).run()
"""
WAYS = ("exec", "command", "function", "lane")
FROZEN = ("neither", "guard", "worker")
WHOLE = os.environ.get("FENCEPOST_TEST_HOLDERS") == "all"
ONE = [*product(WAYS, FROZEN)] if WHOLE else [*product(WAYS, ["guard"]), ("command", "neither"), ("command", "worker")]
WOKEN = WAYS if WHOLE else ("command", "lane")
CROWDS = ("exec", "command", "function") if WHOLE else ("command",)
CROWD = {"exec": 40, "command": 100, "function": 100}  # each exec has connections of its own: 40 fit into a server


@dataclass
class Scene:
    """A site, a second way to its store, and a way to take the store away from everybody who goes by the first."""

    site: Site
    beside: Site
    away: Callable[[], AbstractContextManager[None]]
    counts_sleep: bool
    pids: list[int] = field(default_factory=list)
    looks: RuntimeStore | None = None  # open already when the store is taken away: it can still be read then

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
            self.site.fencepost("run", way, "--payloads", "-", data="{}\n" * number)
        self.site.until(lambda: len(self.agents()) == number, seconds=60 + number)
        self.site.until(lambda: all(held.renewals for held in self.held()), seconds=60)
        self.pids = self.agents()

    def agents(self) -> list[int]:
        return [int(path.read_text()) for path in self.site.folder.glob("up-*") if path.suffix != ".new"]

    def held(self) -> list[Held]:
        """Return the leases that agents run under."""
        return [held for held in self.leases() if held.guard is not None and not held.lost]

    def leases(self) -> list[Held]:
        self.looks = self.looks or wiring.open_runtime(self.beside.store)
        return self.looks.leases()

    def close(self) -> None:
        """Kill what is left: some of it is frozen, and would not hear that it shall end."""
        if self.looks is not None:
            self.looks.close()
        self.site.kill()
        self.beside.kill()

    def freeze(self, who: str, held: list[Held]) -> None:
        """Freeze the guards or those who renew; a daemon is both worker and parent of lanes."""
        for one in held:
            assert one.guard is not None
            if who == "guard":
                send(one.guard.pid, signal.SIGSTOP)
        if who == "worker":
            workers = {one.supervisor.pid for one in held if one.supervisor != one.guard}
            daemons = {daemon.pid for daemon in self.site.daemons() if any(one.supervisor == one.guard for one in held)}
            freeze(self.site.store, *workers, *daemons)


@pytest.fixture(params=["sqlite", "postgresql"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    (tmp_path / "beside").mkdir()
    if request.param == "sqlite":
        site = Site(tmp_path)
        made = Scene(site, site, lambda: locked(site.store), counts_sleep=False)
        yield made
        made.close()
        return
    url = request.getfixturevalue("durable_url")
    with FaultyProxy(url) as proxy:
        site, beside = Site(tmp_path, proxy.url), Site(tmp_path / "beside", url)
        made = Scene(site, beside, lambda: silent(proxy), counts_sleep=True)
        yield made
        made.close()


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


@pytest.mark.parametrize(("way", "frozen"), ONE)
def test_a_tree_is_ended_before_its_lease_can_be_given_away(scene: Scene, way: str, frozen: str) -> None:
    scene.start(way)
    end_in_time(scene, frozen)


@pytest.mark.parametrize("way", CROWDS)
@pytest.mark.parametrize("frozen", FROZEN if WHOLE else ["guard"])
def test_a_hundred_trees_are_ended_in_time_too(scene: Scene, way: str, frozen: str) -> None:
    scene.start(way, CROWD[way])
    end_in_time(scene, frozen)


def end_in_time(scene: Scene, frozen: str) -> None:
    scene.freeze(frozen, scene.held())
    with scene.away():
        ended_before(scene, end_of_last_lease(scene, scene.held()))


@pytest.mark.parametrize("way", WOKEN)
def test_what_was_frozen_whole_is_ended_as_soon_as_it_wakes(scene: Scene, way: str) -> None:
    """No process is left to end it meanwhile: its gates are fenced by then, and it finds out at once."""
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


def hold(site: Site, kind: str, name: str) -> int:
    """Start a holder that has no tree, and return its pid."""
    if kind == "lead":
        return site.up("--ttl", f"{TTL_SECONDS:g}s").pid
    return site.start(sys.executable, "-c", KEEPER, site.store, name, f"{TTL_SECONDS:g}").pid


def holder_of(scene: Scene, kind: str) -> Held | None:
    """Return who holds it now, by the store's word."""
    resource = "scheduler:default" if kind == "lead" else "project:site"
    found = [held for held in scene.leases() if resource in held.resources and not held.lost]
    return found[0] if found else None


@pytest.mark.parametrize("kind", ["session", "lead"])
@pytest.mark.parametrize("frozen", ["neither", "worker"])
def test_a_holder_without_a_tree_lets_go_in_time_and_stands_in_line_again(scene: Scene, kind: str, frozen: str) -> None:
    for site in (scene.site, scene.beside):
        site.configure("")
    first = hold(scene.site, kind, "first")
    scene.site.until(lambda: (held := holder_of(scene, kind)) and held.supervisor.pid == first and held.renewals)
    second = hold(scene.beside, kind, "second")
    scene.beside.until(lambda: "passive: " in scene.beside.said() or "second: queued" in scene.beside.said())
    if frozen == "worker":
        freeze(scene.site.store, first)

    with scene.away() if scene.counts_sleep or frozen == "neither" else nullcontext():
        before = holder_of(scene, kind)  # it can renew no more
        assert before is not None
        clock = SystemClock()
        clock.sleep(before.remaining_seconds + TTL_SECONDS / 6)
        if scene.counts_sleep:
            scene.site.until(lambda: (held := holder_of(scene, kind)) and held.supervisor.pid == second)
    if frozen == "worker":
        scene.site.until(lambda: (held := holder_of(scene, kind)) and held.supervisor.pid == second)
        send(first, signal.SIGCONT)
    scene.site.until(lambda: (held := holder_of(scene, kind)) and held.renewals and held.fence > before.fence)

    after = holder_of(scene, kind)
    assert after is not None
    assert after.granted_us >= before.expires_us, "no two hold it at a time"
    waits = first if after.supervisor.pid == second else second
    assert is_alive(waits), "it has let go, and waits for its turn"
    send(after.supervisor.pid, signal.SIGKILL)
    scene.site.until(lambda: (held := holder_of(scene, kind)) and held.supervisor.pid == waits)
