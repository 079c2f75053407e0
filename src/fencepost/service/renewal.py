"""Keeps a lease alive from a thread and a connection of its own, and knows until when it may be trusted."""

from __future__ import annotations

import _thread

from fencepost.model.errors import LeaseLost, StoreUnavailable
from fencepost.model.lease import Lease, renew_every, trusted_for
from fencepost.model.light import TYPE_CHECKING, Callable

if TYPE_CHECKING:
    from fencepost.ports.clock import Clock
    from fencepost.ports.store import LeaseStore

STOP_SECONDS = 0.2
NO_THREAD_SECONDS = 0.1
RESERVE_SECONDS = (
    1.0  # from then on a holder has the connection of its renewals: a crowd at the server's door costs it nothing
)
RETRY_PART = 4  # after a failed renewal, try again after this part of the usual pause


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
        self.deadline_ns = asked_ns + round(trusted_for(ttl_seconds) * 1e9)

    @property
    def left_seconds(self) -> float:
        """For how long the lease may still be trusted; never negative."""
        return max(0.0, (self.deadline_ns - self.now_ns()) / 1e9)

    @property
    def over(self) -> bool:
        """Whether the lease may be somebody else's by now."""
        return self.now_ns() >= self.deadline_ns


class Renewer:
    """Renews one lease, a step at a time."""

    def __init__(self, lease: Lease, term: Term, open_store: Callable[[], LeaseStore]) -> None:
        """Renew over a store of its own, so that a slow query elsewhere cannot hold a renewal up."""
        self.lost: str | None = None
        self.trouble: str | None = None  # why the last try failed, if it did
        self._lease = lease
        self._term = term
        self._open_store = open_store
        self._store: LeaseStore | None = None

    def reserve(self) -> None:
        """Connect before there is anything to renew; trouble now is no trouble yet."""
        try:
            self._store = self._store or self._open_store()
        except StoreUnavailable as error:
            self.trouble = str(error)

    def step(self) -> float:
        """Try to renew once and return how many seconds to wait; after the deadline nothing is left to renew."""
        asked_ns = self._term.now_ns()
        if self._term.over:
            self.lost = f"it was not renewed in time{f' ({self.trouble})' if self.trouble else ''}."
            return 0.0
        try:
            self._store = self._store or self._open_store()
            self._store.renew(self._lease)
        except LeaseLost as error:
            self.lost = str(error)
            return 0.0
        except StoreUnavailable as error:
            self.trouble = str(error)
            self.close()  # whatever ails the connection, the next try has a fresh one
            return renew_every(self._lease.ttl_seconds) / RETRY_PART
        self._term.extend(self._lease.ttl_seconds, asked_ns=asked_ns)
        self.trouble = None
        return renew_every(self._lease.ttl_seconds)

    def close(self) -> None:
        """Let go of the store."""
        store, self._store = self._store, None
        if store is not None:
            try:
                store.close()
            except StoreUnavailable:
                return  # nothing is owed to this connection


class Renewal:
    """Runs a renewer in a thread that the main thread cannot starve, started only when there is something to do."""

    def __init__(
        self, renewer: Renewer, *, first_in_seconds: float, term: Term, tell: Callable[[], None] | None = None
    ) -> None:
        """`tell` is called in the thread after each step."""
        self._renewer = renewer
        self._term = term
        self._tell = tell
        self._started = False
        self._first_ns = term.now_ns() + round(first_in_seconds * 1e9)
        # A server has so many connections to give away; a file is open to all at any time.
        reserve_seconds = RESERVE_SECONDS if term.counts_sleep else first_in_seconds
        self._start_ns = min(self._first_ns, term.now_ns() + round(reserve_seconds * 1e9))
        self._running = _thread.allocate_lock()  # held until somebody says stop
        self._running.acquire()
        self._at_work = _thread.allocate_lock()  # held by the thread
        self._asking = _thread.allocate_lock()  # held during a step

    @property
    def lost(self) -> str | None:
        """Why the lease is lost, if it is."""
        return self._renewer.lost

    @property
    def trouble(self) -> str | None:
        """Why the last try failed, if it did."""
        return self._renewer.trouble

    def first_in_seconds(self) -> float | None:
        """Return when to call start(), or None once it runs; a short run never pays for the thread."""
        return None if self._started else max(0.0, (self._start_ns - self._term.now_ns()) / 1e9)

    def start(self) -> None:
        """Begin to renew in the background; if there is no thread to be had, `first_in_seconds` says when to try again.

        An agent that forks without end can use up what this user may start. It must not bring us down with it.
        """
        self._at_work.acquire()
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:
            self._at_work.release()
            self._start_ns = self._term.now_ns() + round(NO_THREAD_SECONDS * 1e9)
        else:
            self._started = True

    def stop(self) -> None:
        """Stop; a renewal that hangs in the network is not waited for."""
        if self._running.locked():
            self._running.release()
        if self._started and self._at_work.acquire(timeout=STOP_SECONDS):
            self._at_work.release()

    def hold_off(self) -> bool:
        """Let no step be under way until `go_on`; return False if one hangs, and then it waits for others' locks.

        Whoever stops the whole process in the middle of a transaction locks everybody else out of an SQLite store.
        """
        return self._asking.acquire(timeout=STOP_SECONDS)

    def go_on(self) -> None:
        """Take up the steps again after `hold_off`."""
        self._asking.release()

    def _run(self) -> None:
        try:
            if self._term.counts_sleep:
                with self._asking:
                    self._renewer.reserve()
            pause = max(0.0, (self._first_ns - self._term.now_ns()) / 1e9)
            while not self.lost and not self._running.acquire(timeout=pause):
                with self._asking:
                    pause = self._renewer.step()
                if self._tell:
                    self._tell()
        finally:
            self._renewer.close()
            self._at_work.release()
