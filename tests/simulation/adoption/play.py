"""One seed of adoption: workers are killed, leave, freeze and come again; then all is calm, and the accounts are closed."""

import json
import os
import shutil
import tempfile
import traceback
from collections import Counter
from hashlib import sha256

from fencepost.host.log_files import log_path
from fencepost.model.definition import AgentDefinition
from fencepost.model.registry_plan import want
from fencepost.operations.run_requests import request_run
from tests.simulation.adoption.host import Agent, SimGuard, made_up_host
from tests.simulation.adoption.world import AdoptionWorld, SimWorker
from tests.simulation.simulate import MEMORY, Result
from tests.simulation.world import Violation

TENANT = "default"
RUNS = 5
RAGE, CALM = 140, 300  # steps
WORKERS_MAX = 3
REBOOTS = 0.2  # of the strikes that could be one
STRIKES = (
    *("kill worker", "leave", "start worker", "freeze worker", "thaw worker", "rob worker"),
    *("kill guard", "freeze guard", "thaw guard", "reboot", "cut", "heal", "older program", "exit"),
)
# What must have happened at least once before a batch of seeds says anything.
BITES = (*STRIKES, "adopted", "left", "lost answers", "reaped", "store away")
LOSE_ENDS = (
    "freeze worker",
    "freeze guard",
    "cut",
    "older program",
    "rob worker",
)  # a known end may come too late there


def simulate_adoption(seed: int, kinds: str = "") -> Result:
    """Run one seed from beginning to end, with some kinds of trouble or with those that are named."""
    folder = tempfile.mkdtemp(prefix="adoption-", dir=MEMORY if os.path.isdir(MEMORY) else None)
    world = AdoptionWorld(seed, folder)
    violation: Violation | None = None
    chosen = kinds.split(", ") if kinds else [one for one in STRIKES if world.rng.random() < 0.6]
    try:
        with made_up_host(world):
            _story(world, {*chosen, "start worker", "thaw worker", "thaw guard", "heal", "exit"})
    except Violation as found:
        violation = found
    except Exception as crash:  # noqa: BLE001  # a crash of the product breaks a promise, whatever its name
        world.log(traceback.format_exc())
        violation = Violation("crashed", repr(crash))
    finally:
        world.rages = False
        _clear_away(world)
        shutil.rmtree(folder)
    world.totals["seeds"] += 1
    digest = sha256("\n".join(world.trace).encode()).hexdigest()
    seconds = (world.clock.awake - 10**12) / 1e9
    command = "python -m tests.simulation.adoption.run"
    return Result(seed, digest, world.trace, world.totals, seconds, violation, {}, command)


def _clear_away(world: AdoptionWorld) -> None:
    for worker in list(world.workers):
        worker.vanish()
    for guard in world.guards:
        guard.kill("the end of the world")
    world.store.close()


def _story(world: AdoptionWorld, kinds: set[str]) -> None:
    agents = {"a": AgentDefinition("a", command=("true",), on_lost="restart", max_attempts=99)}
    world.store.registry().apply(want(TENANT, "test.toml", agents=agents, schedules={}), actor="test")
    names = (f"r{number}" for number in range(RUNS))
    for _ in range(RUNS):
        request_run(world.store, tenant=TENANT, target="a", payload={}, new_run_id=lambda: next(names), by="test")
    world.start_worker()
    strikes = sorted(kinds)
    for _ in range(RAGE):
        if world.rng.random() < 0.25:
            strike(world, world.rng.choice(strikes))
        world.step()
    world.rages = False
    for worker in list(world.workers):
        worker.frozen = worker.door.cut = False
    for guard in world.guards:
        guard.frozen = False
    if not world.workers:
        world.start_worker()
    for _ in range(CALM):
        if all(run.state == "succeeded" for run in world.store.runs(tenant=TENANT, limit=99)):
            break
        strike(world, "exit")
        world.step()
    for _ in range(20):
        world.step()
    _close_accounts(world, kinds)


OF_WORKERS = ("kill worker", "leave", "freeze worker", "rob worker", "cut")
OF_GUARDS = ("kill guard", "freeze guard", "exit")


def strike(world: AdoptionWorld, kind: str) -> None:
    """Let something happen, if there is something that it can happen to."""
    awake = [one for one in world.workers if not one.frozen]
    working = [one for one in world.guards if one.is_at_work]
    if kind in OF_WORKERS and awake:
        _strike_worker(world, kind, world.rng.choice(awake))
    elif kind in OF_GUARDS and working:
        _strike_guard(kind, world.rng.choice(working))
    elif kind == "start worker" and len(awake) < WORKERS_MAX:
        world.start_worker()
    elif kind == "reboot" and world.rng.random() < REBOOTS:
        world.reboot()
    elif kind == "older program":
        world.look_with_an_older_program()
    elif not _relieve(world, kind):
        return
    world.totals[kind] += 1
    world.log(f"strike: {kind}")


def _relieve(world: AdoptionWorld, kind: str) -> bool:
    for worker in world.workers:
        worker.frozen = worker.frozen and kind != "thaw worker"
        worker.door.cut = worker.door.cut and kind != "heal"
    for guard in world.guards:
        guard.frozen = guard.frozen and kind != "thaw guard"
    return kind in ("thaw worker", "thaw guard", "heal")


def _strike_guard(kind: str, guard: SimGuard) -> None:
    if kind == "kill guard":
        guard.kill("strike")
    elif kind == "exit" and guard.tree.agent is not None:
        guard.tree.agent.exit()
    guard.frozen = kind == "freeze guard"


def _strike_worker(world: AdoptionWorld, kind: str, worker: SimWorker) -> None:
    if kind == "kill worker":
        worker.vanish()
    elif kind == "leave":
        worker.leave()
    elif kind == "cut":
        worker.door.cut = True
    else:
        worker.frozen = True
        if kind == "rob worker":  # it thaws within its leases' time: after it, its last resort asks nobody
            worker.give_up_lock()
            if all(one.frozen for one in world.workers):  # else another one is there to adopt
                world.start_worker()
            for _ in range(8):
                world.step()
            worker.frozen = False


def _close_accounts(world: AdoptionWorld, kinds: set[str]) -> None:
    runs = world.store.runs(tenant=TENANT, limit=99)
    if waiting := [f"{run.id} {run.state}" for run in runs if run.state != "succeeded"]:
        raise Violation("progress", f"not ended: {', '.join(waiting)}")
    settled = Counter((row.subject, json.loads(row.detail)["fence"]) for row in _audit(world) if row.verb == "settle")
    if twice := [key for key, times in settled.items() if times > 1]:
        raise Violation("settled", f"twice: {twice}")
    if left := [one.place.name for one in world.guards if one.guard._order is not None]:
        raise Violation("left behind", f"{left}")
    for agent in world.agents:
        _close_account(world, agent, may_lose=not kinds.isdisjoint(LOSE_ENDS))


def _audit(world: AdoptionWorld) -> list:  # type: ignore[type-arg]
    from fencepost.operations.run_queries import list_audit  # noqa: PLC0415  # what a door asks, and not the product's path

    return list_audit(world.store, TENANT, limit=10_000)


def _close_account(world: AdoptionWorld, agent: Agent, *, may_lose: bool) -> None:
    """An agent that ended by itself is known to have done so, with all that it printed."""
    (row,) = [one for one in world.store.attempts(agent.run_id) if one.fence == agent.fence]
    if agent.how == "exit" and row.outcome != "succeeded" and not may_lose:
        raise Violation("kept", f"the end of {agent.run_id} with fence {agent.fence} is {row.outcome}")
    if agent.how != "exit" and row.outcome == "succeeded":
        raise Violation("kept", f"{agent.run_id} with fence {agent.fence} was killed and is called done")
    if row.outcome != "succeeded":
        return
    with open(log_path(f"{world.folder}/logs", agent.run_id, agent.fence), encoding="utf-8") as file:
        lines = file.read().splitlines()
    if lines != [*(f"line {number}" for number in range(1, agent.lines)), "the end"]:
        raise Violation("log", f"the log of {agent.run_id} is not whole")
