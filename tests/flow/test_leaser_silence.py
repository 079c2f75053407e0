"""A leaser judges silence by its own clock, too."""

from typing import TYPE_CHECKING, cast

from fencepost.flow.leaser import Leaser
from fencepost.model.lease import Claim, Granted, Held, Lease, Refused
from fencepost.model.process import Fate, Host, ProcessId
from fencepost.ports.store import StoreFacts
from tests.support.clock import ManualClock

if TYPE_CHECKING:
    from fencepost.ports.processes import Processes
    from fencepost.ports.store import LeaseStore

TTL = 30.0
ELSEWHERE = ProcessId(Host("other", "m", "b", "1"), 1, "1")
LEASE = Lease("id", "default", ("lock:z",), 7, "r1", "store", TTL, ())
CLAIM = Claim("mine", "default", ("lock:z",), "r2", TTL, ELSEWHERE)


class SlowStore:
    """A store whose answers take time."""

    def __init__(self, clock: ManualClock, *, slow_seconds: float = 0) -> None:
        self.clock = clock
        self.slow_seconds = slow_seconds
        self.renewals = 0

    def facts(self) -> StoreFacts:
        return StoreFacts("store", "sqlite:x", "sqlite", 1, counts_sleep=False, notices=())

    def look(self, _: Claim, *, dead: frozenset[str] = frozenset(), ticket: str | None = None) -> Refused | None:
        assert ticket is None
        self.clock.sleep(self.slow_seconds)
        held = Held(
            "held", "default", ("lock:z",), 7, "r1", None, "", ELSEWHERE, None, None, TTL, self.renewals, 0, 0, 0, 1.0, lost=False
        )  # fmt: skip
        return None if "held" in dead else Refused((held,), ())


class NoEvidence:
    """A host that knows nothing of other machines."""

    def fate(self, _: ProcessId) -> Fate:
        return Fate.UNKNOWN


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
