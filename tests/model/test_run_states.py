from itertools import product
from pathlib import Path

import pytest

from fencepost.model.budget import FREE, BudgetDenied, Reservation
from fencepost.model.recheck import Recheck, recheck
from fencepost.model.run import MOVES, Reason, RunState, TriggerKind, is_legal, move
from fencepost.model.run_page import DISPOSITIONS, REASONS, STATES, TRIGGERS, mermaid, render
from tests.model.tick_sources import at

PAGE = Path(__file__).parents[2] / "docs/reference/run-states.md"
RENEW = f"python -c \"from fencepost.model.run_page import render; print(render(), end='')\" > {PAGE.name}"
GO = Reservation(FREE, at(0))
BROKE = BudgetDenied("day", "nothing left")


def test_a_run_begins_ready_and_ends_in_one_of_three_states() -> None:
    assert {state for state in RunState if state.terminal} == {
        RunState.SUCCEEDED,
        RunState.DEAD,
        RunState.CANCELLED,
    }


def test_every_state_can_be_reached_and_the_end_from_everywhere() -> None:
    reached = {RunState.READY} | {one.target for one in MOVES}

    assert reached == set(RunState)
    assert all(
        state.terminal or any(one.origin is state and one.target.terminal for one in MOVES) for state in RunState
    )


def test_no_pair_of_states_stands_in_the_table_twice() -> None:
    pairs = [(one.origin, one.target) for one in MOVES]

    assert len(set(pairs)) == len(pairs)


def test_every_reason_is_used_by_some_move() -> None:
    assert set().union(*(one.reasons for one in MOVES)) == set(Reason)


@pytest.mark.parametrize(("origin", "target"), list(product(RunState, RunState)))
def test_a_move_is_made_only_for_its_reasons_and_the_end_absorbs(origin: RunState, target: RunState) -> None:
    for reason in [None, *Reason]:
        if origin.terminal:
            assert move(origin, target, reason) is origin
        elif is_legal(origin, target, reason):
            assert move(origin, target, reason) is target
        else:
            with pytest.raises(AssertionError, match="no move"):
                move(origin, target, reason)


def test_only_ticks_may_be_skipped_and_only_attended_runs_are_safe_from_policies() -> None:
    assert [kind for kind in TriggerKind if kind.tick_born] == [TriggerKind.CRON, TriggerKind.EVERY, TriggerKind.AT]
    assert [kind for kind in TriggerKind if kind.attended] == [TriggerKind.EXEC, TriggerKind.SESSION]


def test_the_picture_shows_every_move() -> None:
    picture = mermaid()

    assert picture.startswith("stateDiagram-v2\n    [*] --> ready\n")
    assert all(f"    {one.origin} --> {one.target}: " in picture for one in MOVES)
    assert picture.endswith("    succeeded --> [*]\n    dead --> [*]\n    cancelled --> [*]")


def test_the_page_explains_every_word() -> None:
    for meanings in (STATES, REASONS, TRIGGERS, DISPOSITIONS):
        assert list(meanings) == list(type(next(iter(meanings))))


def test_the_committed_page_is_what_the_table_says() -> None:
    assert PAGE.read_text() == render(), f"renew it: cd docs/reference && {RENEW}"


def facts(
    trigger: TriggerKind = TriggerKind.CRON,
    *,
    started: bool = False,
    enabled: bool = True,
    paused: bool = False,
    in_blackout: bool = False,
    budget: Reservation | BudgetDenied = GO,
) -> Recheck:
    return Recheck(trigger, started, enabled, paused, in_blackout, budget)


@pytest.mark.parametrize("trigger", TriggerKind)
@pytest.mark.parametrize("started", [False, True])
def test_a_run_goes_when_nothing_has_changed(trigger: TriggerKind, started: bool) -> None:  # noqa: FBT001
    assert recheck(facts(trigger, started=started)) is None


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (facts(enabled=False, paused=True, budget=BROKE), Reason.DISABLED),
        (facts(paused=True, in_blackout=True), Reason.PAUSED),
        (facts(in_blackout=True, budget=BROKE), Reason.CALENDAR),
        (facts(budget=BROKE), Reason.BUDGET),
        (facts(TriggerKind.WEBHOOK, enabled=False), Reason.DISABLED),
        (facts(TriggerKind.MANUAL, budget=BROKE), Reason.BUDGET),
        (facts(started=True, budget=BROKE), Reason.BUDGET),
    ],
)
def test_a_run_whose_turn_comes_too_late_is_cancelled_with_the_reason(changed: Recheck, reason: Reason) -> None:
    assert recheck(changed) is reason
    assert is_legal(RunState.READY, RunState.CANCELLED, reason)


@pytest.mark.parametrize("trigger", [kind for kind in TriggerKind if not kind.tick_born])
def test_pause_and_calendar_are_about_ticks_only(trigger: TriggerKind) -> None:
    assert recheck(facts(trigger, paused=True, in_blackout=True)) is None


def test_a_run_that_has_started_goes_on_through_a_pause_and_a_blackout() -> None:
    assert recheck(facts(started=True, enabled=False, paused=True, in_blackout=True)) is None
