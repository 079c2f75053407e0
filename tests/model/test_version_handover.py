"""Where a new version starts: nothing decided fires again, nothing owed is lost."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from fencepost.model.definition import ScheduleDefinition, trigger_of
from fencepost.model.missed import INSTANT
from fencepost.model.run import TriggerKind
from fencepost.model.trigger import EveryTrigger
from fencepost.model.version_handover import Before, ends_at, hand_over

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
DAILY = ScheduleDefinition("daily", "echo", cron="0 9 * * *", timezone="UTC")
EVERY = ScheduleDefinition("often", "echo", every="15m")


def before(cursor: datetime, due: datetime | None, trigger: TriggerKind = TriggerKind.CRON) -> Before:
    return Before(trigger, cursor, due, once_done=False)


def at(instant: datetime, **fields: str) -> ScheduleDefinition:
    return ScheduleDefinition("shot", "echo", at=instant.isoformat().replace("+00:00", "Z"), **fields)  # type: ignore[arg-type]


def test_a_new_schedule_fires_strictly_after_its_apply() -> None:
    start = hand_over(replace(DAILY, cron="0 12 * * *"), None, now=NOON)
    assert start == (NOON, NOON + 24 * HOUR, False)


def test_a_slot_that_an_edit_moved_into_the_past_is_not_made_up_for() -> None:
    ran_at_nine = before(NOON - 3 * HOUR, NOON + 21 * HOUR)
    start = hand_over(replace(DAILY, cron="0 11 * * *", missed="replay"), ran_at_nine, now=NOON)
    assert start.cursor == NOON
    assert start.due == NOON + 23 * HOUR


def test_ticks_that_are_owed_are_the_new_versions_to_decide() -> None:
    down_since_yesterday = before(NOON - 27 * HOUR, NOON - 3 * HOUR)
    start = hand_over(replace(DAILY, overlap="queue"), down_since_yesterday, now=NOON)
    assert start.cursor == NOON - 27 * HOUR
    assert start.due == NOON - 3 * HOUR


def test_what_was_disabled_or_retired_owes_nothing_for_that_time() -> None:
    start = hand_over(DAILY, before(NOON - 100 * HOUR, None), now=NOON)
    assert start.cursor == NOON
    assert start.due == NOON + 21 * HOUR


def test_a_disabled_schedule_is_never_looked_at() -> None:
    assert hand_over(replace(DAILY, enabled=False), None, now=NOON).due is None


def test_a_cursor_ahead_of_the_clock_stays() -> None:
    ahead = before(NOON + HOUR, NOON + 21 * HOUR)
    assert hand_over(DAILY, ahead, now=NOON).cursor == NOON + HOUR


def test_the_first_every_is_due_at_its_anchor_or_at_apply() -> None:
    assert hand_over(EVERY, None, now=NOON) == (NOON, NOON, False)
    anchored = replace(EVERY, anchor="2026-11-16T00:00:00Z")
    assert hand_over(anchored, None, now=NOON).due == NOON + 12 * HOUR


def test_a_changed_every_is_looked_at_once_since_only_the_ticker_knows_the_last_end() -> None:
    running = before(NOON - HOUR, None, TriggerKind.EVERY)
    start = hand_over(replace(EVERY, every="1d"), running, now=NOON)
    assert start == (NOON - HOUR, NOON, False)


def test_from_every_to_cron_the_time_before_is_not_made_up_for() -> None:
    start = hand_over(DAILY, before(NOON - 10 * HOUR, NOON - HOUR, TriggerKind.EVERY), now=NOON)
    assert start.cursor == NOON


def test_a_one_shot_within_grace_still_runs() -> None:
    start = hand_over(at(NOON - timedelta(seconds=30)), None, now=NOON)
    assert start.due == NOON - timedelta(seconds=30)
    assert start.cursor < start.due


def test_a_one_shot_after_its_grace_never_runs() -> None:
    assert hand_over(at(NOON - 2 * MINUTE), None, now=NOON) == (NOON, None, False)


def test_a_one_shot_that_has_run_does_not_run_again_when_its_agent_changes() -> None:
    done = before(NOON - timedelta(seconds=5), None, TriggerKind.AT)
    assert hand_over(at(NOON - timedelta(seconds=10)), done, now=NOON).due is None


def test_a_one_shot_moved_to_later_runs_at_the_new_time() -> None:
    done = before(NOON - HOUR, None, TriggerKind.AT)
    assert hand_over(at(NOON + HOUR), done, now=NOON).due == NOON + HOUR


def test_once_stays_done_unless_its_trigger_changes() -> None:
    done = Before(TriggerKind.CRON, NOON - HOUR, None, once_done=True)
    assert hand_over(replace(DAILY, once=True), done, now=NOON) == (NOON, None, True)
    assert hand_over(replace(DAILY, once=True), done, now=NOON, rearmed=True).due == NOON + 21 * HOUR


def test_a_version_that_owes_nothing_counts_up_to_its_end() -> None:
    assert ends_at(before(NOON - HOUR, NOON + HOUR), now=NOON) == NOON
    assert ends_at(before(NOON - HOUR, NOON - MINUTE), now=NOON) == NOON - HOUR


slots = st.builds("{} {} * * *".format, st.integers(0, 59), st.integers(0, 23))


@given(old=slots, new=slots, lag_minutes=st.integers(0, 72 * 60))
def test_an_edit_at_any_offset_loses_no_owed_tick_and_repeats_none(old: str, new: str, lag_minutes: int) -> None:
    """Whatever the old version decided lies at or before the cursor, and the new one only decides what is after it."""
    trigger, cursor = trigger_of(replace(DAILY, cron=old)), NOON - lag_minutes * MINUTE
    assert not isinstance(trigger, EveryTrigger)
    due = trigger.next_after(cursor)
    assert due is not None
    start = hand_over(replace(DAILY, cron=new), before(cursor, due.tick_at), now=NOON)
    assert start.cursor >= cursor
    assert start.due is not None
    assert start.due > start.cursor
    if due.tick_at > NOON:
        assert start.due > NOON
        assert trigger.count_between(cursor + INSTANT, start.cursor + INSTANT) == 0
    else:
        assert start.cursor == cursor
