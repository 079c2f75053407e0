"""Lets the threads of one process commit together: while one flush is under way, the works that wait become the next.

A commit waits for the disk, and each of n threads would wait for the n - 1 others. The first thread leads: it carries
out the works of all who wait, each in a savepoint of its own, and flushes once. No thread is answered before that.
"""

from threading import Lock
from typing import Any

from fencepost.model.fast_typing import Callable
from fencepost.stores.transaction import T


class GroupedWork:
    """One thread's work, and what came of it."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.work = work
        self.answer: Any = None
        self.error: BaseException | None = None
        self.is_over = False


Lead = Callable[[Callable[[], list[GroupedWork]]], None]  # carry out all works that are handed out, in one transaction


class CommitGroup:
    """The works that wait for the next commit."""

    def __init__(self) -> None:
        self._leading = Lock()
        self._waiting: list[GroupedWork] = []

    def write(self, work: Callable[[Any], T], lead: Lead) -> T:
        """Have the work carried out, by ourselves or by the thread that leads; return when it is durable."""
        mine = GroupedWork(work)
        self._waiting.append(mine)  # a list's append needs no lock
        with self._leading:
            if not mine.is_over:
                lead(self._take)
        if mine.error is not None:
            raise mine.error
        answer: T = mine.answer
        return answer

    def _take(self) -> list[GroupedWork]:
        """Hand out everything that waits; only who leads asks."""
        taken = self._waiting[:]
        del self._waiting[: len(taken)]
        return taken
