"""Every lease that a process holds: until when each may be trusted, and all of them renewed together.

One thread and one connection renew, however many leases there are. A connection that does not answer is given up for
another one, so that a server that went silent costs no lease whose holder could reach it again.
"""

from __future__ import annotations

import _thread

from fencepost.model.errors import StoreUnavailable
from fencepost.model.fast_typing import TYPE_CHECKING, Callable
from fencepost.model.lease import Lease, renew_every, trusted_for

if TYPE_CHECKING:
    from fencepost.ports.clock import Clock
    from fencepost.ports.store import LeaseStore

STOP_SECONDS = 0.2
NO_THREAD_SECONDS = 0.1
RESERVE_SECONDS = (
    1.0  # from then on a holder has the connection of its renewals: a crowd at the server's door costs it nothing
)
RETRY_PART = 4  # after a failed renewal, try again after this part of the usual pause
SILENT_PART = 6  # of the time to live: a connection that has not answered by then is given up
TOGETHER_PART = 10  # of the usual pause: what is due so soon is renewed now, with the others
BATCH_MAX = 250
IDLE_SECONDS = 3600.0


class Term:
    """Until when a lease may be trusted, by the clock of the store's kind.

    PostgreSQL's leases run on while this host sleeps, SQLite's do not: all its users sleep together.
    """

    __slots__ = ("_clock", "counts_sleep", "deadline_ns")

    def __init__(self, clock: Clock, *, counts_sleep: bool) -> None:
        self._clock = clock
        self.counts_sleep = counts_sleep
        self.deadline_ns = 0

    def now_ns(self) -> int:
        """Return the time on the clock that deadlines are on."""
        return self._clock.boot_ns() if self.counts_sleep else self._clock.awake_ns()

    def extend(self, ttl_seconds: float, *, asked_ns: int) -> None:
        """Trust the lease again, counted from before the request was sent: the answer may have been slow."""
        self.deadline_ns = max(self.deadline_ns, asked_ns + round(trusted_for(ttl_seconds) * 1e9))

    @property
    def left_seconds(self) -> float:
        """For how long the lease may still be trusted; never negative."""
        return max(0.0, (self.deadline_ns - self.now_ns()) / 1e9)

    @property
    def over(self) -> bool:
        """Whether another process may have the lease by now."""
        return self.now_ns() >= self.deadline_ns


class Kept:
    """One lease in custody."""

    __slots__ = ("due_ns", "lease", "lost", "moved", "term", "trouble")

    def __init__(self, lease: Lease, term: Term) -> None:
        self.lease = lease
        self.term = term
        self.lost: str | None = None  # why it is lost, if it is
        self.moved = False  # another worker has adopted it: it is to be forgotten, and nothing is to be ended
        self.trouble: str | None = None  # why the last try failed, if it did
        self.due_ns = term.now_ns() + round(renew_every(lease.ttl_seconds) * 1e9)

    def hear(self, answer: str, asked_ns: int) -> None:
        """Take note of what the store says about it."""
        pause = renew_every(self.lease.ttl_seconds)
        if answer == "renewed":
            self.trouble = None
            self.term.extend(self.lease.ttl_seconds, asked_ns=asked_ns)
        elif answer in ("lost", "moved"):
            self.moved = answer == "moved"
            self.lost = (
                f"the lease on {' '.join(self.lease.resources)} with fence {self.lease.fence} is no longer held."
            )
        else:
            self.fail(answer, asked_ns)
            return
        self.due_ns = asked_ns + round(pause * 1e9)

    def fail(self, why: str, asked_ns: int) -> None:
        """Take note that it was not renewed, and try again soon."""
        self.trouble = why
        self.due_ns = asked_ns + round(renew_every(self.lease.ttl_seconds) / RETRY_PART * 1e9)

    def expire(self) -> None:
        """Take note that its time is over."""
        self.lost = self.lost or f"it was not renewed in time{f' ({self.trouble})' if self.trouble else ''}."


class _Asker:
    """A thread with a connection of its own, and since when it has waited for an answer."""

    __slots__ = ("since_ns", "store")

    def __init__(self) -> None:
        self.store: LeaseStore | None = None
        self.since_ns: int | None = None

    def close(self) -> None:
        store, self.store = self.store, None
        if store is not None:
            try:
                store.close()
            except StoreUnavailable:
                return  # nothing is owed to this connection


class Custody:
    """Keeps leases alive from a thread that the main thread cannot starve, started only when there is something to do."""

    def __init__(
        self,
        open_store: Callable[[], LeaseStore],
        clock: Clock,
        *,
        counts_sleep: bool,
        tell: Callable[[], None] | None = None,
    ) -> None:
        """`tell` is called in the thread whenever there is news of a lease."""
        self._open_store = open_store
        self._time = Term(clock, counts_sleep=counts_sleep)
        self._tell = tell
        self._kept: dict[str, Kept] = {}
        self._changing = _thread.allocate_lock()  # held while the leases are listed or changed
        self._asleep = _thread.allocate_lock()  # held while the thread has nothing to do
        self._asleep.acquire()
        self._asking = _thread.allocate_lock()  # held during a step
        self._at_work = _thread.allocate_lock()  # held by the thread
        self._asker: _Asker | None = None
        self._start_ns = 0
        self._closed = False

    def keep(self, lease: Lease, term: Term) -> Kept:
        """Take a lease into custody; from its first renewal on it is kept alive."""
        kept = Kept(lease, term)
        with self._changing:
            if not self._kept and self._asker is None:
                # A server has so many connections to give away; a file is open to all at any time.
                reserve_ns = self._time.now_ns() + round(RESERVE_SECONDS * 1e9)
                self._start_ns = min(kept.due_ns, reserve_ns) if term.counts_sleep else kept.due_ns
            self._kept[lease.id] = kept
        self._wake()
        return kept

    def let_go(self, kept: Kept) -> None:
        """Renew a lease no more."""
        with self._changing:
            self._kept.pop(kept.lease.id, None)

    def first_in_seconds(self) -> float | None:
        """Return when to call start(), or None once it runs; a short run never pays for the thread."""
        if self._asker is not None or not self._kept:
            return None
        return max(0.0, (self._start_ns - self._time.now_ns()) / 1e9)

    def start(self) -> None:
        """Begin to renew in the background; if there is no thread to be had, `first_in_seconds` says when to try again.

        An agent that forks without end can use up what this user may start. It must not bring us down with it.
        """
        self._at_work.acquire()
        asker = _Asker()
        try:
            self._asker = asker
            _thread.start_new_thread(self._run, (asker,))
        except RuntimeError:
            self._asker = None
            self._at_work.release()
            self._start_ns = self._time.now_ns() + round(NO_THREAD_SECONDS * 1e9)

    def look(self) -> None:
        """Give up a connection that does not answer, and go on with another one."""
        asker = self._asker
        since_ns = asker.since_ns if asker is not None else None
        if since_ns is None:
            return
        with self._changing:
            ttl = min((one.lease.ttl_seconds for one in self._kept.values()), default=IDLE_SECONDS)
        if self._time.now_ns() - since_ns > ttl / SILENT_PART * 1e9:
            self._replace()

    def close(self) -> None:
        """Stop; a renewal that hangs in the network is not waited for."""
        self._closed = True
        self._wake()
        if self._asker is not None and self._at_work.acquire(timeout=STOP_SECONDS):
            self._at_work.release()

    def hold_off(self) -> bool:
        """Let no step be under way until `go_on`; return False if one hangs, and then it waits for others' locks.

        A process that is stopped in the middle of a transaction locks all others out of an SQLite store.
        """
        return self._asking.acquire(timeout=STOP_SECONDS)

    def go_on(self) -> None:
        """Take up the steps again after `hold_off`."""
        self._asking.release()

    def step(self, asker: _Asker | None = None) -> float:
        """Renew what is due, and return how many seconds nothing will be."""
        asker = asker or self._only()
        due = self._due()
        for first in range(0, len(due), BATCH_MAX):
            self._ask(asker, due[first : first + BATCH_MAX])
        with self._changing:
            left = [one.due_ns for one in self._kept.values() if not one.lost]
        return max(0.0, (min(left) - self._time.now_ns()) / 1e9) if left else IDLE_SECONDS

    def _only(self) -> _Asker:
        """Return the one that asks where there is no thread."""
        self._asker = self._asker or _Asker()
        return self._asker

    def _replace(self) -> None:
        asker, self._asker = self._asker, _Asker()
        self._at_work = _thread.allocate_lock()
        self._at_work.acquire()
        self._asking = _thread.allocate_lock()
        try:
            _thread.start_new_thread(self._run, (self._asker,))
        except RuntimeError:
            self._asker = asker

    def _run(self, asker: _Asker) -> None:
        at_work, asking = self._at_work, self._asking
        try:
            if self._time.counts_sleep:
                self._reserve(asker)
            while not self._closed and self._asker is asker:
                with asking:
                    pause = self.step(asker)
                if self._tell and self._asker is asker:
                    self._tell()
                self._asleep.acquire(timeout=pause)
        finally:
            asker.close()
            at_work.release()

    def _reserve(self, asker: _Asker) -> None:
        """Connect before there is anything to renew; trouble now is no trouble yet."""
        try:
            asker.store = asker.store or self._open_store()
        except StoreUnavailable:
            return

    def _due(self) -> list[Kept]:
        now = self._time.now_ns()
        with self._changing:
            held = [one for one in self._kept.values() if not one.lost]
        for one in held:
            if one.term.over:
                one.expire()
        if not any(one.due_ns <= now for one in held):
            return []
        together = [one for one in held if one.due_ns <= now + _together_ns(one.lease)]
        return [one for one in together if not one.lost]

    def _ask(self, asker: _Asker, due: list[Kept]) -> None:
        asked_ns = asker.since_ns = self._time.now_ns()
        try:
            asker.store = asker.store or self._open_store()
            answers = asker.store.renew_leases([one.lease for one in due])
        except StoreUnavailable as error:
            asker.close()  # the connection may be broken; the next try has a fresh one
            for one in due:
                one.fail(str(error), asked_ns)
        else:
            for one in due:
                one.hear(answers.get(one.lease.id, "lost"), asked_ns)
        asker.since_ns = None

    def _wake(self) -> None:
        try:
            self._asleep.release()
        except RuntimeError:
            return  # it is awake


def _together_ns(lease: Lease) -> int:
    return round(renew_every(lease.ttl_seconds) / TOGETHER_PART * 1e9)
