"""`fencepost ps` and `queue`: what runs, what waits, and behind what."""

import pytest

from fencepost.ports.runs import LeasedRun
from tests.support.desk import RUN_FIELDS, Desk


def busy(desk: Desk) -> str:
    """Let one run of a queueing schedule run, and two wait behind it; return the running one."""
    desk.schedule("sweep", agent="claude", cron="0 * * * *", timezone="UTC", overlap="queue", queue_max=3)
    desk.tick("2026-03-27T13:00:01Z")
    leased = desk.lease()
    for hour in (14, 15):
        desk.tick(f"2026-03-27T{hour}:00:01Z")
    desk.store.renew(leased.lease)
    desk.clock.pass_time(11)
    return leased.run.id


def test_an_idle_store_says_so_in_one_line(desk: Desk) -> None:
    assert desk.text("ps") == "nothing runs, nothing waits\n"
    assert desk.text("queue") == "nothing waits\n"
    assert desk.json("ps") == []


def test_ps_shows_for_how_long_with_which_fence_and_where(desk: Desk) -> None:
    running = busy(desk)
    run = desk.json("ps")[0]

    lines = desk.text("ps").splitlines()

    assert lines[0].split() == ["RUNNING", "WHAT", "FOR", "TRY", "FENCE", "WORKER"]
    assert lines[1].split()[:5] == [running, "sweep", "2h", "1", str(run["fence"])]


def test_ps_shows_below_it_what_waits_and_behind_what(desk: Desk) -> None:
    running = busy(desk)

    lines = desk.text("ps").splitlines()

    assert lines[3].split() == ["QUEUED", "WHAT", "FOR", "POS", "BEHIND"]
    assert [line.split()[3:5] for line in lines[4:]] == [["1", running], ["2", running]]


def test_the_queue_says_position_and_behind_what_for_how_long(desk: Desk) -> None:
    running = busy(desk)

    lines = desk.text("queue").splitlines()

    assert lines[1] == f"  queued · position 1 · behind {running} (claude, 2h)"
    assert lines[3] == f"  queued · position 2 · behind {running} (claude, 2h)"


def test_scripts_get_every_field_of_the_contract(desk: Desk) -> None:
    busy(desk)

    running, first, second = desk.json("ps")

    assert set(RUN_FIELDS) <= set(running)
    assert (running["state"], running["position"], running["started_at"]) == ("running", None, "2026-03-27T13:00:01Z")
    assert (first["state"], first["position"], first["tick"]) == ("ready", 1, "2026-03-27T14:00:00Z")
    assert second["position"] == 2
    assert running["resource"] == "schedule:sweep"
    assert (running["trigger"], running["attempt"], running["schedule_version"]) == ("cron", 1, 1)


def test_a_run_that_nobody_is_in_the_way_of_waits_for_a_worker(desk: Desk) -> None:
    desk.schedule(cron="0 * * * *", timezone="UTC")
    desk.tick("2026-03-27T13:00:01Z")

    assert "  queued · position 1 · waits for a worker" in desk.text("queue").splitlines()


def test_a_halt_is_named_as_what_a_run_waits_for(desk: Desk) -> None:
    desk.schedule(cron="0 * * * *", timezone="UTC")
    desk.tick("2026-03-27T13:00:01Z")
    desk.registry.halt("default", note="fire drill", actor="ada")

    assert "everything is halted" in desk.text("queue")


def test_another_tenant_sees_nothing(desk: Desk) -> None:
    busy(desk)

    assert desk.cli("key", "create", "ci", "--tenant", "other").code == 0
    assert desk.json("ps", "--tenant", "other") == []


def test_the_limit_bounds_the_listing(desk: Desk) -> None:
    busy(desk)

    assert len(desk.json("ps", "--limit", "2")) == 2
    assert desk.cli("ps", "--limit", "0").code == 2


def unattended(desk: Desk, how: str) -> LeasedRun:
    """Let the worker of a run be killed, or leave it, at 13:00:01."""
    desk.schedule(cron="0 * * * *", timezone="UTC")
    desk.tick("2026-03-27T13:00:01Z")
    leased = desk.lease(keeper="w1")
    if how == "left":
        desk.store.leave_runs([leased.lease], leave_for_seconds=120)
    desk.clock.pass_time(16)
    return leased


@pytest.mark.parametrize(("how", "ends"), [("killed", "13:00:31"), ("left", "13:02:01")])
def test_a_run_whose_worker_is_gone_says_since_when_and_until_when_it_goes_on(desk: Desk, how: str, ends: str) -> None:
    run = unattended(desk, how).run.id
    words = f"unattended since 2026-03-27T13:00:01Z, ends 2026-03-27T{ends}Z unless adopted"

    assert f"{run} is {words}." in desk.flat("ps")
    assert "unattended, " in desk.text("ps").splitlines()[1]
    assert words in desk.flat("show", run)
    assert f"Its worker is gone, and its guard keeps it going: {words}." in desk.flat("why", "nightly")
    assert [one["unattended_since"] for one in desk.json("ps")] == ["2026-03-27T13:00:01Z"]


@pytest.mark.parametrize(("keeper", "seconds"), [("w1", 14), (None, 29)])
def test_a_run_whose_worker_is_in_time_or_dies_with_it_is_not_called_unattended(
    desk: Desk, keeper: str | None, seconds: float
) -> None:
    desk.schedule(cron="0 * * * *", timezone="UTC")
    desk.tick("2026-03-27T13:00:01Z")
    desk.lease(keeper=keeper)
    desk.clock.pass_time(seconds)

    assert "unattended" not in desk.text("ps") + desk.text("why", "nightly")
    assert [one["unattended_since"] for one in desk.json("ps")] == [None]


def test_a_run_that_was_adopted_is_attended_again(desk: Desk) -> None:
    leased = unattended(desk, "left")
    assert desk.store.adopt_runs([leased.lease], keeper="w2")

    assert "unattended" not in desk.text("ps")
