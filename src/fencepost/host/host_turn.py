"""Takes turns with other processes of this machine without asking a store: quick, and no more than a courtesy."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from fencepost.ports.clock import Clock

PAUSE_SECONDS = 0.01


@contextmanager
def turn(path: str, clock: Clock, *, seconds_max: float) -> Iterator[None]:
    """Wait until no other process is in this block, but never for longer than so many seconds.

    A process that must be alone has a lease besides. The file is never deleted, and the lock ends with its holder; one
    that is frozen, or a file that cannot be made, holds up no other process for good.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        give_up_ns = clock.awake_ns() + round(seconds_max * 1e9)
        while not _locked(file) and clock.awake_ns() < give_up_ns:
            clock.sleep(PAUSE_SECONDS)
        yield
    finally:
        os.close(file)


def _locked(file: int) -> bool:
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
