"""Holds a project for a person's agent session: a small process that renews while the session's process lives."""

import os
from collections.abc import Callable
from contextlib import suppress

from fencepost.model.errors import LeaseLost, StoreUnavailable
from fencepost.model.lease import Claim, Lease
from fencepost.model.process import Fate, ProcessId
from fencepost.ports.store import LeaseStore
from fencepost.service.admission import Admission
from fencepost.service.command_order import Order, Tools, new_id
from fencepost.service.custody import Custody, Term
from fencepost.service.signals import Mailbox, SignalledStop

LOOK_SECONDS = 1.0  # how soon the end of a session is noticed that said no good-bye
STORE_AWAY_SECONDS = 5.0
HELD = "held"


class SessionOver(Exception):
    """The session's process is gone."""


class SessionHolder:
    """Stands in a project's line for a session, and holds it when it is its turn."""

    def __init__(
        self,
        order: Order,
        tools: Tools,
        session: ProcessId,
        tell: Callable[[str], None],
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Stand in line for a session; `tell` hears how it stands: `held`, or what is waited for.

        `is_over` tells whether the session has been quiet for so long that no agent can be at work in it.
        """
        self._is_over = is_over
        self._order = order
        self._tools = tools._replace(say=tell)
        self._session = session
        self._tell = tell
        self._mailbox = Mailbox()

    def run(self) -> None:
        """Hold the project until the session ends or we are asked to stop; a lost lease is asked for again."""
        try:
            while True:
                try:
                    self._hold()
                except StoreUnavailable as error:
                    self._tell(str(error))
                    self._pause(STORE_AWAY_SECONDS)
        except (SessionOver, SignalledStop):
            return
        finally:
            self._mailbox.close()

    def _hold(self) -> None:
        store = self._tools.open_store()
        try:
            term = Term(self._tools.clock, counts_sleep=store.facts().counts_sleep)
            lease = Admission(self._order, self._tools, store, wait=self._wait).admit(self._claim(), term)
            if not lease.started:
                store.start(lease)  # the session is at work; so its clean end settles what earlier grants owe
            self._tell(HELD)
            try:
                self._renew(lease, term)
            finally:
                self._give_back(store, lease)
        finally:
            store.close()

    def _renew(self, lease: Lease, term: Term) -> None:
        custody = Custody(self._tools.open_store, self._tools.clock, counts_sleep=term.counts_sleep)
        kept = custody.keep(lease, term)
        custody.start()
        try:
            while not kept.lost and not term.over:
                custody.look()
                self._pause(min(LOOK_SECONDS, term.left_seconds))
        finally:
            custody.close()

    def _give_back(self, store: LeaseStore, lease: Lease) -> None:
        with suppress(LeaseLost, StoreUnavailable):  # then another process has it, or it runs out
            store.release(lease, clean=True)

    def _claim(self) -> Claim:
        return Claim(
            id=os.urandom(16).hex(),
            tenant=self._order.tenant,
            resources=self._order.resources,
            run_id=new_id(self._tools.clock),
            ttl_seconds=self._order.ttl_seconds,
            supervisor=self._tools.processes.myself(),
            holder=self._order.holder,
            label=self._order.label,
            slots=self._order.slots,
        )

    def _pause(self, seconds: float) -> None:
        until_ns = self._tools.clock.awake_ns() + round(seconds * 1e9)
        while (left := (until_ns - self._tools.clock.awake_ns()) / 1e9) > 0:
            self._wait(left)

    def _wait(self, seconds: float) -> None:
        """Pause for a moment; raise when the session or we are to end."""
        self._mailbox.wait(min(seconds, LOOK_SECONDS))
        if self._is_over() or self._tools.processes.fate(self._session) is Fate.DEAD:
            raise SessionOver
