from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.model.errors import Invalid
from fencepost.model.outcome import (
    Failed,
    Interrupted,
    Lost,
    NotStarted,
    Outcome,
    OverBudget,
    Settlement,
    Stopped,
    Succeeded,
    TimedOut,
    refused_by,
)
from fencepost.model.repeatable_random import spread
from fencepost.model.retry import Closed, DrainStep, OnLost, RetryPolicy, Timeouts, drain, end_of_lost, settle
from fencepost.model.run import Reason, RunId, RunState, is_legal, move
from tests.model.tick_sources import HOUR, MINUTE, SECOND, at

NOW = at(0)
RUN = RunId("r1")

outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.just(Succeeded()),
    st.builds(Failed, st.integers(1, 255), st.booleans()),
    st.builds(TimedOut, st.sampled_from([Reason.TIMEOUT, Reason.STALL_TIMEOUT])),
    st.just(OverBudget()),
    st.builds(Lost, st.booleans()),
    st.builds(Interrupted, st.booleans()),
    st.builds(NotStarted, st.sampled_from([Reason.GATE_UNREACHABLE, Reason.FENCE_REGRESS, Reason.MISCONFIGURED])),
    st.builds(Stopped, st.sampled_from([Reason.CANCELLED, Reason.OVERLAP])),
)
policies = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 6),
    backoff=st.integers(0, 60).map(lambda n: n * SECOND),
    exit_codes=st.none() | st.frozensets(st.integers(1, 75), max_size=5),
    on_lost=st.sampled_from(OnLost),
)


def settled(outcome: Outcome, retry: RetryPolicy, attempt: int = 1) -> Settlement:
    return settle(outcome, run_id=RUN, attempt=attempt, retry=retry, now=NOW)


@given(outcomes, policies, st.integers(1, 10))
def test_every_settlement_is_a_legal_move_of_a_running_run(outcome: Outcome, retry: RetryPolicy, attempt: int) -> None:
    settlement = settled(outcome, retry, attempt)

    assert is_legal(RunState.RUNNING, settlement.state, settlement.reason)
    assert (settlement.ready_at is not None) == (settlement.state is RunState.READY)
    assert settlement.ready_at is None or settlement.ready_at >= NOW
    assert settlement.state is RunState.READY or not settlement.resume


@given(outcomes, policies, st.integers(1, 10))
def test_settling_twice_gives_the_same_answer(outcome: Outcome, retry: RetryPolicy, attempt: int) -> None:
    assert settled(outcome, retry, attempt) == settled(outcome, retry, attempt)


@given(outcomes, policies, st.sampled_from([RunState.SUCCEEDED, RunState.DEAD, RunState.CANCELLED]))
def test_a_run_that_has_ended_stays_as_it_ended(outcome: Outcome, retry: RetryPolicy, ended: RunState) -> None:
    settlement = settled(outcome, retry)

    assert move(ended, settlement.state, settlement.reason) is ended


@given(st.lists(outcomes, min_size=40, max_size=60), policies)
def test_attempts_are_bounded_whatever_happens(happening: list[Outcome], retry: RetryPolicy) -> None:
    attempt, used = 1, 0
    for outcome in happening:
        settlement = settled(outcome, retry, attempt)
        if settlement.uses_attempt:
            used, attempt = used + 1, attempt + 1
        if settlement.state is not RunState.READY:
            break

    assert used <= retry.lost_attempts_max


@given(
    st.one_of(
        st.builds(Failed, st.integers(1, 255), st.just(value=True)),
        st.builds(Failed, st.integers(129, 255)),
        st.just(Lost(started=True)),
        st.just(TimedOut(Reason.TIMEOUT)),
    ),
    st.integers(1, 6),
)
def test_an_ambiguous_end_is_never_retried_unless_the_owner_said_how(outcome: Outcome, max_attempts: int) -> None:
    assert settled(outcome, RetryPolicy(max_attempts=max_attempts)).state is RunState.DEAD


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Lost(started=True), Reason.LOST),
        (TimedOut(Reason.TIMEOUT), Reason.TIMEOUT),
        (TimedOut(Reason.STALL_TIMEOUT), Reason.STALL_TIMEOUT),
        (Failed(1, ambiguous=True), Reason.AMBIGUOUS),
        (Failed(137), Reason.AMBIGUOUS),
    ],
    ids=str,
)
def test_on_lost_answers_for_every_ambiguous_end(outcome: Outcome, reason: Reason) -> None:
    triage = settled(outcome, RetryPolicy())
    resume = settled(outcome, RetryPolicy(on_lost=OnLost.RESUME))
    restart = settled(outcome, RetryPolicy(on_lost=OnLost.RESTART))

    assert (triage.state, triage.reason) == (RunState.DEAD, reason)
    assert (resume.state, resume.reason, resume.resume) == (RunState.READY, Reason.RESUME, True)
    assert (restart.state, restart.reason, restart.resume) == (RunState.READY, Reason.RESTART, False)
    assert resume.uses_attempt
    assert restart.uses_attempt


@pytest.mark.parametrize("on_lost", [OnLost.RESUME, OnLost.RESTART])
def test_a_run_that_keeps_getting_lost_ends_with_a_person(on_lost: OnLost) -> None:
    retry = RetryPolicy(on_lost=on_lost)

    states = [settled(Lost(started=True), retry, attempt).state for attempt in (1, 2, 3)]
    assert states == [RunState.READY, RunState.READY, RunState.DEAD]


def test_a_lost_run_is_taken_over_at_once() -> None:
    assert settled(Lost(started=True), RetryPolicy(on_lost=OnLost.RESUME)).ready_at == NOW


@given(policies, st.integers(1, 200))
def test_lost_before_the_start_is_ready_again_and_uses_no_attempt(retry: RetryPolicy, attempt: int) -> None:
    assert settled(Lost(started=False), retry, attempt) == Settlement(
        RunState.READY, Reason.LOST_BEFORE_START, ready_at=NOW, uses_attempt=False
    )


@pytest.mark.parametrize(
    ("retry", "exit_code", "again"),
    [
        (RetryPolicy(), 1, False),
        (RetryPolicy(max_attempts=2), 1, True),
        (RetryPolicy(max_attempts=2), 75, True),
        (RetryPolicy(max_attempts=2), 76, False),
        (RetryPolicy(max_attempts=2), 77, False),
        (RetryPolicy(max_attempts=2), 78, False),
        (RetryPolicy(max_attempts=2), 127, False),
        (RetryPolicy(max_attempts=2, exit_codes=frozenset({127})), 127, True),
        (RetryPolicy(max_attempts=2, exit_codes=frozenset({3})), 3, True),
        (RetryPolicy(max_attempts=2, exit_codes=frozenset({3})), 1, False),
        (RetryPolicy(max_attempts=2, exit_codes=frozenset()), 1, False),
        (RetryPolicy(max_attempts=2, exit_codes=frozenset({137})), 137, True),
        (RetryPolicy(max_attempts=2), 137, False),
    ],
    ids=str,
)
def test_exit_codes_decide_about_another_attempt(retry: RetryPolicy, exit_code: int, again: bool) -> None:  # noqa: FBT001
    assert (settled(Failed(exit_code), retry).state is RunState.READY) == again


def test_the_last_attempt_ends_the_run() -> None:
    states = [settled(Failed(1), RetryPolicy(max_attempts=3), attempt).state for attempt in (1, 2, 3)]

    assert states == [RunState.READY, RunState.READY, RunState.DEAD]


def test_a_refused_write_is_never_tried_again() -> None:
    assert settled(Failed(77), RetryPolicy(max_attempts=9, on_lost=OnLost.RESTART)) == Settlement(
        RunState.DEAD, Reason.FENCE_REFUSED
    )


@given(policies, st.integers(1, 300), st.text())
def test_the_delay_lies_between_half_and_all_of_the_doubled_backoff(
    retry: RetryPolicy, attempt: int, name: str
) -> None:
    full = min(retry.backoff_max, retry.backoff * 2 ** min(attempt - 1, 20))

    assert full / 2 <= retry.delay(attempt, RunId(name)) <= full


def test_runs_that_failed_together_come_back_apart_and_each_predictably() -> None:
    retry = RetryPolicy(max_attempts=2)
    delays = {retry.delay(1, RunId(f"r{n}")) for n in range(100)}

    assert len(delays) == 100
    assert retry.delay(1, RUN) == retry.delay(1, RUN) != retry.delay(2, RUN)


def test_what_stands_in_for_randomness_is_the_same_on_every_machine() -> None:
    assert spread("r1", 1) == 0.9751504292236355


@given(st.lists(st.text(), max_size=3))
def test_what_stands_in_for_randomness_stays_below_one(names: list[str]) -> None:
    assert 0 <= spread(*names) < 1


@pytest.mark.parametrize(
    ("resumable", "on_lost", "state", "resume"),
    [
        (True, OnLost.TRIAGE, RunState.READY, True),
        (True, OnLost.RESTART, RunState.READY, True),
        (False, OnLost.RESUME, RunState.READY, True),
        (False, OnLost.RESTART, RunState.READY, False),
        (False, OnLost.TRIAGE, RunState.DEAD, False),
    ],
)
@pytest.mark.parametrize("attempt", [1, 99])
def test_a_drain_uses_no_attempt_and_ends_only_what_cannot_go_on(
    resumable: bool,  # noqa: FBT001
    on_lost: OnLost,
    state: RunState,
    resume: bool,  # noqa: FBT001
    attempt: int,
) -> None:
    settlement = settled(Interrupted(resumable=resumable), RetryPolicy(on_lost=on_lost), attempt)

    assert (settlement.state, settlement.resume, settlement.uses_attempt) == (state, resume, False)
    assert settlement.reason is (Reason.DRAINED if state is RunState.READY else Reason.INTERRUPTED)


@pytest.mark.parametrize(
    ("resumable", "on_lost", "before", "after"),
    [
        (True, OnLost.TRIAGE, DrainStep.HAND_BACK, DrainStep.HAND_BACK),
        (False, OnLost.RESUME, DrainStep.KEEP, DrainStep.HAND_BACK),
        (False, OnLost.RESTART, DrainStep.KEEP, DrainStep.HAND_BACK),
        (False, OnLost.TRIAGE, DrainStep.KEEP, DrainStep.END),
    ],
)
def test_a_drain_hands_back_at_once_what_loses_nothing_and_lets_the_rest_finish(
    resumable: bool,  # noqa: FBT001
    on_lost: OnLost,
    before: DrainStep,
    after: DrainStep,
) -> None:
    retry = RetryPolicy(on_lost=on_lost)

    assert drain(retry, resumable=resumable, now=at(59), deadline_at=at(60)) is before
    assert drain(retry, resumable=resumable, now=at(60), deadline_at=at(60)) is after


@given(st.booleans(), policies)
def test_a_drain_hands_back_exactly_what_settles_as_ready(resumable: bool, retry: RetryPolicy) -> None:  # noqa: FBT001
    step = drain(retry, resumable=resumable, now=at(60), deadline_at=at(60))
    settlement = settled(Interrupted(resumable=resumable), retry)

    assert (step is DrainStep.HAND_BACK) == (settlement.state is RunState.READY)


@pytest.mark.parametrize("resumable", [True, False])
def test_what_was_left_on_purpose_was_drained_and_what_never_started_was_not(resumable: bool) -> None:  # noqa: FBT001
    assert end_of_lost(started=True, left=True, resumable=resumable) == Interrupted(resumable)
    assert end_of_lost(started=True, left=False, resumable=resumable) == Lost(started=True)
    assert end_of_lost(started=False, left=True, resumable=resumable) == Lost(started=False)


@given(st.booleans(), policies)
def test_a_run_that_was_left_and_lost_uses_no_attempt(resumable: bool, retry: RetryPolicy) -> None:  # noqa: FBT001
    assert not settled(end_of_lost(started=True, left=True, resumable=resumable), retry).uses_attempt


def test_a_gate_that_cannot_be_reached_makes_the_run_wait_and_a_store_that_went_back_needs_a_person() -> None:
    unreachable = settled(NotStarted(Reason.GATE_UNREACHABLE), RetryPolicy())
    regress = settled(NotStarted(Reason.FENCE_REGRESS), RetryPolicy(max_attempts=5, on_lost=OnLost.RESTART))

    assert (unreachable.state, unreachable.uses_attempt) == (RunState.READY, False)
    assert (regress.state, regress.reason) == (RunState.DEAD, Reason.FENCE_REGRESS)


@pytest.mark.parametrize("reason", [Reason.IN_DOUBT, Reason.DIVERGED, Reason.FENCE_REFUSED, None])
def test_a_refusal_is_never_tried_again_and_keeps_its_own_reason(reason: Reason | None) -> None:
    refused = settled(refused_by(Failed(77), reason), RetryPolicy(max_attempts=5))
    other = settled(refused_by(Failed(3), reason), RetryPolicy(max_attempts=5))

    assert (refused.state, refused.reason) == (RunState.DEAD, reason or Reason.FENCE_REFUSED)
    assert other.state is RunState.READY, "an agent that went on and failed otherwise is tried again"


def at_a_closed_gate(by_now: timedelta, before: timedelta = timedelta(0)) -> Settlement:
    closed = Closed(by_now=by_now, before=before)
    return settle(
        NotStarted(Reason.GATE_UNREACHABLE), run_id=RUN, attempt=1, retry=RetryPolicy(), now=NOW, closed=closed
    )


def test_a_closed_gate_is_tried_less_often_the_longer_it_lasts() -> None:
    waits = [at_a_closed_gate(timedelta(seconds=seconds)) for seconds in (0, 60, 600, 86_400)]

    assert [one.ready_at - NOW for one in waits if one.ready_at] == [
        timedelta(seconds=5),
        timedelta(seconds=15),
        timedelta(seconds=150),
        timedelta(minutes=5),
    ]


def test_a_person_is_told_once_of_a_gate_that_stays_closed() -> None:
    tries, closed_for = list[Settlement](), timedelta(0)
    before = closed_for
    for _ in range(50):
        tries.append(at_a_closed_gate(closed_for, before))
        before, closed_for = closed_for, closed_for + ((tries[-1].ready_at or NOW) - NOW)

    [told] = [number for number, one in enumerate(tries) if one.alarm]
    assert timedelta(0) < before
    assert not at_a_closed_gate(5 * MINUTE - SECOND).alarm
    assert at_a_closed_gate(5 * MINUTE).alarm
    assert 5 < told < 30


def test_each_time_limit_ends_in_its_own_reason_exactly_when_it_is_reached() -> None:
    limits = Timeouts(queue_timeout=HOUR, timeout=10 * MINUTE, stall_timeout=MINUTE)
    calm = timedelta(0)

    assert limits.exceeded(ran_for=10 * MINUTE - SECOND, silent_for=MINUTE - SECOND) is None
    assert limits.exceeded(ran_for=10 * MINUTE, silent_for=10 * MINUTE) == TimedOut(Reason.TIMEOUT)
    assert limits.exceeded(ran_for=calm, silent_for=MINUTE) == TimedOut(Reason.STALL_TIMEOUT)
    assert limits.waited_too_long(HOUR - SECOND) is None
    assert limits.waited_too_long(HOUR) == Settlement(RunState.DEAD, Reason.QUEUE_TIMEOUT, uses_attempt=False)


def test_without_limits_nothing_times_out() -> None:
    limits = Timeouts(queue_timeout=None, timeout=None, stall_timeout=None)

    assert limits.exceeded(ran_for=1000 * HOUR, silent_for=1000 * HOUR) is None
    assert limits.waited_too_long(1000 * HOUR) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": 0},
        {"max_attempts": 101},
        {"backoff": 2 * HOUR},
        {"backoff": -SECOND},
        {"exit_codes": frozenset({77})},
        {"exit_codes": frozenset({0})},
        {"exit_codes": frozenset({256})},
    ],
    ids=str,
)
def test_a_retry_policy_that_cannot_work_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        RetryPolicy(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["queue_timeout", "timeout", "stall_timeout"])
def test_a_time_limit_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match=name):
        Timeouts(**{name: timedelta(0)})
