"""Many at once, on either store: never two holders, and fences in the order of the grants."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event, Lock

import pytest

from fencepost.host.clock import SystemClock
from fencepost.model.lease import Granted
from fencepost.stores.postgres.store import open_store
from fencepost.stores.sqlite.store import Opening
from tests.stores.rig import AnyStore, claim

WORKERS = 8
GRANTS_EACH = 12

Opener = Callable[[], AnyStore]


@pytest.fixture(params=["sqlite", "postgresql"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """A way into one store, on real time."""
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
        return lambda: open_store(url, new_id="crowd", allow_lossy=True)
    path = str(tmp_path / "state.db")
    opening = Opening(path, clock=SystemClock(), boot="boot", network_kind=lambda _: None, busy_ms=30_000)
    return lambda: opening.open(new_id="crowd")


class Witness:
    """Notes who holds what, outside the store."""

    def __init__(self) -> None:
        self.fences: dict[str, list[int]] = {}
        self.overlaps = 0
        self._held: set[str] = set()
        self._lock = Lock()

    def enter(self, names: tuple[str, ...], fence: int) -> None:
        with self._lock:
            self.overlaps += bool(self._held & set(names))
            self._held |= set(names)
            for name in names:
                self.fences.setdefault(name, []).append(fence)

    def leave(self, names: tuple[str, ...]) -> None:
        with self._lock:
            self._held -= set(names)


def test_eight_that_compete_are_never_two_at_once_and_their_fences_rise(opener: Opener) -> None:
    witness = Witness()
    opener().close()
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(lambda worker: compete(opener, witness, worker), range(WORKERS)))

    assert witness.overlaps == 0
    assert sum(len(fences) for fences in witness.fences.values()) >= WORKERS * GRANTS_EACH
    for fences in witness.fences.values():
        assert fences == sorted(set(fences))


def compete(opener: Opener, witness: Witness, worker: int) -> None:
    store = opener()
    pause = Event()
    sets = [("lock:a",), ("lock:b", "lock:a"), ("lock:c", "lock:b"), ("lock:c", "lock:a")]
    for turn in range(GRANTS_EACH):
        wanted = claim(*sets[(worker + turn) % len(sets)])
        while not isinstance(answer := store.acquire(wanted), Granted):
            pause.wait(0.002 * (1 + worker % 3))
        witness.enter(answer.lease.resources, answer.lease.fence)
        store.renew(answer.lease)
        witness.leave(answer.lease.resources)
        store.release(answer.lease, clean=True)
    store.close()


def test_eight_that_set_up_one_store_at_the_same_time_get_the_same_store(opener: Opener) -> None:
    with ThreadPoolExecutor(WORKERS) as pool:
        stores = list(pool.map(lambda _: opener(), range(WORKERS)))

    assert len({store.facts().id for store in stores}) == 1
    for store in stores:
        assert isinstance(store.acquire(claim(f"lock:{id(store)}")), Granted)
        store.close()


def test_a_fence_is_above_every_floor_that_was_in_force_before_it_was_asked_for(opener: Opener) -> None:
    floors, busy, stop = [0], Barrier(4), Event()
    store = opener()
    with ThreadPoolExecutor(3) as pool:
        grants = [pool.submit(grant_until, opener, stop, busy, floors) for _ in range(3)]
        busy.wait(timeout=30)
        for _ in range(10):
            floors.append(store.bump(floors[-1] + SystemClock().wall_us()))
        stop.set()
        assert sum(grant.result() for grant in grants) >= 3
    store.close()


def grant_until(opener: Opener, stop: Event, busy: Barrier, floors: list[int]) -> int:
    store, count = opener(), 0
    busy.wait(timeout=30)
    while not count or not stop.is_set():
        floor = floors[-1]
        answer = store.acquire(claim(f"lock:{id(store)}"))
        assert isinstance(answer, Granted)
        assert answer.lease.fence > floor
        store.release(answer.lease, clean=True)
        count += 1
    store.close()
    return count
