"""Leases in custody: deadlines and silence, on a clock that the test moves."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import pytest

from fencepost.model.errors import StoreUnavailable
from fencepost.model.lease import Lease, trusted_for
from fencepost.service.custody import BATCH_MAX, NO_THREAD_SECONDS, RESERVE_SECONDS, Custody, Kept, Term
from fencepost.service.last_resort import LastResort
from tests.support.clock import ManualClock

if TYPE_CHECKING:
    from fencepost.ports.store import LeaseStore

TTL = 30.0


def lease(number: int = 1, ttl: float = TTL) -> Lease:
    return Lease(f"id{number}", "default", (f"lock:z{number}",), 7, f"r{number}", "store", ttl, ())


class SlowStore:
    """A store whose answers take time, do not come, or say something else for one of the leases."""

    def __init__(self, clock: ManualClock, *, slow_seconds: float = 0, error: Exception | None = None) -> None:
        self.clock, self.slow_seconds, self.error = clock, slow_seconds, error
        self.asked: list[list[str]] = []
        self.answers: dict[str, str] = {}

    def renew_leases(self, leases: Sequence[Lease]) -> dict[str, str]:
        self.asked.append([one.id for one in leases])
        self.clock.sleep(self.slow_seconds)
        if self.error:
            raise self.error
        return {one.id: self.answers.get(one.id, "renewed") for one in leases}

    def close(self) -> None:
        pass


def keeping(
    store: SlowStore, *leases: Lease, open_store: Callable[[], SlowStore] | None = None, counts_sleep: bool = False
) -> tuple[Custody, list[Kept]]:
    opened = open_store or (lambda: store)
    custody = Custody(lambda: cast("LeaseStore", opened()), store.clock, counts_sleep=counts_sleep)
    kept = []
    for one in leases or (lease(),):
        term = Term(store.clock, counts_sleep=counts_sleep)
        term.extend(one.ttl_seconds, asked_ns=term.now_ns())
        kept.append(custody.keep(one, term))
    return custody, kept


def test_trust_counts_from_before_the_request_was_sent() -> None:
    clock = ManualClock()
    custody, (kept,) = keeping(SlowStore(clock, slow_seconds=3))
    clock.sleep(TTL / 3)
    before = clock.awake_ns()
    custody.step()
    assert kept.term.deadline_ns == before + round(trusted_for(TTL) * 1e9)


def test_at_the_deadline_itself_the_lease_may_be_somebody_else_s() -> None:
    clock = ManualClock()
    term = Term(clock, counts_sleep=False)
    term.deadline_ns = clock.awake_ns() + 1
    assert not term.over
    term.deadline_ns = clock.awake_ns()
    assert term.over


def test_after_the_deadline_nothing_is_asked_for_any_more() -> None:
    clock = ManualClock()
    store = SlowStore(clock)
    custody, (kept,) = keeping(store)
    clock.sleep(TTL)
    custody.step()
    assert kept.lost == "it was not renewed in time."
    assert store.asked == []


def test_trouble_is_tried_again_sooner_and_named_when_it_lasted_too_long() -> None:
    clock = ManualClock()
    custody, (kept,) = keeping(SlowStore(clock, error=StoreUnavailable("away")))
    clock.sleep(TTL / 3)
    assert custody.step() == pytest.approx(TTL / 12)
    assert kept.trouble == "away"
    clock.sleep(TTL)
    custody.step()
    assert kept.lost == "it was not renewed in time (away)."


def test_a_lease_in_other_hands_is_lost_at_once_and_the_others_are_not() -> None:
    clock = ManualClock()
    store = SlowStore(clock)
    store.answers["id2"] = "lost"
    custody, (first, second) = keeping(store, lease(1), lease(2))
    clock.sleep(TTL / 3)
    custody.step()
    assert (first.lost, second.moved) == (None, False)
    assert second.lost is not None


def test_a_lease_that_another_worker_adopted_is_moved_and_not_just_lost() -> None:
    clock = ManualClock()
    store = SlowStore(clock)
    store.answers["id1"] = "moved"
    custody, (kept,) = keeping(store)
    clock.sleep(TTL / 3)
    custody.step()
    assert kept.lost is not None
    assert kept.moved


def test_a_row_that_is_busy_extends_nothing_and_is_tried_again_soon() -> None:
    clock = ManualClock()
    store = SlowStore(clock)
    store.answers["id1"] = "busy"
    custody, (kept,) = keeping(store)
    before = kept.term.deadline_ns
    clock.sleep(TTL / 3)
    assert custody.step() == pytest.approx(TTL / 12)
    assert (kept.term.deadline_ns, kept.lost) == (before, None)


def test_what_is_due_together_is_asked_for_together_in_bounded_batches() -> None:
    clock = ManualClock()
    store = SlowStore(clock)
    custody, _ = keeping(store, *(lease(number) for number in range(BATCH_MAX + 10)))
    clock.sleep(TTL / 3)
    custody.step()
    assert [len(one) for one in store.asked] == [BATCH_MAX, 10]


def test_a_lease_that_was_let_go_is_not_renewed() -> None:
    clock = ManualClock()
    store = SlowStore(clock)
    custody, (first, _) = keeping(store, lease(1), lease(2))
    custody.let_go(first)
    clock.sleep(TTL / 3)
    custody.step()
    assert store.asked == [["id2"]]


@pytest.mark.parametrize(("counts_sleep", "wakes_in"), [(True, RESERVE_SECONDS), (False, 10.0)])
def test_a_server_s_connection_is_reserved_soon_and_a_file_is_not(counts_sleep: bool, wakes_in: float) -> None:  # noqa: FBT001
    custody, _ = keeping(SlowStore(ManualClock()), counts_sleep=counts_sleep)
    assert custody.first_in_seconds() == pytest.approx(wakes_in)


def test_a_connection_that_failed_is_replaced_by_the_next_try() -> None:
    clock, opened = ManualClock(), list[str]()

    def door() -> SlowStore:
        opened.append("tried")
        return SlowStore(clock, error=StoreUnavailable("cut") if len(opened) == 1 else None)

    custody, (kept,) = keeping(SlowStore(clock), open_store=door)
    clock.sleep(TTL / 3)
    clock.sleep(custody.step())
    custody.step()
    assert (kept.lost, kept.trouble, len(opened)) == (None, None, 2)


def test_without_a_thread_to_be_had_the_start_is_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    clock = ManualClock()
    custody, _ = keeping(SlowStore(clock))
    clock.sleep(10)
    monkeypatch.setattr("_thread.start_new_thread", refuse)
    custody.start()
    assert custody.first_in_seconds() == pytest.approx(NO_THREAD_SECONDS)
    custody.close()


def test_a_late_answer_never_shortens_a_trust_that_a_newer_one_gave() -> None:
    clock = ManualClock()
    term = Term(clock, counts_sleep=False)
    term.extend(TTL, asked_ns=clock.awake_ns())
    newest = term.deadline_ns
    term.extend(TTL, asked_ns=clock.awake_ns() - 10)
    assert term.deadline_ns == newest


def test_the_last_resort_kills_when_the_guard_s_part_of_the_grace_is_over_and_not_before() -> None:
    clock, killed = ManualClock(), list[str]()
    _, (kept,) = keeping(SlowStore(clock))
    grace = 5.0
    last_resort = LastResort(grace)
    last_resort.watch(kept, lambda: killed.append(kept.lease.id))
    clock.sleep(trusted_for(TTL) + grace * 0.8 - 0.1)
    assert last_resort.step() == pytest.approx(0.1)
    assert killed == []
    clock.sleep(0.11)
    last_resort.step()
    last_resort.step()
    assert killed == ["id1"]


def test_the_last_resort_leaves_alone_what_was_renewed_or_has_ended() -> None:
    clock, killed = ManualClock(), list[str]()
    custody, (first, second) = keeping(SlowStore(clock), lease(1), lease(2))
    last_resort = LastResort(5.0)
    for kept in (first, second):
        last_resort.watch(kept, lambda: killed.append("killed"))
    last_resort.forget(second)
    clock.sleep(TTL / 3)
    custody.step()
    clock.sleep(TTL * 2 / 3)
    last_resort.step()
    assert killed == []
