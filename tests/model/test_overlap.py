from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.model.errors import Busy, Invalid
from fencepost.model.overlap import (
    LINE_MAX,
    Admission,
    Admitted,
    LiveStanding,
    OverlapPolicy,
    OverlapRule,
    Request,
    SkippedTick,
    TurnedAway,
    UnendedRun,
    admit,
    parse_overlap,
)
from fencepost.model.run import RunId, TriggerKind

FORBID, QUEUE = OverlapPolicy(OverlapRule.FORBID), OverlapPolicy(OverlapRule.QUEUE)
PARALLEL = OverlapPolicy(OverlapRule.ALLOW_PARALLEL, parallel_max=2)
CANCEL = OverlapPolicy(OverlapRule.CANCEL_PREVIOUS)
POLICIES = [FORBID, QUEUE, PARALLEL, CANCEL]

TICK = Request(TriggerKind.CRON)
RUN_SCHEDULE = Request(TriggerKind.MANUAL)
RUN_AGENT = Request(TriggerKind.MANUAL, of_schedule=False)
IN_LINE = [
    Request(TriggerKind.WEBHOOK),
    Request(TriggerKind.REPLAY),
    Request(TriggerKind.BACKFILL),
    RUN_AGENT,
    Request(TriggerKind.CRON, lines_up=True),
    Request(TriggerKind.EXEC, lines_up=True),
]
TICKS = [Request(kind) for kind in (TriggerKind.CRON, TriggerKind.EVERY, TriggerKind.AT)]
EVERYBODY = [*TICKS, RUN_SCHEDULE, Request(TriggerKind.EXEC), Request(TriggerKind.SESSION), *IN_LINE]


def live(*standings: LiveStanding | tuple[LiveStanding, TriggerKind]) -> list[UnendedRun]:
    pairs = [one if isinstance(one, tuple) else (one, TriggerKind.CRON) for one in standings]
    return [UnendedRun(RunId(f"r{n}"), trigger, standing) for n, (standing, trigger) in enumerate(pairs, 1)]


def word(admission: Admission) -> str:
    match admission:
        case Admitted(displaces=(), stops=()):
            return "in"
        case Admitted(displaces, stops):
            return " ".join([f"-{one}" for one in displaces] + [f"!{one}" for one in stops])
        case SkippedTick():
            return "skipped"
        case TurnedAway():
            return "refused"


requests = st.sampled_from(EVERYBODY)
policies = st.builds(
    OverlapPolicy, st.sampled_from(OverlapRule), queue_max=st.integers(1, 4), parallel_max=st.integers(1, 4)
)
live_runs = st.lists(
    st.tuples(st.sampled_from(TriggerKind), st.sampled_from(LiveStanding), st.booleans()), max_size=8
).map(lambda found: [UnendedRun(RunId(f"r{n}"), *one) for n, one in enumerate(found)])


@pytest.mark.parametrize(("request_", "policy"), list(product(EVERYBODY, POLICIES)))
def test_everybody_comes_in_when_nothing_is_alive(request_: Request, policy: OverlapPolicy) -> None:
    assert admit(request_, policy=policy, live=[]) == Admitted()


R, Q, D = LiveStanding.RUNNING, LiveStanding.QUEUED, LiveStanding.DEFERRED
#        alive            forbid     queue      2 parallel cancel_previous
MATRIX = [
    (TICK, [R], "skipped", "in", "in", "!r1"),
    (TICK, [Q], "skipped", "-r1", "in", "-r1"),
    (TICK, [D], "skipped", "in", "in", "-r1"),
    (TICK, [R, Q], "skipped", "-r2", "skipped", "-r2 !r1"),
    (TICK, [R, D], "skipped", "in", "skipped", "-r2 !r1"),
    (TICK, [(R, TriggerKind.WEBHOOK)], "skipped", "in", "in", "!r1"),
    (TICK, [(Q, TriggerKind.WEBHOOK)], "skipped", "skipped", "in", "in"),
    (TICK, [(Q, TriggerKind.MANUAL)], "skipped", "skipped", "in", "in"),
    (TICK, [(R, TriggerKind.EXEC)], "skipped", "in", "in", "in"),
    (TICK, [(R, TriggerKind.SESSION), Q], "skipped", "-r2", "skipped", "-r2"),
    (RUN_SCHEDULE, [R], "refused", "in", "in", "!r1"),
    (RUN_SCHEDULE, [Q], "refused", "refused", "in", "-r1"),
    (RUN_SCHEDULE, [D], "refused", "in", "in", "-r1"),
    (RUN_SCHEDULE, [R, Q], "refused", "refused", "refused", "-r2 !r1"),
    (RUN_SCHEDULE, [(Q, TriggerKind.MANUAL)], "refused", "refused", "in", "refused"),
    (RUN_SCHEDULE, [(R, TriggerKind.SESSION)], "refused", "in", "in", "in"),
    (Request(TriggerKind.EXEC), [R], "refused", "refused", "refused", "refused"),
    (Request(TriggerKind.SESSION), [Q], "refused", "refused", "refused", "refused"),
    *((request, alive, "in", "in", "in", "in") for request in IN_LINE for alive in ([R], [Q], [D], [R, Q, D])),
]


@pytest.mark.parametrize(("asks", "alive", "expected"), [(row[0], row[1], row[2:]) for row in MATRIX])
def test_one_admission_decides_for_every_trigger_under_every_rule(
    asks: Request, alive: list[LiveStanding | tuple[LiveStanding, TriggerKind]], expected: tuple[str, ...]
) -> None:
    assert tuple(word(admit(asks, policy=policy, live=live(*alive))) for policy in POLICIES) == expected


@given(requests, policies, live_runs)
def test_only_ticks_are_skipped_and_only_others_are_turned_away(
    asks: Request, policy: OverlapPolicy, alive: list[UnendedRun]
) -> None:
    match admit(asks, policy=policy, live=alive):
        case SkippedTick():
            assert asks.trigger.tick_born
        case TurnedAway():
            assert not asks.trigger.tick_born


@given(requests, policies, live_runs)
def test_no_policy_ever_cancels_exec_or_a_persons_session(
    asks: Request, policy: OverlapPolicy, alive: list[UnendedRun]
) -> None:
    attended = {run.run_id for run in alive if run.trigger in {TriggerKind.EXEC, TriggerKind.SESSION}}
    match admit(asks, policy=policy, live=alive):
        case Admitted(displaces, stops):
            assert attended.isdisjoint({*displaces, *stops})


@given(requests, policies, live_runs)
def test_a_run_that_waits_and_is_not_born_of_a_tick_is_never_displaced(
    asks: Request, policy: OverlapPolicy, alive: list[UnendedRun]
) -> None:
    accepted = {run.run_id for run in alive if run.standing is Q and not run.trigger.tick_born}
    match admit(asks, policy=policy, live=alive):
        case Admitted(displaces, stops):
            assert accepted.isdisjoint({*displaces, *stops})


@given(requests, policies, live_runs)
def test_running_runs_are_asked_to_stop_and_others_are_displaced_at_once(
    asks: Request, policy: OverlapPolicy, alive: list[UnendedRun]
) -> None:
    standing = {run.run_id: run.standing for run in alive}
    match admit(asks, policy=policy, live=alive):
        case Admitted(displaces, stops, waits_for):
            assert all(standing[one] is R for one in stops)
            assert all(standing[one] is not R for one in displaces)
            assert set(stops) <= set(waits_for) or policy.rule is OverlapRule.ALLOW_PARALLEL


@given(policies, st.lists(st.sampled_from([*TICKS, RUN_SCHEDULE]), max_size=30), st.integers(0, 2))
def test_what_waits_and_what_lives_stays_within_the_policy_however_many_ask(
    policy: OverlapPolicy, asking: list[Request], running: int
) -> None:
    alive = live(*[R] * min(running, policy.lease_max))
    for n, request in enumerate(asking):
        match admit(request, policy=policy, live=alive):
            case Admitted(displaces):
                alive = [run for run in alive if run.run_id not in displaces]
                alive.append(UnendedRun(RunId(f"new{n}"), request.trigger, Q))
        waiting = sum(run.standing is Q for run in alive)
        match policy.rule:
            case OverlapRule.FORBID:
                assert len(alive) <= 1
            case OverlapRule.QUEUE:
                assert waiting <= policy.queue_max
            case OverlapRule.ALLOW_PARALLEL:
                assert len(alive) <= policy.parallel_max
            case OverlapRule.CANCEL_PREVIOUS:
                assert waiting <= 2  # a person's run and the newest tick


@given(st.integers(1, 5), st.integers(1, 20))
def test_under_queue_the_newest_ticks_wait(queue_max: int, ticks: int) -> None:
    policy = OverlapPolicy(OverlapRule.QUEUE, queue_max=queue_max)
    alive = live(R)
    for n in range(ticks):
        match admit(TICK, policy=policy, live=alive):
            case Admitted(displaces):
                alive = [run for run in alive if run.run_id not in displaces]
                alive.append(UnendedRun(RunId(f"tick{n}"), TriggerKind.CRON, Q))

    assert [run.run_id for run in alive[1:]] == [f"tick{n}" for n in range(max(0, ticks - queue_max), ticks)]


def test_a_replay_that_waits_is_not_displaced_by_a_newer_tick_under_queue() -> None:
    replayed = UnendedRun(RunId("r1"), TriggerKind.CRON, Q, lines_up=True)

    assert word(admit(TICK, policy=QUEUE, live=[replayed])) == "skipped"


@pytest.mark.parametrize("asks", [request for request in IN_LINE if not request.trigger.tick_born])
def test_the_line_is_full_at_a_thousand_and_says_so_before_anything_is_acknowledged(asks: Request) -> None:
    full = live(*[(Q, TriggerKind.WEBHOOK)] * LINE_MAX)

    assert word(admit(asks, policy=FORBID, live=full[:-1])) == "in"
    assert word(admit(asks, policy=FORBID, live=full)) == "refused"


def test_a_replayed_tick_that_finds_the_line_full_is_skipped() -> None:
    full = live(*[Q] * LINE_MAX)

    assert word(admit(Request(TriggerKind.CRON, lines_up=True), policy=FORBID, live=full)) == "skipped"


def test_a_refusal_names_who_is_in_the_way_and_what_to_do() -> None:
    refusal = admit(RUN_SCHEDULE, policy=FORBID, live=live(R, Q))

    assert isinstance(refusal, TurnedAway)
    with pytest.raises(Busy, match=r"run r1 \(cron, running\) and 1 more; .*fencepost cancel r1") as caught:
        raise refusal.error()
    assert caught.value.exit_code == 75


@pytest.mark.parametrize(("policy", "expected"), [(FORBID, 1), (QUEUE, 1), (CANCEL, 1), (PARALLEL, 2)], ids=str)
def test_the_lease_bounds_what_runs_at_once_whoever_was_let_in(policy: OverlapPolicy, expected: int) -> None:
    assert policy.lease_max == expected


@pytest.mark.parametrize(
    ("spelling", "rule", "queue_max"),
    [
        ("forbid", OverlapRule.FORBID, 1),
        ("Forbid", OverlapRule.FORBID, 1),
        ("queue", OverlapRule.QUEUE, 1),
        ("allow_parallel", OverlapRule.ALLOW_PARALLEL, 1),
        ("cancel-previous", OverlapRule.CANCEL_PREVIOUS, 1),
        ("Skip", OverlapRule.FORBID, 1),
        ("BufferOne", OverlapRule.QUEUE, 1),
        ("BUFFER_ALL", OverlapRule.QUEUE, 1000),
        ("bufferall", OverlapRule.QUEUE, 1000),
        ("CancelOther", OverlapRule.CANCEL_PREVIOUS, 1),
        ("TerminateOther", OverlapRule.CANCEL_PREVIOUS, 1),
        ("AllowAll", OverlapRule.ALLOW_PARALLEL, 1),
        ("SCHEDULE_OVERLAP_POLICY_ALLOW_ALL", OverlapRule.ALLOW_PARALLEL, 1),
        ("Allow", OverlapRule.ALLOW_PARALLEL, 1),
        ("Replace", OverlapRule.CANCEL_PREVIOUS, 1),
    ],
)
def test_other_houses_spellings_are_understood(spelling: str, rule: OverlapRule, queue_max: int) -> None:
    policy = parse_overlap(spelling)

    assert (policy.rule, policy.queue_max) == (rule, queue_max)


def test_an_explicit_bound_outranks_that_of_the_spelling() -> None:
    assert parse_overlap("BufferAll", queue_max=7).queue_max == 7
    assert parse_overlap("AllowAll", parallel_max=7).parallel_max == 7


@pytest.mark.parametrize(
    ("spelling", "hint"),
    [
        ("forbidd", '"forbid"'),
        ("cancel_prev", '"cancel_previous"'),
        ("buffer_two", '"queue"'),
        ("", "there are forbid, queue, allow_parallel, cancel_previous"),
        ("whatever", "there are forbid"),
    ],
)
def test_an_unknown_spelling_is_refused_with_a_suggestion(spelling: str, hint: str) -> None:
    with pytest.raises(Invalid, match=hint):
        parse_overlap(spelling)


@pytest.mark.parametrize("wrong", [{"queue_max": 0}, {"queue_max": 1001}, {"parallel_max": 0}], ids=str)
def test_bounds_outside_their_range_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(Invalid, match="between 1 and 1000"):
        parse_overlap("queue", **wrong)
