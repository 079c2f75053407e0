"""A crontab line on two machines: each tick once, on every kind of store. One test for each row of the table."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fencepost.model.errors import Misconfigured
from fencepost.model.lease import Lease, Refused
from fencepost.model.tick_claim import TickOver
from tests.cells.shared import EVERY_KIND, Pair, pair_at

if TYPE_CHECKING:
    from tests.support.postgres import PostgresDatabases

CRON = "*/15 * * * *"
MINUTE = 60 * 1_000_000
QUARTER = 15 * MINUTE


@pytest.fixture(scope="session")
def tick_url(postgres_server: "PostgresDatabases") -> Iterator[str]:
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(params=EVERY_KIND)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Two machines, five seconds after a tick."""
    with pair_at(
        request.param, tmp_path, request.getfixturevalue, lambda: str(request.getfixturevalue("tick_url"))
    ) as found:
        found.go_to(-(-found.now_us() // QUARTER) * QUARTER + 5_000_000)
        yield found


def newest(pair: Pair) -> int:
    return pair.now_us() // QUARTER * QUARTER


def done(pair: Pair, lease: Lease, *, well: bool = True, by: str = "a") -> None:
    (pair.a if by == "a" else pair.b).store.release(lease, clean=True, answered=well)


def test_a_new_job_whose_tick_is_just_due_runs(pair: Pair) -> None:
    lease = pair.a.runs(CRON)

    assert lease.tick is not None
    assert (lease.tick.tick_us, lease.tick.attempt, lease.tick.last_success_us) == (newest(pair), 1, None)
    assert lease.tick.period_start_us == newest(pair) - QUARTER


def test_a_new_job_whose_tick_is_long_over_starts_with_the_next_one(pair: Pair) -> None:
    yearly = "0 0 1 1 *"
    over = pair.a.is_over(yearly)

    assert "starts with" in str(over)
    assert over.exit_code == 75
    assert "was before this job's time" in str(pair.b.is_over(yearly))


def test_a_tick_runs_on_one_of_two_machines_whose_clocks_are_forty_seconds_apart(pair: Pair) -> None:
    pair.b.skew_us = -40_000_000
    pair.pass_time(41)
    lease = pair.a.runs(CRON)
    pair.a.store.release(lease, clean=True)
    over = pair.b.is_over(CRON)

    assert "was run" in str(over)
    assert " on a" in str(over)
    pair.b.skew_us = 40_000_000
    assert isinstance(pair.b.call(CRON), TickOver)


def test_a_clock_that_is_set_back_runs_no_tick_again(pair: Pair) -> None:
    for _ in range(2):
        done(pair, pair.a.runs(CRON))
        pair.pass_time(900)
    done(pair, pair.a.runs(CRON))
    pair.a.skew_us = -3 * MINUTE
    assert isinstance(pair.a.call(CRON), TickOver)


def test_a_tick_that_failed_is_told_and_left_alone(pair: Pair) -> None:
    done(pair, pair.a.runs(CRON), well=False)

    assert "failed after 1 of 1 attempts" in str(pair.b.is_over(CRON))


def test_who_comes_a_moment_early_is_told_when_the_next_tick_is(pair: Pair) -> None:
    done(pair, pair.a.runs(CRON))
    pair.go_to(newest(pair) + QUARTER - 1_500_000)
    over = pair.b.is_over(CRON)

    assert over.next_us == newest(pair) + QUARTER


def test_a_late_tick_runs_once_for_all_that_were_missed(pair: Pair) -> None:
    first = pair.a.runs(CRON)
    assert first.tick is not None
    done(pair, first)
    pair.pass_time(4 * 900 + 300)
    late = pair.b.runs(CRON)

    assert late.tick is not None
    assert late.tick.tick_us == newest(pair)
    assert late.tick.last_success_us == first.tick.tick_us
    assert late.tick.period_start_us == first.tick.tick_us


def test_a_late_tick_is_left_out_and_recorded_under_skip(pair: Pair) -> None:
    done(pair, pair.a.runs(CRON))
    pair.pass_time(900 + 300)

    assert "is missed" in str(pair.b.is_over(CRON, missed="skip"))
    assert "was missed" in str(pair.a.is_over(CRON))
    pair.pass_time(600)
    pair.a.runs(CRON, missed="skip")


def test_a_tick_that_comes_due_while_an_older_one_runs_is_covered_by_the_next_claim(pair: Pair) -> None:
    lease = pair.a.runs(CRON)
    for _ in range(60):
        pair.pass_time(15)
        pair.a.store.renew(lease)
    assert isinstance(pair.b.call(CRON), Refused)
    assert lease.tick is not None
    done(pair, lease)
    later = pair.b.runs(CRON)

    assert later.tick is not None
    assert later.tick.tick_us == lease.tick.tick_us + QUARTER


def test_a_tick_that_was_claimed_and_never_started_is_taken_again_and_costs_no_attempt(pair: Pair) -> None:
    lease = pair.a.runs(CRON, gates=("redis:env:X",))
    assert not lease.started
    assert isinstance(pair.b.call(CRON), Refused)
    pair.a.store.release(lease, clean=True)
    again = pair.b.runs(CRON)

    assert again.tick is not None
    assert again.tick.attempt == 1


def test_a_claim_whose_holder_fell_silent_before_the_start_is_taken_over(pair: Pair) -> None:
    pair.a.runs(CRON, gates=("redis:env:X",))
    pair.b.watch_until_silent(CRON)
    again = pair.b.runs(CRON)

    assert again.tick is not None
    assert again.tick.attempt == 1


def test_a_tick_that_failed_is_tried_as_often_as_was_asked_for_by_any_machine(pair: Pair) -> None:
    done(pair, pair.a.runs(CRON, retry=3), well=False)
    second = pair.b.runs(CRON, retry=3)
    assert second.tick is not None
    assert second.tick.attempt == 2
    done(pair, second, well=False, by="b")
    third = pair.a.runs(CRON, retry=3)
    done(pair, third, well=False)

    assert "failed after 3 of 3 attempts" in str(pair.b.is_over(CRON, retry=3))


def test_an_old_tick_that_failed_is_not_tried_when_a_newer_one_is_due(pair: Pair) -> None:
    done(pair, pair.a.runs(CRON, retry=3), well=False)
    pair.pass_time(900)
    lease = pair.a.runs(CRON, retry=3)

    assert lease.tick is not None
    assert (lease.tick.tick_us, lease.tick.attempt) == (newest(pair), 1)


def test_a_tick_that_was_lost_under_way_is_left_to_a_person(pair: Pair) -> None:
    lost = pair.a.runs(CRON)
    assert lost.started
    pair.b.watch_until_silent(CRON)

    assert "was started and lost" in str(pair.b.is_over(CRON))
    assert "was started and lost" in str(pair.b.is_over(CRON, retry=5))


def test_a_tick_that_was_lost_under_way_is_restarted_where_that_is_asked_for(pair: Pair) -> None:
    pair.a.runs(CRON)
    pair.b.watch_until_silent(CRON)
    again = pair.b.runs(CRON, on_lost="restart")

    assert again.tick is not None
    assert again.tick.attempt == 2


def test_under_restart_a_holder_that_is_proven_dead_is_replaced_at_once(pair: Pair) -> None:
    lost = pair.a.runs(CRON)
    assert isinstance(pair.a.call(CRON, on_lost="restart"), Refused)

    assert pair.a.runs(CRON, on_lost="restart", dead=[lost.id]).fence > lost.fence


def test_a_cursor_far_ahead_is_a_clock_that_is_wrong(pair: Pair) -> None:
    done(pair, pair.a.runs(CRON))
    pair.pass_time(4 * 3600)
    done(pair, pair.a.runs(CRON))
    pair.b.skew_us = -4 * 60 * MINUTE

    with pytest.raises(Misconfigured, match=r"clock is ahead|behind the store") as raised:
        pair.b.call(CRON)
    assert raised.value.exit_code == 78


def test_a_record_that_is_wrong_can_be_thrown_away(pair: Pair) -> None:
    done(pair, pair.a.runs(CRON))
    assert isinstance(pair.b.call(CRON), TickOver)

    assert pair.b.store.forget_tick("default", "lock:digest", "digest")
    assert not pair.b.store.forget_tick("default", "lock:digest", "digest")
    done(pair, pair.a.runs(CRON))


def test_another_cron_or_zone_for_a_job_is_warned_about_and_goes_on(pair: Pair) -> None:
    done(pair, pair.a.runs(CRON))
    pair.pass_time(900)
    lease = pair.b.runs("*/5 * * * *", "Europe/Berlin")

    assert lease.tick is not None
    assert "was run by '*/15 * * * *' in UTC before" in lease.tick.warning
    assert pair.a.store.leases()


def test_two_jobs_under_one_lock_have_records_of_their_own(pair: Pair) -> None:
    done(pair, pair.a.runs(CRON, job="one"))

    done(pair, pair.a.runs(CRON, job="other"))
    assert isinstance(pair.b.call(CRON, job="one"), TickOver)


@pytest.mark.parametrize(("state", "words"), [("succeeded", "was run"), ("failed", "failed after 1")])
def test_an_end_that_could_not_be_reported_is_settled_by_the_next_call(pair: Pair, state: str, words: str) -> None:
    lease = pair.a.runs(CRON)

    assert words in str(pair.a.is_over(CRON, ended=(lease.fence, state)))
    assert words in str(pair.b.is_over(CRON))


def test_an_end_that_could_not_be_reported_counts_for_its_own_fence_only(pair: Pair) -> None:
    done(pair, pair.a.runs(CRON), well=False)
    lease = pair.b.runs(CRON, retry=2)
    done(pair, lease, well=False, by="b")

    assert "failed after 2" in str(pair.a.is_over(CRON, retry=2, ended=(lease.fence - 1, "succeeded")))


def test_asking_again_for_a_claim_finds_its_tick(pair: Pair) -> None:
    claim = pair.a.claim(CRON)
    first, again = pair.a.store.acquire(claim), pair.a.store.acquire(claim)

    assert not isinstance(first, Refused)
    assert not isinstance(again, Refused)
    assert again.lease.tick is not None
    assert first.lease.tick is not None
    assert again.lease.tick.tick_us == first.lease.tick.tick_us


def test_a_tick_whose_grant_landed_unheard_is_taken_again_by_its_machine_and_costs_no_attempt(pair: Pair) -> None:
    unheard = pair.a.runs(CRON)
    assert unheard.started

    assert "lost" in str(pair.a.is_over(CRON, dead=(unheard.id,), unheard=("run-of-another-call",)))
    again = pair.a.runs(CRON, dead=(unheard.id,), unheard=(unheard.run_id,))
    assert again.tick is not None
    assert again.tick.attempt == 1
    assert again.fence > unheard.fence
    pair.a.store.start(again)
    done(pair, again)
    assert "was run" in str(pair.b.is_over(CRON))


def test_a_tick_whose_grant_landed_unheard_waits_for_no_holder_that_is_proven_dead(pair: Pair) -> None:
    unheard = pair.a.runs(CRON)
    assert isinstance(pair.a.call(CRON, unheard=(unheard.run_id,)), Refused)

    again = pair.a.runs(CRON, dead=(unheard.id,), unheard=(unheard.run_id,))
    assert again.tick is not None
    assert again.tick.attempt == 1
