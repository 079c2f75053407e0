"""Both stores against a small model of what they should do, over random histories."""

from collections.abc import Callable
from contextlib import suppress
from random import Random  # noqa: TID251 - seeded: the same histories every time

import pytest

from fencepost.model.errors import LeaseLost
from fencepost.model.lease import Claim, Granted, Lease
from tests.stores.reference import Reference
from tests.stores.rig import AnyStore, Rig, claim

NAMES = ("lock:a", "lock:b", "lock:c", "project:p")
STEPS = 150


@pytest.mark.parametrize("seed", range(8))
def test_a_random_history_agrees_with_the_reference(rig: Rig, seed: int) -> None:
    walk = Walk(rig, Random(seed))
    for _ in range(STEPS):
        walk.step()
    assert walk.grants > 5, "a history without grants proves nothing"
    assert walk.losses > 3, "nor does one without a zombie"


class Walk:
    """One history, carried out on the store and on the reference alike."""

    def __init__(self, rig: Rig, random: Random) -> None:
        self.rig = rig
        self.doors = [rig.store, rig.open_another()]
        self.random = random
        self.model = Reference(now=rig.now_us(), whole=rig.kind == "sqlite")
        self.leases: list[Lease] = []
        self.claims: list[Claim] = []
        self.tickets: list[tuple[str, Claim]] = []
        self.grants = self.losses = 0

    def step(self) -> None:
        actions: list[Callable[[], None]] = [self.acquire] * 5
        actions += [self.pass_time] * 3 + [self.start, self.renew, self.release, self.enqueue] * 2
        actions += [self.break_lease, self.bury, self.dequeue, self.bump, self.step_back]
        self.random.choice(actions)()
        self.compare()

    def acquire(self) -> None:
        ticket, asked = self._some_ticket() or (None, self._some_claim())
        dead = {name for name in [*self.model.grants, *self.model.queue] if self.random.random() < 0.1}
        expected = self.model.acquire(asked, dead, ticket)
        look = self._door().look(asked, dead=dead, ticket=ticket)
        try:
            answer = self._door().acquire(asked, dead=dead, ticket=ticket)
        except LeaseLost:
            assert expected == "lost"
            return
        if isinstance(answer, Granted):
            assert expected == ("granted", answer.lease.fence, frozenset(answer.lease.gates))
            assert look is None
            self.grants += 1
            self.leases.append(answer.lease)
        else:
            assert answer == look
            assert expected == ("refused", {held.id for held in answer.holders}, [one.id for one in answer.ahead])

    def start(self) -> None:
        if lease := self._some_lease():
            expected = self.model.start(lease.id, lease.fence)
            assert self._kept(lambda: self._door().start(lease)) == expected

    def renew(self) -> None:
        if lease := self._some_lease():
            expected = self.model.renew(lease.id, lease.fence)
            assert self._kept(lambda: self._door().renew(lease)) == expected

    def release(self) -> None:
        if lease := self._some_lease():
            clean = self.random.random() < 0.7
            expected = self.model.release(lease.id, lease.fence, clean=clean)
            assert self._kept(lambda: self._door().release(lease, clean=clean)) == expected

    def break_lease(self) -> None:
        seen = self._door().leases()
        if seen:
            held = self.random.choice(seen)
            expected = self.model.release(held.id, held.fence, clean=False)
            assert self._door().break_lease(held, why="test") == expected

    def bury(self) -> None:
        if lease := self._some_lease():
            self.model.bury(lease.id, lease.fence)
            self._door().bury(lease)

    def enqueue(self) -> None:
        ticket, asked = self._some_ticket() or (f"ticket-{len(self.tickets)}", self._some_claim())
        self.tickets.append((ticket, asked))
        self.model.enqueue(asked, ticket)
        self._door().enqueue(asked, ticket)

    def dequeue(self) -> None:
        if found := self._some_ticket():
            self.model.queue.pop(found[0], None)
            self._door().dequeue(found[0])

    def pass_time(self) -> None:
        seconds = self.random.choice([0.5, 3.0, 10.0])
        self.rig.pass_time(seconds)
        self.model.now += round(seconds * 1_000_000)

    def step_back(self) -> None:
        """Only where leases have a clock of their own: on PostgreSQL a clock set back lengthens them too."""
        self.rig.step_wall(-1)
        self.model.now -= 1_000_000
        if self.rig.kind == "sqlite":
            for grant in self.model.grants.values():
                grant.until -= 1_000_000
            self.model.queue = {name: (keys, until - 1_000_000) for name, (keys, until) in self.model.queue.items()}

    def bump(self) -> None:
        if self.random.random() < 0.2:
            floor = self.model.now + self.random.randint(0, 10**7)
            self.model.floor = max(self.model.floor, floor)
            assert self._door().bump(floor) >= floor

    def compare(self) -> None:
        store = self._door()
        expected = {(name, grant.fence, grant.lost) for name, grant in self.model.grants.items()}
        assert {(held.id, held.fence, held.lost) for held in store.leases()} == expected
        assert [waiter.id for waiter in store.waiters()] == list(self.model.queue)

    def _kept(self, verb: Callable[[], None]) -> bool:
        with suppress(LeaseLost):
            verb()
            return True
        self.losses += 1
        return False

    def _door(self) -> AnyStore:
        return self.random.choice(self.doors)

    def _some_claim(self) -> Claim:
        if self.claims and self.random.random() < 0.1:
            return self.random.choice(self.claims)
        names = self.random.sample(NAMES, self.random.choice([1, 1, 2, 3]))
        gates = tuple(f"file:{number}" for number in range(self.random.randint(0, 2)))
        tenant = self.random.choice(["red", "blue"])
        self.claims.append(claim(*names, tenant=tenant, ttl=self.random.choice([2.0, 5.0, 20.0]), gates=gates))
        return self.claims[-1]

    def _some_lease(self) -> Lease | None:
        return self.random.choice(self.leases[-6:]) if self.leases else None

    def _some_ticket(self) -> tuple[str, Claim] | None:
        return self.random.choice(self.tickets) if self.tickets and self.random.random() < 0.5 else None
