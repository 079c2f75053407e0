"""The seam for users' own tests: a run on a real store with a real lease, and no daemon."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fencepost import FenceRefused, InDoubt, RunContext
from fencepost.model.errors import Misconfigured
from fencepost.testing import ManualClock, rehearsal

OCTOBER = (datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))


def test_a_function_sees_the_run_that_the_test_made_up() -> None:
    def look(run: RunContext) -> list[object]:
        return [run.payload, run.tick, run.period, run.schedule, run.trigger, run.attempt, run.resuming, run.cancelled]

    with rehearsal(payload={"n": 1}, tick=OCTOBER[1], period=OCTOBER, schedule="books", trigger="cron") as stage:
        assert stage.call(look) == [{"n": 1}, OCTOBER[1], OCTOBER, "books", "cron", 1, False, False]


def test_an_async_function_is_awaited() -> None:
    async def later(run: RunContext) -> int:
        async def effect() -> int:
            return 17

        return await run.once("k", effect)

    with rehearsal() as stage:
        assert stage.call(later) == 17
        assert [(entry.key, entry.standing) for entry in stage.ledger] == [("k", "completed")]


def test_the_next_attempt_resumes_with_its_checkpoint_and_does_not_repeat() -> None:
    effects: list[int] = []

    def step(run: RunContext) -> list[object]:
        run.once("invoice", lambda: effects.append(1))
        run.checkpoint = {"page": run.attempt}
        return [run.attempt, run.resuming]

    with rehearsal() as stage:
        assert stage.call(step) == [1, False]
        before = stage.context.fence
        stage.again()
        assert stage.context.checkpoint == {"page": 1}
        assert stage.call(step) == [2, True]
        assert stage.context.fence > before
        assert stage.checkpoint == {"page": 2}
    assert effects == [1]


def test_an_effect_that_died_half_way_is_in_doubt_for_the_next_attempt() -> None:
    def dies(run: RunContext) -> None:
        def effect() -> None:
            raise TimeoutError

        run.once("pay", effect)

    with rehearsal() as stage:
        with pytest.raises(TimeoutError):
            stage.call(dies)
        stage.again()
        with pytest.raises(InDoubt):
            stage.call(dies)


def test_a_run_that_lost_its_lease_records_nothing_more() -> None:
    effects: list[int] = []

    with rehearsal() as stage:
        stage.lose_lease()
        with pytest.raises(FenceRefused):
            stage.context.once("pay", lambda: effects.append(1))
        with pytest.raises(FenceRefused):
            stage.context.checkpoint = 1
    assert effects == []


def test_time_runs_out_when_the_test_says_so() -> None:
    clock = ManualClock()

    with rehearsal(clock=clock) as stage:
        assert not stage.context.cancelled
        clock.advance(timedelta(hours=2))
        assert stage.context.cancelled


def test_a_run_that_is_cancelled_is_told() -> None:
    with rehearsal() as stage:
        stage.cancel()
        assert stage.context.cancelled


def test_a_declared_gate_takes_the_write_and_another_one_does_not(tmp_path: Path) -> None:
    target = f"file:{tmp_path}/report.json"

    with rehearsal(gates=[target]) as stage:
        zombie = stage.context.gate(target)
        zombie.write(b"1")
        with pytest.raises(Misconfigured):
            stage.context.gate(f"file:{tmp_path}/other").write(b"2")
        stage.again()
        stage.context.gate(target).write(json.dumps({"fence": stage.context.fence}).encode())
        with pytest.raises(FenceRefused):
            zombie.port.write(zombie.proof, b"late")  # type: ignore[attr-defined]
        newest = stage.context.fence

    assert json.loads((tmp_path / "report.json").read_text()) == {"fence": newest}
