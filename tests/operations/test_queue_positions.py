"""Where waiting runs stand: in the order of leasing, one line for each resource."""

import json

from fencepost.model.lease import Held, Waiter, keys_of
from fencepost.model.process import Host, ProcessId
from fencepost.model.project import Working, Workplace
from fencepost.operations.project_commands import commands
from fencepost.operations.queue_positions import QueuePosition, line_up
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
    found = line_up(live, leases, tenant="default", now_us=NOW, halted=halted)
    return {name: place.words(NOW) for name, place in found.places.items()}


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
    found = line_up(
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

    assert {name: place.position for name, place in found.places.items()} == {"r1": 1, "r2": 1, "r3": 3, "r4": 3}


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
    found = line_up([run(f"r{n}") for n in range(10_000)], [], tenant="default", now_us=NOW)

    assert isinstance(found.places["r9999"], QueuePosition)
    assert found.places["r9999"].position == 10_000


def waiter(name: str, *, since: float, tenant: str = "default", label: str = "vim", stale: bool = False) -> Waiter:
    process = ProcessId(Host("tower", "m", "b", "p"), 7, "1")
    return Waiter(f"t-{name}", tenant, ("project:x",), name, label, process, NOW - round(since * SECOND), stale)


def working(*, isolated: bool = False) -> Working:
    place = Workplace("default", "site", "project:x", "/site", 1, isolated)
    return Working(place, "w", ProcessId(Host("tower", "m", "b", "p"), 2, "1"), stale=False)


def project_run(name: str, *, since: float, **fields: object) -> RunRow:
    manifest = json.dumps({"project": "site"})
    return run(name, f"run:{name}", manifest=manifest, place_us=NOW - round(since * SECOND), **fields)  # type: ignore[arg-type]


def test_commands_and_runs_stand_in_one_line_and_the_line_has_a_length() -> None:
    live = [project_run("r2", since=20), project_run("r4", since=5)]
    people = [waiter("r5", since=1), waiter("r3", since=10), waiter("r6", since=30, stale=True)]

    lines = line_up(
        live, [held("r1", "project:x")], tenant="default", now_us=NOW, waiters=people, workplaces=[working()]
    )

    assert {name: place.words(NOW) for name, place in lines.places.items()} == {
        name: f"queued · position {position} · behind r1 (make site, 3m12s)"
        for position, name in enumerate(["r2", "r3", "r4", "r5"], 1)
    }
    assert lines.depths == {"site": 4}


def test_what_another_tenant_waits_with_is_counted_and_not_told() -> None:
    lines = line_up(
        [project_run("r2", since=1)],
        [],
        tenant="default",
        now_us=NOW,
        waiters=[waiter("r1", since=9, tenant="other", label="secret plan")],
        workplaces=[working()],
    )

    assert lines.places["r2"].words(NOW) == "queued · position 2 · behind (another tenant's run, 9s)"
    assert lines.depths == {"site": 2}


def test_runs_that_work_apart_do_not_lengthen_the_line() -> None:
    apart = line_up([project_run("r1", since=1)], [], tenant="default", now_us=NOW, workplaces=[working(isolated=True)])
    nobody_there = line_up([project_run("r1", since=1)], [], tenant="default", now_us=NOW)

    assert (apart.depths, nobody_there.depths) == ({"site": 0}, {"site": 1})


def test_commands_in_a_project_are_told_apart_from_its_runs() -> None:
    live, leases = [run("r1", state="running")], [held("r1", "project:x"), held("r9", "project:x")]
    waiters = [waiter("r3", since=10), waiter("r4", since=10, tenant="other")]
    lines = line_up(live, leases, tenant="default", now_us=NOW, waiters=waiters, workplaces=[working()])

    found = commands(leases, waiters, tenant="default", runs=["r1"], workplaces=[working()], places=lines.places)

    assert [(one.run_id, one.what, one.project, one.place and one.place.position) for one in found] == [
        ("r9", "make site", "site", None),
        ("r3", "vim", "site", 1),
    ]


def test_runs_of_a_project_stand_in_one_line_also_before_any_worker_is_there() -> None:
    lines = line_up([project_run(name, since=9) for name in ("r1", "r2")], [], tenant="default", now_us=NOW)

    assert {name: place.words(NOW) for name, place in lines.places.items()} == {
        "r1": "queued · position 1 · waits for a worker",
        "r2": "queued · position 2 · waits for a worker",
    }
