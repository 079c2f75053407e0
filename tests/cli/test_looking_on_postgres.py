"""The looking commands over PostgreSQL: the same answers as over SQLite."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.model.run import Reason, RunState
from tests.support.desk import RUN_FIELDS, Desk, desk_at


@pytest.fixture
def desk(
    durable_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Desk]:
    """A desk over PostgreSQL, whose clock nobody can move."""
    with desk_at(durable_url, tmp_path, monkeypatch, capfd, start="2026-03-27T12:00:00Z") as found:
        yield found


def test_runs_are_seen_from_the_queue_to_the_desk_of_the_dead(desk: Desk) -> None:
    desk.schedule("sweep", every="1h", overlap="queue")
    desk.tick()
    assert "queued · position 1 · waits for a worker" in desk.text("queue")
    leased = desk.lease()

    (running,) = desk.json("ps")
    assert set(RUN_FIELDS) <= set(running)
    assert (running["id"], running["state"], running["fence"]) == (leased.run.id, "running", leased.lease.fence)
    assert "running for" in desk.flat("show", leased.run.id[:-1])
    assert f"Run {leased.run.id} is running for it" in desk.flat("why", "sweep")

    desk.settle(leased, RunState.DEAD, Reason.EXIT_CODE, exit_code=3, last_log="boom\n")
    (dead,) = desk.json("runs", "--state", "dead", "--since", "1h", "--schedule", "sweep", "--agent", "digest")
    assert dead["exit_code"] == 3
    assert "Its last line: boom" in desk.flat("why", "sweep")
    assert desk.cli("logs", leased.run.id).out == b"boom\n"


def test_ticks_pauses_and_the_audit_are_seen(desk: Desk) -> None:
    desk.schedule("nightly", cron="30 2 * * *", timezone="Europe/Berlin")
    desk.schedule("sweep", every="1h")
    desk.tick()
    desk.registry.pause("default", "nightly", until=None, note="holidays", actor="grace")

    (tick,) = desk.json("schedule-ticks", "sweep", "--disposition", "run")
    assert tick["count"] == 1
    assert "Now: the schedule was paused by grace" in desk.flat("why", "nightly")
    assert {"tick", "pause", "apply"} <= {row["verb"] for row in desk.json("audit", "list")}
    assert desk.json("dst-check", "--years", "2")
    assert desk.cli("why", "nightyl").err.endswith("did you mean 'nightly'?\n")


def test_the_doctor_compares_clocks(desk: Desk) -> None:
    told = desk.cli("doctor")

    assert "this clock is" in " ".join(told.out.decode().split())  # the desk's clock stands still
