from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.model.decide import Decision, Facts, Policies, decide, decide_every
from fencepost.model.disposition import DispositionKind, Hold, Window
from fencepost.model.errors import Invalid
from fencepost.model.missed import (
    INSTANT,
    ON_TIME_MAX,
    Due,
    MissedPlan,
    MissedPolicy,
    MissedRule,
    Passed,
    TickSource,
    plan,
)
from fencepost.model.overlap import LiveStanding, OverlapPolicy, OverlapRule, UnendedRun
from fencepost.model.pause import SkipNext, pause, resume
from fencepost.model.run import RunId, TriggerKind
from fencepost.model.trigger import at_trigger, cron_trigger
from tests.model.tick_sources import DAY, EPOCH, HOUR, MINUTE, SECOND, Listed, Regular, at

RUN, MISSED, COALESCED = DispositionKind.RUN, DispositionKind.MISSED, DispositionKind.COALESCED
OVERLAP, PAUSED, CALENDAR = DispositionKind.OVERLAP, DispositionKind.PAUSED, DispositionKind.CALENDAR
SKIP = MissedPolicy()
COALESCE = MissedPolicy(MissedRule.COALESCE)
REPLAY = MissedPolicy(MissedRule.REPLAY)
QUEUE = OverlapPolicy(OverlapRule.QUEUE, queue_max=1000)

seconds = st.integers(-50, 400)
listed = st.sets(seconds, max_size=40).map(lambda found: Listed([at(n) for n in sorted(found)]))
holds = st.lists(
    st.builds(
        lambda start, length, kind: Hold(Window(at(start), at(start + length)), kind),
        seconds,
        st.integers(0, 100),
        st.sampled_from([PAUSED, CALENDAR]),
    ),
    max_size=5,
).map(tuple)
missed_policies = st.builds(
    MissedPolicy,
    st.sampled_from(MissedRule),
    grace=st.integers(0, 60).map(lambda n: n * SECOND),
    catchup_window=st.integers(0, 300).map(lambda n: n * SECOND),
    catchup_max=st.integers(1, 12),
    stagger=st.integers(0, 60).map(lambda n: n * SECOND),
)
overlap_policies = st.builds(
    OverlapPolicy, st.sampled_from(OverlapRule), queue_max=st.integers(1, 3), parallel_max=st.integers(1, 3)
)
live_runs = st.lists(
    st.tuples(st.sampled_from(TriggerKind), st.sampled_from(LiveStanding), st.booleans()), max_size=4
).map(lambda found: tuple(UnendedRun(RunId(f"r{n}"), *one) for n, one in enumerate(found)))
facts_and_policies = st.tuples(
    st.builds(
        Facts,
        schedule=st.just("digest"),
        trigger=st.just(TriggerKind.CRON),
        cursor=seconds.map(at),
        live=live_runs,
        holds=holds,
        skip_next=st.none() | st.builds(SkipNext, asked_at=seconds.map(at), left=st.integers(0, 3)),
        last_success=st.none() | seconds.map(at),
    ),
    st.builds(Policies, missed=missed_policies, overlap=overlap_policies),
)


def facts(
    cursor: datetime,
    *,
    live: tuple[UnendedRun, ...] = (),
    holds: tuple[Hold, ...] = (),
    skip_next: SkipNext | None = None,
    last_success: datetime | None = None,
) -> Facts:
    return Facts(
        "digest", TriggerKind.CRON, cursor, live=live, holds=holds, skip_next=skip_next, last_success=last_success
    )


def kinds(decision: Decision) -> list[tuple[DispositionKind, int]]:
    return [(one.kind, one.count) for one in decision.dispositions]


def due(planned: MissedPlan) -> list[Due]:
    return [item for item in planned.items if isinstance(item, Due)]


def passed(planned: MissedPlan) -> list[tuple[DispositionKind, int]]:
    return [(item.kind, item.span.count) for item in planned.items if isinstance(item, Passed)]


def accounted(source: Listed, decision: Decision) -> list[datetime]:
    """Every tick that a disposition covers, as often as it is covered."""
    found = []
    for one in decision.dispositions:
        covered = [tick for tick in source.ticks if one.slot <= tick <= one.slot_until]
        assert len(covered) == one.count
        assert [covered[0], covered[-1]] == [one.slot, one.slot_until]
        found += covered
    return found


@given(listed, facts_and_policies, seconds.map(at))
def test_every_owed_tick_has_exactly_one_disposition(
    source: Listed, given_facts: tuple[Facts, Policies], now: datetime
) -> None:
    known, policies = given_facts
    decision = decide(source, known, policies, now=now)

    assert accounted(source, decision) == [tick for tick in source.ticks if known.cursor < tick <= now]
    assert decision.cursor == max(known.cursor, now)


@given(listed, facts_and_policies, seconds.map(at), seconds.map(at))
def test_deciding_in_two_pieces_accounts_for_the_same_ticks_as_deciding_once(
    source: Listed, given_facts: tuple[Facts, Policies], one: datetime, other: datetime
) -> None:
    known, policies = given_facts
    earlier, later = sorted([one, other])
    first = decide(source, known, policies, now=earlier)
    second = decide(source, replace(known, cursor=first.cursor, skip_next=first.skip_next), policies, now=later)
    once = decide(source, known, policies, now=later)

    assert accounted(source, first) + accounted(source, second) == accounted(source, once)


@given(listed, facts_and_policies, seconds.map(at))
def test_deciding_again_with_the_new_cursor_decides_nothing(
    source: Listed, given_facts: tuple[Facts, Policies], now: datetime
) -> None:
    known, policies = given_facts
    cursor = decide(source, known, policies, now=now).cursor

    assert decide(source, replace(known, cursor=cursor), policies, now=now).dispositions == ()


@given(listed, facts_and_policies, seconds.map(at))
def test_dispositions_are_ordered_and_disjoint_and_neighbours_differ(
    source: Listed, given_facts: tuple[Facts, Policies], now: datetime
) -> None:
    known, policies = given_facts
    for one, following in pairwise(decide(source, known, policies, now=now).dispositions):
        assert one.slot <= one.slot_until < following.slot
        assert (one.kind, one.into) != (following.kind, following.into) or one.kind is RUN


@given(listed, facts_and_policies, seconds.map(at))
def test_a_run_stands_for_one_tick_that_the_trigger_really_has(
    source: Listed, given_facts: tuple[Facts, Policies], now: datetime
) -> None:
    known, policies = given_facts
    for one in decide(source, known, policies, now=now).dispositions:
        assert (one.run is not None) == (one.kind is RUN)
        if one.run:
            assert one.slot == one.slot_until == one.run.tick
            assert one.run.tick in source.ticks
            assert one.count == 1


@given(listed, facts_and_policies, seconds.map(at))
def test_late_runs_are_bounded_and_within_reach(
    source: Listed, given_facts: tuple[Facts, Policies], now: datetime
) -> None:
    known, policies = given_facts
    runs = [one.run for one in decide(source, known, policies, now=now).dispositions if one.run]
    late = [run for run in runs if run.late]
    backlog = sum(run.lines_up and run.trigger.tick_born for run in known.live)
    room = max(0, policies.missed.catchup_max - backlog)

    assert len(late) <= {MissedRule.SKIP: 0, MissedRule.COALESCE: 1, MissedRule.REPLAY: room}[policies.missed.rule]
    assert sum(run.lines_up for run in runs) <= room
    assert all(run.tick >= now - policies.missed.catchup_window for run in late)
    assert all(run.ready_at >= now for run in late)


@given(listed, facts_and_policies, seconds.map(at))
def test_a_tick_is_missed_only_when_it_is_later_than_grace(
    source: Listed, given_facts: tuple[Facts, Policies], now: datetime
) -> None:
    known, policies = given_facts
    for one in decide(source, known, policies, now=now).dispositions:
        if one.kind is MISSED:
            assert now - one.slot_until > policies.missed.grace


@given(listed, facts_and_policies, seconds.map(at))
def test_no_tick_runs_inside_a_hold(source: Listed, given_facts: tuple[Facts, Policies], now: datetime) -> None:
    known, policies = given_facts
    for one in decide(source, known, policies, now=now).dispositions:
        held = {hold.kind for hold in known.holds if hold.window.start <= one.slot < hold.window.end}
        if PAUSED in held:
            assert one.kind is PAUSED
        if CALENDAR in held:
            assert one.kind in {PAUSED, CALENDAR, MISSED}
        if one.kind is CALENDAR:
            assert CALENDAR in held


@pytest.mark.parametrize(
    ("late_by", "expected"),
    [(timedelta(0), RUN), (60 * SECOND, RUN), (60 * SECOND + INSTANT, MISSED), (HOUR, MISSED)],
)
def test_a_tick_that_is_exactly_grace_old_still_runs(late_by: timedelta, expected: DispositionKind) -> None:
    decision = decide(Listed([at(0)]), facts(at(-10)), Policies(), now=at(0) + late_by)

    assert kinds(decision) == [(expected, 1)]


@pytest.mark.parametrize(
    ("age", "expected"), [(HOUR, RUN), (HOUR + INSTANT, MISSED)], ids=["within reach", "out of reach"]
)
@pytest.mark.parametrize("rule", [MissedRule.COALESCE, MissedRule.REPLAY])
def test_a_late_tick_that_is_exactly_the_window_old_is_caught_up(
    rule: MissedRule, age: timedelta, expected: DispositionKind
) -> None:
    policies = Policies(MissedPolicy(rule, catchup_window=HOUR))

    assert kinds(decide(Listed([at(0)]), facts(at(-10)), policies, now=at(0) + age)) == [(expected, 1)]


def test_the_cursors_own_tick_is_never_decided_again_and_a_tick_at_now_is_decided() -> None:
    decision = decide(Listed([at(0), at(10)]), facts(at(0)), Policies(), now=at(10))

    assert [one.slot for one in decision.dispositions] == [at(10)]


def test_a_clock_that_went_back_owes_nothing_and_keeps_the_cursor() -> None:
    assert decide(Regular(), facts(at(100)), Policies(), now=at(50)) == Decision((), at(100))


@pytest.mark.parametrize("missed", [SKIP, COALESCE, REPLAY], ids=lambda policy: policy.rule)
@pytest.mark.parametrize("rule", OverlapRule)
def test_a_year_of_missed_seconds_costs_a_constant_number_of_questions_and_rows(
    missed: MissedPolicy, rule: OverlapRule
) -> None:
    source = Regular()
    policies = Policies(missed, OverlapPolicy(rule))
    decision = decide(source, facts(EPOCH), policies, now=EPOCH + 365 * DAY)

    assert sum(one.count for one in decision.dispositions) == 365 * 86_400
    assert len(decision.dispositions) <= 20
    assert source.calls <= 250


def test_a_longer_outage_costs_no_more_questions() -> None:
    month, decade = Regular(), Regular()
    decide(month, facts(EPOCH), Policies(COALESCE), now=EPOCH + 30 * DAY)
    decide(decade, facts(EPOCH), Policies(COALESCE), now=EPOCH + 3650 * DAY)

    assert month.calls == decade.calls <= 10


def test_a_year_of_nightly_blackouts_does_not_cost_a_row_for_each_night() -> None:
    nights = tuple(Hold(Window(EPOCH + DAY * n, EPOCH + DAY * n + 6 * HOUR), CALENDAR) for n in range(365))
    decision = decide(Regular(), facts(EPOCH, holds=nights), Policies(COALESCE), now=EPOCH + 365 * DAY)

    assert sum(one.count for one in decision.dispositions) == 365 * 86_400
    assert len(decision.dispositions) <= 20


def test_real_triggers_are_tick_sources() -> None:
    every_second: TickSource = cron_trigger("* * * * * *", "Europe/Berlin")
    once: TickSource = at_trigger("2026-01-01T00:00:10Z")

    decision = decide(every_second, facts(EPOCH), Policies(), now=EPOCH + 365 * DAY)
    assert kinds(decision) == [(MISSED, 365 * 86_400 - 61), (RUN, 1), (OVERLAP, 60)]
    assert kinds(decide(once, facts(EPOCH), Policies(), now=at(70))) == [(RUN, 1)]


def test_a_one_shot_in_the_past_ends_as_missed() -> None:
    assert kinds(decide(Listed([at(0)]), facts(at(-1)), Policies(), now=at(61))) == [(MISSED, 1)]


def test_skip_runs_what_is_on_time_and_misses_the_rest() -> None:
    planned = plan(Regular(MINUTE), cursor=at(0), now=at(600), policy=SKIP)

    assert passed(planned) == [(MISSED, 8)]
    assert [one.tick for one in due(planned)] == [at(540), at(600)]


def test_an_on_time_run_covers_the_time_since_the_tick_before_it() -> None:
    (one,) = due(plan(Regular(HOUR), cursor=at(0), now=at(3600), policy=SKIP, last_success=at(-7200)))

    assert (one.period_start, one.tick, one.ready_at) == (at(0), at(3600), at(3600))


def test_coalesce_makes_one_run_for_the_newest_tick_that_covers_all_since_the_last_success() -> None:
    known = facts(at(0), last_success=at(-3600))
    decision = decide(Regular(HOUR), known, Policies(COALESCE), now=at(5 * 3600 + 1800))
    coalesced, made = decision.dispositions

    assert (coalesced.kind, coalesced.slot, coalesced.slot_until, coalesced.count) == (
        COALESCED,
        at(3600),
        at(4 * 3600),
        4,
    )
    assert coalesced.into == made.slot == at(5 * 3600)
    assert made.run is not None
    assert made.run.period_start == made.run.backfill_from == at(-3600)


def test_coalesce_without_any_success_covers_from_before_the_first_missed_tick() -> None:
    (one,) = due(plan(Regular(HOUR), cursor=at(0), now=at(5 * 3600 + 1800), policy=COALESCE))

    assert one.period_start == at(0)


def test_a_success_of_the_very_tick_does_not_make_an_empty_period() -> None:
    (one,) = due(plan(Listed([at(0), at(100)]), cursor=at(50), now=at(300), policy=COALESCE, last_success=at(100)))

    assert one.period_start == at(0)


def test_a_late_tick_and_one_on_time_coalesce_into_a_single_run_at_once() -> None:
    decision = decide(Regular(HOUR), facts(at(0)), Policies(COALESCE), now=at(3 * 3600 + 5))

    assert kinds(decision) == [(COALESCED, 2), (RUN, 1)]
    assert decision.dispositions[-1].run is not None
    assert decision.dispositions[-1].run.ready_at == at(3 * 3600)


def test_coalesce_leaves_ticks_alone_that_are_all_on_time() -> None:
    decision = decide(Regular(10 * SECOND), facts(at(0)), Policies(COALESCE, QUEUE), now=at(35))

    assert kinds(decision) == [(RUN, 1)] * 3


def test_coalesced_ticks_share_the_reason_when_their_run_is_not_let_in() -> None:
    running = UnendedRun(RunId("r1"), TriggerKind.CRON, LiveStanding.RUNNING)
    decision = decide(Regular(HOUR), facts(at(0), live=(running,)), Policies(COALESCE), now=at(5 * 3600 + 1800))

    assert kinds(decision) == [(OVERLAP, 5)]


@given(st.integers(1, 12), st.integers(0, 14), st.integers(1, 500))
def test_replay_runs_the_newest_late_ticks_each_in_order_within_the_bound(
    catchup_max: int, backlog: int, hours: int
) -> None:
    policy = MissedPolicy(MissedRule.REPLAY, catchup_max=catchup_max)
    planned = plan(Regular(HOUR), cursor=at(0), now=at(hours * 3600 + 1800), policy=policy, backlog=backlog)
    ticks = [one.tick for one in due(planned)]
    reachable = min(hours, 7 * 24)
    wanted = max(0, min(catchup_max - backlog, reachable))

    assert ticks == [at(n * 3600) for n in range(hours - wanted + 1, hours + 1)]
    assert all(one.lines_up and one.period_start == one.tick - HOUR for one in due(planned))
    assert passed(planned) == ([(MISSED, hours - wanted)] if hours > wanted else [])


def test_replay_keeps_order_and_distance_also_behind_an_earlier_backlog() -> None:
    policy = MissedPolicy(MissedRule.REPLAY, stagger=MINUTE)
    starts = [one.ready_at for one in due(plan(Regular(HOUR), cursor=at(0), now=at(20_000), policy=policy, backlog=3))]

    assert len(starts) == 5
    assert {following - one for one, following in pairwise(starts)} == {MINUTE}
    assert at(20_000) + 3 * MINUTE <= starts[0] < at(20_000) + 4 * MINUTE


def test_replayed_ticks_line_up_under_forbid_and_the_tick_on_time_joins_them() -> None:
    decision = decide(Regular(HOUR), facts(at(0)), Policies(REPLAY), now=at(4 * 3600 + 5))

    assert kinds(decision) == [(RUN, 1)] * 4


def test_a_tick_that_finds_a_replay_under_way_joins_its_end() -> None:
    waiting = UnendedRun(RunId("r1"), TriggerKind.CRON, LiveStanding.QUEUED, lines_up=True)
    decision = decide(Regular(HOUR), facts(at(0), live=(waiting,)), Policies(REPLAY), now=at(3600))

    assert kinds(decision) == [(RUN, 1)]


def test_a_full_replay_line_leaves_a_tick_on_time_to_the_overlap_rule() -> None:
    line = tuple(UnendedRun(RunId(f"r{n}"), TriggerKind.CRON, LiveStanding.QUEUED, lines_up=True) for n in range(10))
    decision = decide(Regular(HOUR), facts(at(0), live=line), Policies(REPLAY), now=at(2 * 3600))

    assert kinds(decision) == [(MISSED, 1), (OVERLAP, 1)]


def test_schedules_that_wake_together_start_apart() -> None:
    starts = {
        due(plan(Regular(HOUR), cursor=at(0), now=at(9000), policy=COALESCE, schedule=f"s{n}"))[0].ready_at
        for n in range(200)
    }

    assert len(starts) == 200
    assert all(at(9000) <= start < at(9030) for start in starts)


def test_ticks_on_time_that_are_too_many_for_one_decision_stay_beyond_the_cursor() -> None:
    policies = Policies(MissedPolicy(grace=DAY), OverlapPolicy(OverlapRule.QUEUE))
    first = decide(Regular(), facts(at(0)), policies, now=at(5000))
    second = decide(Regular(), facts(first.cursor), policies, now=at(5000))

    assert first.cursor == at(ON_TIME_MAX)
    assert sum(one.count for one in first.dispositions) == ON_TIME_MAX
    assert second.dispositions[0].slot == at(ON_TIME_MAX + 1)


def test_under_queue_only_the_newest_of_several_ticks_becomes_a_run() -> None:
    policies = Policies(overlap=OverlapPolicy(OverlapRule.QUEUE))

    assert kinds(decide(Regular(), facts(at(0)), policies, now=at(50))) == [(OVERLAP, 49), (RUN, 1)]


def test_a_pause_outranks_the_calendar_and_both_outrank_a_miss() -> None:
    held = (Hold(Window(at(100), at(200)), CALENDAR), Hold(Window(at(150), at(300)), PAUSED))
    decision = decide(Regular(10 * SECOND), facts(at(0), holds=held), Policies(), now=at(500))

    assert kinds(decision)[:4] == [(MISSED, 9), (CALENDAR, 5), (PAUSED, 15), (MISSED, 14)]


def test_ticks_of_a_pause_are_not_caught_up_after_it() -> None:
    paused = pause(at(0), until=at(4 * 3600))
    known = facts(at(0), holds=(resume(paused, at(2 * 3600)).hold(),))
    decision = decide(Regular(HOUR), known, Policies(COALESCE), now=at(3 * 3600 + 1800))

    assert kinds(decision) == [(PAUSED, 1), (COALESCED, 1), (RUN, 1)]


def test_skip_next_skips_one_tick_wherever_the_decisions_are_cut() -> None:
    known = facts(at(0), skip_next=SkipNext(at(30)))
    first = decide(Regular(MINUTE), known, Policies(), now=at(45))
    second = decide(
        Regular(MINUTE), replace(known, cursor=first.cursor, skip_next=first.skip_next), Policies(), now=at(60)
    )
    third = decide(
        Regular(MINUTE), replace(known, cursor=second.cursor, skip_next=second.skip_next), Policies(), now=at(120)
    )

    assert [kinds(first), kinds(second), kinds(third)] == [[], [(PAUSED, 1)], [(RUN, 1)]]
    assert third.skip_next == SkipNext(at(30), left=0)


def test_skip_next_does_not_touch_ticks_that_were_owed_before_it_was_said() -> None:
    decision = decide(Regular(MINUTE), facts(at(0), skip_next=SkipNext(at(90))), Policies(overlap=QUEUE), now=at(120))

    assert kinds(decision) == [(RUN, 1), (PAUSED, 1)]


def test_an_every_tick_is_never_missed_however_late() -> None:
    decision = decide_every(facts(at(0)), Policies(), due_at=at(60), now=at(10**6))

    assert kinds(decision) == [(RUN, 1)]
    assert decision.cursor == at(60)


def test_an_every_tick_that_is_not_due_yet_waits_for_nothing() -> None:
    assert decide_every(facts(at(0)), Policies(), due_at=at(60), now=at(59)) == Decision((), at(0))


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        (facts(at(0), holds=(Hold(Window(at(0), at(99)), CALENDAR), Hold(Window(at(0), at(99)), PAUSED))), PAUSED),
        (facts(at(0), holds=(Hold(Window(at(0), at(99)), CALENDAR),)), CALENDAR),
        (facts(at(0), live=(UnendedRun(RunId("r1"), TriggerKind.MANUAL, LiveStanding.RUNNING),)), OVERLAP),
    ],
    ids=["paused", "calendar", "overlap"],
)
def test_an_every_tick_waits_for_what_is_in_its_way_since_a_skip_would_end_it(
    known: Facts, reason: DispositionKind
) -> None:
    waiting = decide_every(known, Policies(), due_at=at(60), now=at(70))

    assert (waiting.waits, waiting.dispositions, waiting.cursor) == (reason, (), at(0))


@pytest.mark.parametrize(
    "wrong",
    [
        {"grace": -SECOND},
        {"catchup_window": 10_000 * DAY},
        {"catchup_max": 0},
        {"catchup_max": 1001},
        {"stagger": -SECOND},
    ],
    ids=str,
)
def test_bounds_that_cannot_work_are_refused_with_the_right_ones(wrong: dict[str, object]) -> None:
    with pytest.raises(Invalid, match="between"):
        MissedPolicy(**wrong)  # type: ignore[arg-type]
