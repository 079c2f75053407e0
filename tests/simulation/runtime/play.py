"""One seed of the runtime: sets the stage, lets it run, closes the accounts, and returns what happened."""

import os
import shutil
import tempfile
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from fencepost.model import retention
from fencepost.service import admission
from tests.simulation.checker import Checker
from tests.simulation.faults import Faults
from tests.simulation.hosts import Host, Process
from tests.simulation.runtime.accounts import close_accounts
from tests.simulation.runtime.engines import Engine, SqliteEngine
from tests.simulation.runtime.fleet import Fleet, Plot
from tests.simulation.runtime.havoc import Havoc
from tests.simulation.runtime.observer import Observer
from tests.simulation.runtime.operators import Operator
from tests.simulation.runtime.place import Place
from tests.simulation.runtime.stage import Stage
from tests.simulation.runtime.stations import Post
from tests.simulation.simulate import MEMORY, Result
from tests.simulation.world import SECOND, Mailbox, Violation, World

if TYPE_CHECKING:
    from tests.simulation.runtime.postgres import Stand

CALM_TTLS = 8  # of ticking without faults
EMPTY_TTLS = 250  # to empty the queue once no more ticks come


def simulate_runtime(
    seed: int, *, profile: str | None = None, spared: frozenset[int] = frozenset(), stand: "Stand | None" = None
) -> Result:
    """Run one seed from beginning to end, on SQLite or on a stand with PostgreSQL."""
    folder = tempfile.mkdtemp(prefix="simulation-", dir=MEMORY if os.path.isdir(MEMORY) else None)
    world = World(seed, spared)
    poll_max, beside_cursor = admission.POLL_MAX_SECONDS, retention.BESIDE_CURSOR
    try:
        plot = Plot.draw(world, profile, server=stand is not None)
        retention.BESIDE_CURSOR = timedelta(seconds=plot.retention_seconds / 2)  # days have no place in minutes
        _play(world, plot, folder, stand)
    except Violation as violation:
        world.violation = world.violation or violation
    finally:
        admission.POLL_MAX_SECONDS, retention.BESIDE_CURSOR = poll_max, beside_cursor
        shutil.rmtree(folder)
    world.totals["seeds"] += 1
    world.totals["events"] += len(world.trace)
    command = "python -m tests.simulation.runtime.run"
    return Result(
        seed, world.digest(), world.trace, world.totals, world.now_ns / SECOND, world.violation, world.strikes, command
    )


def _play(world: World, plot: Plot, folder: str, stand: "Stand | None") -> None:
    world.log("world", str(plot))
    stage = _stage(world, plot, folder, stand)
    posts = [
        Post(stage, f"st{n}", stage.hosts[n % len(stage.hosts)], ticks=n < 2 or n % 2 == 0, slots=plot.slots)
        for n in range(plot.stations)
    ]
    try:
        operator = Operator(stage)
        world.spawn("story", None, lambda: _story(stage, posts, operator))
        world.run()
        if not world.totals["told to the end"]:
            world.fail("progress", "the story has no end")
    finally:
        world.close()
        stage.place.close()


def _stage(world: World, plot: Plot, folder: str, stand: "Stand | None") -> Stage:
    place = Place(world, plot.base, _engine(plot, folder, stand), epoch_us=plot.epoch_us)
    checker = Checker(world, plot.base)
    hosts = [
        Host(world, f"h{n}", rate_ppm=rate, pid_max=plot.base.pid_max, wall_us=plot.epoch_us)
        for n, rate in enumerate(plot.base.rates_ppm)
    ]
    observer = Observer(world, place, checker, hosts, plot)
    place.watcher = observer
    gates = _gates(plot, folder)
    checker.shared.update(target for agent, target in gates.items() if agent != "blue")
    fleet = Fleet(world, plot, gates)
    return Stage(
        world,
        plot,
        Faults(world, plot.base),
        checker,
        place,
        folder,
        hosts,
        fleet,
        observer,
        observer.outside,
        observer.archive,
    )


def _gates(plot: Plot, folder: str) -> dict[str, str]:
    """Say who writes where: runs of several schedules to one place, and those of a project with one place to another."""
    agents = [*(["red"] if plot.gated else []), *(["blue"] if plot.gated and plot.is_exclusive else [])]
    return {name: "file:" + os.path.join(os.path.realpath(folder), f"{name}.json") for name in agents}


def _engine(plot: Plot, folder: str, stand: "Stand | None") -> Engine:
    if stand is None:
        return SqliteEngine(folder, plot.base)
    from tests.simulation.runtime.postgres import PostgresEngine  # noqa: PLC0415  # others need no server

    return PostgresEngine(stand)


def _story(stage: Stage, posts: list[Post], operator: Operator) -> None:
    """Apply; rage; calm; let the last ticks come; empty the queue; count."""
    world, ttl_ns = stage.world, int(stage.knobs.ttl_seconds * SECOND)
    world.quiet = True  # nobody strikes before there is a day to spoil
    operator.apply(stage.hosts[0])
    world.quiet = False
    for post in posts:
        world.spawn(post.name, None, post.live)
    world.spawn("operator", None, operator.live)
    havoc = Havoc(stage, posts)
    havoc.rage(lambda: _look(stage, final=False))
    back_ns = max([host.back_ns for host in stage.hosts] + [post.closed_until_ns for post in posts])
    world.pause(max(0, back_ns - world.now_ns) + 3 * ttl_ns)
    operator.calm()
    world.pause(CALM_TTLS * ttl_ns)
    havoc.take_over()
    _look(stage, final=False)
    _decided_up_to_now(stage)
    stage.ticking = False
    waited = 0
    while _is_busy(stage) and waited < EMPTY_TTLS:
        world.pause(ttl_ns)
        waited += 1
    _look(stage, final=True)
    world.totals["told to the end"] += 1
    world.until_ns = world.now_ns


def _is_busy(stage: Stage) -> bool:
    """Whether a run has not ended, or somebody has not been told."""
    now = stage.observer.now
    untold = stage.plot.tells and any(notice.state == "waiting" for notice in now.notices.values())
    return untold or any(run.live for run in now.runs.values())


def _look(stage: Stage, *, final: bool) -> None:
    _in_a_process(stage, lambda process: close_accounts(stage, process, final=final))


def _decided_up_to_now(stage: Stage) -> None:
    """Without faults, no cursor stays behind."""
    now_us = stage.place.now(stage.hosts[0]).wall_us
    patience_us = int((3 * stage.plot.poll_seconds + 2) * 1e6)
    for schedule in stage.observer.now.schedules.values():
        due_us = schedule.due_us
        if due_us is not None and schedule.retired_us is None and due_us < now_us - patience_us:
            stage.world.fail("progress", f"{schedule.name} was due {(now_us - due_us) / 1e6:.0f}s ago, without faults")


def _in_a_process(stage: Stage, work: Callable[[Process], None]) -> None:
    host = next((host for host in stage.hosts if host.usable and not host.cut_off), None)
    if host is None:
        return
    process = Process(host, stage.new_id("auditor"))
    over = Mailbox(stage.world)
    process.at_death.append(lambda: over.put("over"))

    def main() -> None:
        work(process)
        process.kill("exit")

    process.spawn("main", main)
    over.wait(None)
