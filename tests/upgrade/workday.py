# ruff: noqa: ANN001, ANN003, ANN201, I001, T201  # a script for another program, which no type of today describes
# mypy: ignore-errors
"""A day's work with nearly every verb of the store, for the program of schema 3 to do on a store of today.

Run with the old program on the path: `python workday.py URL`. It prints how many runs have ended in which state.
"""

import json
import sys
from collections import Counter
from itertools import count

from fencepost import wiring
from fencepost.flow.leasing import claim_for, recheck_for
from fencepost.flow.reaper import Reaper, store_now
from fencepost.flow.ticker import Ticker
from fencepost.host.clock import SystemClock
from fencepost.host.processes import system_processes
from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.moment import from_us
from fencepost.model.outcome import Settlement
from fencepost.model.registry import want
from fencepost.model.run import Reason, RunState
from fencepost.operations.backfill import backfill
from fencepost.operations.looking import list_audit, list_dead, list_live, list_ticks, show
from fencepost.operations.prove import prove
from fencepost.operations.requests import cancel, discard, replay, request_run
from fencepost.operations.why import why
from fencepost.ports.runs import Report

NAMES = {"tenant": "default", "by": "ada"}
clock = SystemClock()
processes = system_processes(clock)
numbers = count(1)
store = wiring.open_runtime(sys.argv[1])
prefix = f"w{store.clock_us()}"


def new_id() -> str:
    return f"{prefix}-{next(numbers)}"


def lease(ttl: float = 30):
    return store.lease_run(
        lambda run: claim_for(run, lease_id=new_id(), supervisor=processes.myself(), ttl_seconds=ttl), recheck_for
    )


def end(leased, state: RunState = RunState.SUCCEEDED, reason: Reason | None = None) -> None:
    store.settle(leased.lease, Settlement(state, reason), Report(state.value, 0, last_log="x"), clean=True)


def apply(**fields) -> None:
    agents = {"a": AgentDefinition("a", command=("true",), on_lost="restart", max_attempts=5)}
    schedules = {
        "second": ScheduleDefinition("second", "a", cron="* * * * * *", timezone="UTC", overlap="queue", **fields),
        "after": ScheduleDefinition("after", "a", every="1s"),
        "many": ScheduleDefinition("many", "a", cron="0 0 1 1 *", timezone="UTC", overlap="allow_parallel"),
    }
    store.registry().apply(want("default", "day.toml", agents=agents, schedules=schedules), actor="ada")


apply()
registry = store.registry()
registry.pause("default", "after", until=None, note="", actor="ada")
registry.resume("default", "second", actor="ada")
registry.resume("default", "after", actor="ada")
start = store.clock_us()
while store.clock_us() < start + 2_200_000:
    Ticker(store, new_id).step()
    store.agenda(4)
    if leased := lease():
        store.start_run(leased)
        store.renew(leased.lease)
        store.put_checkpoint(leased.lease, "{}")
        store.stop_asked(leased.lease)
        end(leased)
    clock.sleep(0.02)
apply(priority=2)
registry.halt("default", note="", actor="ada")
assert lease() is None
registry.unhalt("default", actor="ada")
key = request_run(store, target="many", key=prefix, new_run_id=new_id, **NAMES).run.id
assert request_run(store, target="many", key=prefix, new_run_id=new_id, **NAMES).run.id == key
gone = request_run(store, target="many", new_run_id=new_id, **NAMES).run.id
cancel(store, gone, **NAMES)
while leased := lease():
    store.start_run(leased)
    dead = leased.run.id == key
    end(leased, RunState.DEAD if dead else RunState.SUCCEEDED, Reason.EXIT_CODE if dead else None)
assert [one.run.id for one in list_dead(store, "default", limit=9).runs] == [key]
again = replay(store, key, new_run_id=new_id, **NAMES).run.id
lost = lease(ttl=1)
store.start_run(lost)
clock.sleep(1.2)
Reaper(store, store, processes, store_now(store.clock_us)).step()
once_more = lease()
assert once_more.run.id == again
store.start_run(once_more)
end(once_more, RunState.DEAD, Reason.EXIT_CODE)
discard(store, again, **NAMES)
now = from_us(store.clock_us())
made = backfill(store, schedule="second", from_=from_us(start), until=now, new_run_id=new_id, **NAMES)
assert made.run_ids
list_live(store, "default", limit=100)
list_ticks(store, "default", "second", limit=100)
list_audit(store, "default", limit=100)
show(store, "default", again)
why(store, "default", "second")
while leased := lease():
    store.start_run(leased)
    end(leased)
for name in ("second", "after"):
    registry.pause("default", name, until=None, note="", actor="ada")
proof = prove(store, tenant="default")
assert proof.holds, proof
print(json.dumps(Counter(run.state for run in store.runs(tenant="default", limit=10_000) if run.id.startswith(prefix))))
store.close()
