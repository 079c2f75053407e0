"""Deadlines and silence, on a clock that the test moves."""

from typing import TYPE_CHECKING, cast

import pytest

from fencepost.flow.leaser import Leaser
from fencepost.model.errors import LeaseLost, StoreUnavailable
from fencepost.model.lease import Claim, Granted, Held, Lease, Refused, trusted_for
from fencepost.model.process import Fate, Host, ProcessId
from fencepost.ports.store import LeaseStore, StoreFacts
from fencepost.service.renewal import NO_THREAD_SECONDS, RESERVE_SECONDS, Renewal, Renewer, Term

if TYPE_CHECKING:
    from fencepost.ports.processes import Processes

TTL = 30.0
ELSEWHERE = ProcessId(Host("other", "m", "b", "1"), 1, "1")
LEASE = Lease("id", "default", ("lock:z",), 7, "r1", "store", TTL, ())
CLAIM = Claim("mine", "default", ("lock:z",), "r2", TTL, ELSEWHERE)


class ManualClock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def wall_us(self) -> int:
        return int(self.seconds * 1e6)

    def awake_ns(self) -> int:
        return int(self.seconds * 1e9)

    boot_ns = awake_ns

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class SlowStore:
    """A store whose answers take time, or do not come."""

    def __init__(self, clock: ManualClock, *, slow_seconds: float = 0, error: Exception | None = None) -> None:
        self.clock = clock
        self.slow_seconds = slow_seconds
        self.error = error
        self.asked = 0
        self.renewals = 0
        self.taken: list[frozenset[str]] = []

    def facts(self) -> StoreFacts:
        return StoreFacts("store", "sqlite:x", "sqlite", 1, counts_sleep=False, notices=())

    def renew(self, _: Lease) -> None:
        self.asked += 1
        self.clock.sleep(self.slow_seconds)
        if self.error:
            raise self.error

    def look(self, _: Claim, *, dead: frozenset[str] = frozenset(), ticket: str | None = None) -> Refused | None:
        assert ticket is None
        self.clock.sleep(self.slow_seconds)
        held = Held(
            "held", "default", ("lock:z",), 7, "r1", None, "", ELSEWHERE, None, None, TTL, self.renewals, 0, 0, 0, 1.0, lost=False
        )  # fmt: skip
        return None if "held" in dead else Refused((held,), ())

    def close(self) -> None:
        pass


class NoEvidence:
    """A host that knows nothing of other machines."""

    def fate(self, _: ProcessId) -> Fate:
        return Fate.UNKNOWN


def renewing(store: SlowStore) -> tuple[Renewer, Term]:
    term = Term(store.clock, counts_sleep=False)
    term.extend(TTL, asked_ns=term.now_ns())
    return Renewer(LEASE, term, lambda: cast("LeaseStore", store)), term


def test_trust_counts_from_before_the_request_was_sent() -> None:
    clock = ManualClock()
    renewer, term = renewing(SlowStore(clock, slow_seconds=3))
    before = clock.awake_ns()
    renewer.step()
    assert term.deadline_ns == before + round(trusted_for(TTL) * 1e9)


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
    renewer, _ = renewing(store)
    clock.sleep(TTL)
    renewer.step()
    assert renewer.lost == "it was not renewed in time."
    assert store.asked == 0


def test_trouble_is_tried_again_sooner_and_named_when_it_lasted_too_long() -> None:
    clock = ManualClock()
    renewer, _ = renewing(SlowStore(clock, error=StoreUnavailable("away")))
    assert renewer.step() == TTL / 12
    assert renewer.trouble == "away"
    clock.sleep(TTL)
    renewer.step()
    assert renewer.lost == "it was not renewed in time (away)."


def test_a_lease_in_other_hands_is_lost_at_once() -> None:
    renewer, _ = renewing(SlowStore(ManualClock(), error=LeaseLost("taken")))
    renewer.step()
    assert renewer.lost == "taken"


@pytest.mark.parametrize(("counts_sleep", "wakes_in"), [(True, RESERVE_SECONDS), (False, 10.0)])
def test_a_server_s_connection_is_reserved_soon_and_a_file_is_not(counts_sleep: bool, wakes_in: float) -> None:  # noqa: FBT001
    clock = ManualClock()
    term = Term(clock, counts_sleep=counts_sleep)

    renewal = Renewal(Renewer(LEASE, term, lambda: open_slow(clock)), first_in_seconds=10.0, term=term)

    assert renewal.first_in_seconds() == pytest.approx(wakes_in)


def test_a_reservation_that_fails_is_no_loss_and_is_made_good_by_the_renewal() -> None:
    clock, opened = ManualClock(), list[str]()
    term = Term(clock, counts_sleep=True)
    term.extend(TTL, asked_ns=term.now_ns())

    def door() -> LeaseStore:
        opened.append("tried")
        if len(opened) == 1:
            raise StoreUnavailable("no connection left")
        return open_slow(clock)

    renewer = Renewer(LEASE, term, door)
    renewer.reserve()
    assert (renewer.lost, renewer.trouble) == (None, "no connection left")
    renewer.step()

    assert (renewer.lost, renewer.trouble, len(opened)) == (None, None, 2)


def open_slow(clock: ManualClock) -> LeaseStore:
    return cast("LeaseStore", SlowStore(clock))


def test_without_a_thread_to_be_had_the_start_is_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    clock = ManualClock()
    renewer, term = renewing(SlowStore(clock))
    renewal = Renewal(renewer, first_in_seconds=10, term=term)
    clock.sleep(10)
    monkeypatch.setattr("_thread.start_new_thread", refuse)
    renewal.start()
    assert renewal.first_in_seconds() == pytest.approx(NO_THREAD_SECONDS)
    renewal.stop()


def test_a_holder_that_shows_no_sign_of_life_for_two_ttls_is_over_by_our_own_clock() -> None:
    clock = ManualClock()
    leaser = Leaser(cast("LeaseStore", SlowStore(clock)), cast("Processes", NoEvidence()), clock)
    assert leaser.look(CLAIM) is not None
    clock.sleep(2 * TTL)
    assert leaser.look(CLAIM) is not None
    clock.sleep(0.1)
    assert leaser.look(CLAIM) is None


def test_a_renewal_in_between_starts_the_count_again() -> None:
    clock = ManualClock()
    store = SlowStore(clock)
    leaser = Leaser(cast("LeaseStore", store), cast("Processes", NoEvidence()), clock)
    assert leaser.look(CLAIM) is not None
    clock.sleep(2 * TTL)
    store.renewals += 1
    assert leaser.look(CLAIM) is not None
    clock.sleep(TTL)
    assert leaser.look(CLAIM) is not None


def test_being_frozen_in_the_middle_of_a_question_proves_nothing() -> None:
    clock = ManualClock()
    leaser = Leaser(cast("LeaseStore", SlowStore(clock, slow_seconds=3 * TTL)), cast("Processes", NoEvidence()), clock)
    assert leaser.look(CLAIM) is not None
    assert leaser.look(CLAIM) is not None


def test_a_grant_is_passed_on() -> None:
    class Generous(SlowStore):
        def acquire(self, _: Claim, *, dead: frozenset[str] = frozenset(), ticket: str | None = None) -> Granted:
            assert (dead, ticket) == (frozenset(), None)
            return Granted(LEASE, ())

    clock = ManualClock()
    leaser = Leaser(cast("LeaseStore", Generous(clock)), cast("Processes", NoEvidence()), clock)
    assert leaser.acquire(CLAIM) == Granted(LEASE, ())
