"""A machine whose holders all fall silent: it takes locks, never renews them, and hears that it was replaced.

Started by test_takeovers.py in namespaces of its own. All it knows of the other machine's grants, it is told by the store;
the journal, which both append to, is for the test, and says when to look whether an old lease is refused.
"""

import os
import sys
from pathlib import Path
from threading import Event

from fencepost.host.clock import SystemClock
from fencepost.host.processes import system_processes
from fencepost.model.errors import LeaseLost, StoreUnavailable
from fencepost.model.lease import Claim, Granted, Lease
from fencepost.wiring import open_leases
from tests.cells.apart import enter

ROUND_SECONDS = 0.1  # between two looks at all locks


class Taker:
    """Takes what it can get, one lock after the other."""

    def __init__(self, name: str, url: str, journal: Path, ttl: float) -> None:
        self.name = name
        self.journal = journal
        self._file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._ttl = ttl
        self._clock = SystemClock()
        self._store = open_leases(url)
        self._myself = system_processes(self._clock).myself()
        self._held: dict[str, Lease] = {}

    def look_at(self, lock: str) -> None:
        """Take it if it can be had; if it was ours and is another's now, see that our lease is worth nothing."""
        mine = self._held.get(lock)
        if mine is None:
            self._try(lock)
        elif self._newest(lock) > mine.fence:
            try:
                self._store.renew(mine)
                self._note("renewed", lock, mine.fence)  # which must never be
            except LeaseLost:
                self._note("lost", lock, mine.fence)
            del self._held[lock]

    def _try(self, lock: str) -> None:
        claim = Claim(
            os.urandom(16).hex(), "default", (lock,), os.urandom(8).hex(), self._ttl, self._myself, starts=True
        )
        asked_ns = self._clock.awake_ns()
        answer = self._store.acquire(claim)
        if isinstance(answer, Granted):
            self._held[lock] = answer.lease
            self._note("granted", lock, answer.lease.fence, asked_ns)

    def _newest(self, lock: str) -> int:
        lines = (line.split() for line in self.journal.read_text().splitlines())
        return max(int(words[3]) for words in lines if words[:1] == ["granted"] and words[2] == lock)

    def _note(self, what: str, lock: str, fence: int, asked_ns: int = 0) -> None:
        now_ns = self._clock.awake_ns()
        os.write(self._file, f"{what} {self.name} {lock} {fence} {asked_ns} {now_ns}\n".encode())


def main() -> None:
    """Go on until the test has seen enough."""
    name, descriptor, port, url, journal, locks, ttl = sys.argv[1:]
    enter(name, int(descriptor), int(port))
    taker = Taker(name, url, Path(journal), float(ttl))
    while True:
        for number in range(int(locks)):
            try:
                taker.look_at(f"lock:{number}")
            except StoreUnavailable as error:
                sys.stderr.write(f"{error}\n")  # tried again in the next round
        Event().wait(ROUND_SECONDS)


if __name__ == "__main__":
    main()
