"""Mistakes on purpose in adoption: each takes one rule away, and the simulator must notice."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NamedTuple
from unittest.mock import patch

from fencepost.flow.reaper import Reaper
from fencepost.host.life_lock import is_life_over
from fencepost.model.lease import HELD, Claim
from fencepost.ports.runs import Adoptable
from fencepost.service import guard_handle
from fencepost.service.adoption import Adoption
from fencepost.service.channel import Channel, Message
from fencepost.service.end_record import EndRecord
from fencepost.service.run_guard import RunGuard
from fencepost.service.run_making import Making
from fencepost.service.worker import Worker
from fencepost.stores import run_ends
from fencepost.stores.runtime import RuntimeStore
from tests.simulation.adoption.play import simulate_adoption
from tests.simulation.mutations import _sql
from tests.simulation.promises import until_broken
from tests.simulation.world import Violation

Patches = Sequence[AbstractContextManager[object]]


class Mutation(NamedTuple):
    """One mistake, and the kinds of trouble in which it shows."""

    patches: Callable[[], Patches]
    kinds: str
    start: int = 0  # the first seed that is tried, where those before it notice nothing and take long


def mutations() -> dict[str, Mutation]:
    """Return every mistake, by what it does."""
    return {
        "adopted twice": Mutation(_adopted_twice, "kill worker"),
        "adopted after the deadline": Mutation(_after_the_deadline, "kill worker, freeze guard", start=22),
        "adopted without its time": Mutation(
            lambda: [patch.object(RunGuard, "_take", _take_and_keep_the_time)], "leave, kill worker"
        ),
        "settled twice": Mutation(_settled_twice, "rob worker"),
        "a thawed worker renews": Mutation(
            lambda: [_sql(renew_leases=("(id, fence, epoch) IN (SELECT value ->> 0, value ->> 1, value ->> 2", _ANY))],
            "rob worker",
        ),
        "a thawed worker kills": Mutation(lambda: [patch.object(Worker, "_bury", _bury_without_asking)], "rob worker"),
        "a thawed worker's last resort does not ask first": Mutation(
            lambda: [patch.object(guard_handle, "Fate", _NoFate)], "rob worker, cut", start=4
        ),
        "reaped while its guard lives": Mutation(
            lambda: [patch.object(Reaper, "take_over", _break_what_is_unattended)], "kill worker, older program"
        ),
        "an end that a reboot takes away": Mutation(
            lambda: [patch.object(Adoption, "_found", _found_since_the_boot)], "kill worker, reboot"
        ),
        "an end that is not written down": Mutation(
            lambda: [patch.object(EndRecord, "write", lambda *_: None)], "kill worker, reboot"
        ),
        "older programs see the worker as the holder": Mutation(
            lambda: [patch.object(Making, "claim", _claimed_by_the_worker)], "kill worker, older program"
        ),
        "what a new keeper says at once is not heard": Mutation(
            lambda: [patch.object(RunGuard, "_hear_guest", _hear_the_first_word)], "kill worker"
        ),
    }


def seeds_until_caught(mutation: Mutation, limit: int) -> tuple[int, Violation | None]:
    """Try seeds with the mistake in place; return how many it took, and what noticed it."""
    with ExitStack() as stack:
        for one in mutation.patches():
            stack.enter_context(one)
        seeds = range(mutation.start, mutation.start + limit)
        return until_broken(simulate_adoption(seed, mutation.kinds) for seed in seeds)


_ANY = "(id, fence) IN (SELECT value ->> 0, value ->> 1"


class _NoFate:
    ALIVE = object()


def _adopted_twice() -> Patches:
    words = "(id, fence, epoch) IN (SELECT value ->> 0, value ->> 1, value ->> 2"
    return [_sql(adopt_leases=(words, _ANY))]


def _settled_twice() -> Patches:
    return [
        patch.object(run_ends, "fate_of_attempt", lambda *_: HELD),
        patch.object(run_ends, "_free", lambda *_: None),
        patch.object(run_ends, "_is_plain", lambda _: False),
        _sql(settle_runs=("+run.fence = one.fence AND run.state = 'running'", "true")),
    ]


def _after_the_deadline() -> Patches:
    real = RunGuard._take

    def take(self: RunGuard, guest: Channel, message: Message) -> None:
        if self._term.over:
            self._term.deadline_ns = self._term.now_ns() + 1
        real(self, guest, message)

    return [patch.object(RunGuard, "_take", take)]


def _take_and_keep_the_time(
    self: RunGuard, guest: Channel, message: Message, *, real: Callable[..., None] = RunGuard._take
) -> None:
    before = self._term.deadline_ns if self._epoch >= 0 else 0
    real(self, guest, message)
    self._term.deadline_ns = max(before, self._term.deadline_ns)


def _bury_without_asking(self: Worker, _: RuntimeStore) -> None:
    gone, self._gone = self._gone, []
    for guarded_one in gone:
        if guarded_one.leased is not None and guarded_one.end is None:
            self._conclude(guarded_one, guarded_one.leased, ours=True)


def _break_what_is_unattended(self: Reaper) -> int:
    for held in self.leases.leases():
        lock = os.path.join(os.environ["XDG_STATE_HOME"], "workers", held.keeper or "none")
        if not held.lost and is_life_over(lock):
            self.leases.break_lease(held, why="its worker is gone")
    return sum(self._reap(run) for run in self.runs.lost_runs(self.batch_max))


def _found_since_the_boot(self: Adoption, store: RuntimeStore) -> list[Adoptable]:
    return store.adoptable(self._processes.here())


def _claimed_by_the_worker(
    self: Making,
    *values: Any,  # noqa: ANN401  # handed on
    real: Callable[..., Claim | None] = Making.claim,
    **named: Any,  # noqa: ANN401
) -> Claim | None:
    claim = real(self, *values, **named)
    return claim and claim._replace(supervisor=self._tools.processes.myself())


def _hear_the_first_word(self: RunGuard, descriptor: int, guest: Channel) -> None:
    for message in guest.receive():
        if "take" in message:
            self._take(guest, message["take"])
        elif "leave" in message:
            self._left = self._epoch < 0
    if guest.closed and descriptor in self._guests:
        self._guests.pop(descriptor).close()
        self._left = self._left or self._epoch < 0
