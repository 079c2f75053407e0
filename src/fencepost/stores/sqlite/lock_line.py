"""How a connection waits for the lock of its file, which no process is told of when it is free: each looks again.

Who writes all the time, as a lane that drains a queue, looks often, so that the file is seldom idle. Who writes now and then
looks seldom and would miss the short gaps; so it stands in line meanwhile, and who writes all the time lets it pass.
"""

from __future__ import annotations

import apsw

from fencepost.model.fast_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.ports.clock import Clock
    from fencepost.stores.sqlite.copy import FenceCopy

LOOK_MS = 3  # how often a waiting writer looks: SQLite itself waits longer each time, and so misses short gaps
GAP_MS = 6  # what is left to others between two parts of a long work, or to those in line: all of them look in it
OFTEN_NS = 50_000_000  # who had the lock less than this ago writes all the time
SOON_SECONDS = 0.0003  # how often such a writer looks
SOON_MAX = 100  # times; then it stands in line as all others


class LockLine:
    """One connection's way to the lock."""

    __slots__ = ("_busy_ms", "_clock", "_connection", "_copy", "_had_ns", "_is_begun", "_is_hasty", "_stands")

    def __init__(self, connection: apsw.Connection, copy: FenceCopy, clock: Clock, *, busy_ms: int) -> None:
        self._connection, self._copy, self._clock, self._busy_ms = connection, copy, clock, busy_ms
        self._had_ns = -OFTEN_NS
        self._is_begun = True  # and nothing waits for the lock to write
        self._is_hasty = self._stands = False
        connection.set_busy_handler(self._look_again)

    def begin(self) -> None:
        """Begin to write once the lock is free."""
        self._is_hasty = self._clock.awake_ns() - self._had_ns < OFTEN_NS
        if self._is_hasty:
            self._let_pass()
        self._is_begun = False
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        finally:
            self._is_begun = True
            if self._stands:
                self._copy.leave_line()
                self._stands = False

    def note_end(self) -> None:
        """Take note that the lock was let go of."""
        self._had_ns = self._clock.awake_ns()

    def _let_pass(self) -> None:
        for _ in range(GAP_MS):
            if self._copy.is_line_empty():
                return
            apsw.sleep(1)

    def _look_again(self, before: int) -> bool:
        """Wait for another connection a little longer; False: it has been too long."""
        if self._is_hasty and not self._is_begun and before < SOON_MAX and self._copy.is_line_empty():
            from select import select

            select((), (), (), SOON_SECONDS)
            return True
        if before * LOOK_MS >= self._busy_ms:
            return False
        if not self._is_begun and not self._stands:
            self._stands = self._copy.stand_in_line()
        apsw.sleep(LOOK_MS)
        return True
