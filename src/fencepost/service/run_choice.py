"""Chooses the runs that are leased next, each with a guard that can carry it out."""

import os
from collections.abc import Sequence

from fencepost.model.fast_typing import NamedTuple
from fencepost.ports.runs import Offer, RunRow
from fencepost.service.guard_handle import Guarded
from fencepost.service.guard_pool import SPARE, GuardPool
from fencepost.service.run_making import Making
from fencepost.service.worker_tools import WorkerTools
from fencepost.service.zygote import Zygote
from fencepost.stores.runtime import RuntimeStore

LEASE_MAX = 50  # runs that are leased in one transaction
VAIN_SECONDS = 1.0  # a run that could not be leased is not asked for again at once
GATES_SECONDS = 60.0
SCARCE_MIN_SECONDS, SCARCE_MAX_SECONDS = 1.0, 30.0  # between two tries on a host that has no room for an agent


class Chosen(NamedTuple):
    """A run that shall be leased, and who shall carry it out."""

    offer: Offer
    key: str  # with which another worker may adopt it
    guarded: Guarded


class RunChoice:
    """The guards that wait, and what is known of the runs that wait."""

    def __init__(self, bench: WorkerTools, making: Making, plain: Zygote, full: Zygote, *, keeper: str) -> None:
        """Have plain commands carried out by guards of one helper, and all other runs by those of the other."""
        self._bench, self._making, self._keeper = bench, making, keeper
        self._plain = GuardPool(plain, bench.tools, bench.guard_folder, full=False)
        self._full = GuardPool(full, bench.tools, bench.guard_folder, full=True)
        self.pools = {pool.fd: pool for pool in (self._plain, self._full)}
        self.come = False  # a guard has come since runs were last chosen
        self._short = False  # fewer guards than runs that wait and have room
        self._ready = 0  # how many runs waited at the last look, without those that were leased since
        self._passed: dict[str, int] = {}  # runs that could not be leased, until when
        self._not_plain: set[str] = set()  # runs that turned out to need a full guard
        self._spell_ns = 0
        self._at_once = LEASE_MAX  # fewer where the host had no room for an agent lately
        self._pause_seconds = 0.0  # before the next is tried
        self._pause_ns = 0  # until then

    @property
    def wants_runs(self) -> bool:
        """Whether a guard has come that runs were waiting for."""
        return self._short and self.come

    def idle(self) -> list[Guarded]:
        """Return the guards that wait for a run."""
        return [*self._plain.idle, *self._full.idle]

    def offers(self, store: RuntimeStore, room: int, ready: int | None) -> dict[str, Chosen]:
        """Return what shall be leased now, by the runs' ids; `ready` says how many wait, None that they were not counted."""
        now = self._now()
        self._ready = ready = max(1, self._ready) if ready is None else ready
        self._passed = {run_id: until for run_id, until in self._passed.items() if until > now}
        self._plain.want(min(room, ready + SPARE))
        idle = len(self.idle())
        limit = min(room, ready, idle, self._at_once) if now >= self._pause_ns else 0
        self._short, self.come = idle < min(room, ready), False
        if limit <= 0:
            return {}
        if now >= self._spell_ns:
            self._spell_ns = now + round(GATES_SECONDS * 1e9)
            self._making.forget_spellings()
        runs = store.next_runs(limit, passed=tuple(self._passed), places=self._bench.grounds.places())
        self._ready = max(0, ready - len(runs)) if len(runs) == limit else 0
        chosen = {}
        for run, guarded in self._with_guards(runs, room):
            key = os.urandom(24).hex()
            socket = guarded.place.socket
            claim = self._making.claim(run, guarded.process, keeper=self._keeper, adopt_key=key, socket=socket)
            self._pass_over(run.id)
            if claim is not None:
                chosen[run.id] = Chosen(Offer(run.id, claim), key, guarded)
        return chosen

    def _with_guards(self, runs: Sequence[RunRow], room: int) -> list[tuple[RunRow, Guarded]]:
        """Return each run with a guard that can carry it out; one for which there is none waits until one is forked."""
        plain, full = list(self._plain.idle), list(self._full.idle)
        needs_full = [run for run in runs if run.id in self._not_plain or not self._making.is_plain(run)]
        if needs_full:
            self._full.want(min(room, len(needs_full) + SPARE))
        found = []
        for run in runs:
            guards = full if run in needs_full else plain
            if guards:
                found.append((run, guards.pop(0)))
            else:
                self._short = True
        return found

    def taken(self, run_id: str, guarded: Guarded) -> None:
        """Take note that a run is leased: its guard waits no more."""
        self._passed.pop(run_id, None)
        self.drop(guarded)
        if guarded.full:
            self._not_plain.discard(run_id)

    def go_slow(self) -> None:
        """Try one run at a time, at longer and longer intervals: this host has no room for its agent."""
        if self._now() >= self._pause_ns:
            self._at_once = 1
            self._pause_seconds = min(max(SCARCE_MIN_SECONDS, 2 * self._pause_seconds), SCARCE_MAX_SECONDS)
            self._pause_ns = self._now() + round(self._pause_seconds * 1e9)

    def go_on(self, *, started: bool) -> None:
        """Try again, since an agent has ended; or more at once, since one has started."""
        self._pause_ns = 0
        if started:
            self._at_once, self._pause_seconds = min(2 * self._at_once, LEASE_MAX), 0.0

    def needs_full(self, run_id: str) -> None:
        """Have a run carried out by a full guard the next time."""
        self._not_plain.add(run_id)

    def came_in_vain(self, run_id: str) -> None:
        """Do not choose a run again at once that could not be started, unless another kind of guard can start it."""
        if run_id not in self._not_plain:
            self._pass_over(run_id)

    def drop(self, guarded: Guarded) -> None:
        """Forget a guard that waits no more."""
        for pool in (self._plain, self._full):
            if guarded in pool.idle:
                pool.idle.remove(guarded)

    def _pass_over(self, run_id: str) -> None:
        self._passed[run_id] = self._now() + round(VAIN_SECONDS * 1e9)

    def _now(self) -> int:
        return self._bench.tools.clock.awake_ns()
