"""Where waiting runs stand: in the order of leasing, one line for each resource."""

import json

from fencepost.model.lease import Held, keys_of
from fencepost.model.process import Host, ProcessId
from fencepost.operations.places import Place, places
from fencepost.ports.runs import RunRow

SECOND = 1_000_000
NOW = 1_000 * SECOND
EMPTY = RunRow(*[None] * len(RunRow._fields))  # type: ignore[arg-type]


def run(name: str, *resources: str, state: str = "ready", **fields: object) -> RunRow:
    values: dict[str, object] = {
        "id": name,
        "tenant": "default",
        "agent": f"agent-of-{name}",
        "state": state,
        "resources": json.dumps(keys_of("default", resources or ("schedule:a",))),
        "lease_max": 1,
        "waiting_us": NOW - 10 * SECOND,
        "ready_us": NOW - 10 * SECOND,
        "place_us": NOW - 10 * SECOND,
        "rank": 0,
        "trigger": "cron",
        "manifest": "{}",
    }
    return EMPTY._replace(**{**values, **fields})  # type: ignore[arg-type]


def held(name: str, *resources: str, tenant: str = "default", left: float = 10, lost: bool = False) -> Held:
    process = ProcessId(Host("tower", "m", "b", "p"), 1, "1")
    return Held(
        "lease", tenant, resources, 1, name, None, "make site", process, None, None, 30, 0,
        NOW - 192 * SECOND, NOW - 192 * SECOND, NOW, left, lost,
    )  # fmt: skip


def words(live: list[RunRow], leases: list[Held], *, halted: bool = False) -> dict[str, str]:
    found = places(live, leases, tenant="default", now_us=NOW, halted=halted)
    return {name: place.words(NOW) for name, place in found.items()}


def test_a_run_says_behind_whom_it_waits_and_for_how_long_that_one_has_run() -> None:
    running = run("r1", state="running", agent="claude")

    assert words([running, run("r2"), run("r3")], [held("r1", "schedule:a")]) == {
        "r2": "queued · position 1 · behind r1 (claude, 3m12s)",
        "r3": "queued · position 2 · behind r1 (claude, 3m12s)",
    }


def test_an_exec_in_the_way_is_named_by_its_command() -> None:
    assert words([run("r2", "project:x")], [held("r9", "project:x")]) == {
        "r2": "queued · position 1 · behind r9 (make site, 3m12s)"
    }


def test_what_another_tenant_runs_is_nobodys_business() -> None:
    shared = run("r2")._replace(resources=json.dumps([["*", "project:x"]]))

    assert words([shared], [held("r9", "project:x", tenant="other")]) == {
        "r2": "queued · position 1 · behind (another tenant's run, 3m12s)"
    }


def test_a_lease_that_is_lost_or_over_is_in_nobodys_way() -> None:
    for over in (held("r1", "schedule:a", left=0), held("r1", "schedule:a", lost=True)):
        assert words([run("r2")], [over]) == {"r2": "queued · position 1 · waits for a worker"}


def test_lines_of_different_resources_do_not_count_together() -> None:
    found = places(
        [
            run("r1", "schedule:a"),
            run("r2", "schedule:b"),
            run("r3", "schedule:a", "schedule:b"),
            run("r4", "schedule:b"),
        ],
        [],
        tenant="default",
        now_us=NOW,
    )

    assert {name: place.position for name, place in found.items()} == {"r1": 1, "r2": 1, "r3": 3, "r4": 3}


def test_a_bounded_crowd_is_in_the_way_although_it_holds_nothing_of_ours() -> None:
    crowd = [run(f"r{n}", f"run:r{n}", state="running", schedule="s", lease_max=2, started_us=NOW) for n in (1, 2)]
    waiting = run("r3", "run:r3", schedule="s", lease_max=2)

    assert words([*crowd, waiting], []) == {"r3": "queued · position 1 · behind r1 (agent-of-r1, 0ms)"}
    assert words([crowd[0], waiting], []) == {"r3": "queued · position 1 · waits for a worker"}


def test_a_retry_says_from_when_on_it_may_start() -> None:
    later = run("r2", ready_us=NOW + 90 * SECOND)

    assert words([later], []) == {"r2": "queued · position 1 · not before 1970-01-01T00:18:10Z (in 1m30s)"}


def test_a_halt_is_what_everything_waits_for() -> None:
    assert "everything is halted" in words([run("r2")], [], halted=True)["r2"]


def test_a_long_line_costs_no_square() -> None:
    found = places([run(f"r{n}") for n in range(10_000)], [], tenant="default", now_us=NOW)

    assert isinstance(found["r9999"], Place)
    assert found["r9999"].position == 10_000
