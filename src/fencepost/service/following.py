"""Follows a run to its end: its places in the queue, its attempts, and what they print, through rotation."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fencepost.host.log_files import log_path
from fencepost.host.log_reader import LogReader
from fencepost.model.run import RunState
from fencepost.ports.clock import Clock
from fencepost.ports.runs import RunRow

CHUNK = 65_536
READ_EVERY_SECONDS = 0.1
LOOK_EVERY = 5  # readings between two looks at the store


@dataclass(frozen=True, slots=True)
class Ears:
    """Who listens: to the output, and to what becomes of the run."""

    output: Callable[[bytes], None]
    told: Callable[[RunRow], None]


def follow(
    run: RunRow,
    look: Callable[[], RunRow],
    folder: str,
    ears: Ears,
    *,
    lines: int | None = None,
    clock: Clock | None = None,
) -> RunRow:
    """Hand on what a run prints until it has ended, and return it as it ended.

    What was printed before is handed on first: all of it, or its last `lines`.
    """
    clock = clock or system_clock()
    tail, fence = _tail_of(run, folder), run.fence
    try:
        if tail is not None:
            ears.output(last_lines(b"".join(_rest_of(tail)), lines))
        while True:
            # Looked at before the last reading: what it printed before its end is then in the file.
            now = look()
            _drain(tail, ears)
            if now.fence != fence:
                if tail is not None:
                    tail.close()
                tail, fence = _tail_of(now, folder), now.fence
            ears.told(now)
            _drain(tail, ears)
            if RunState(now.state).terminal:
                return now
            for _ in range(LOOK_EVERY):
                clock.sleep(READ_EVERY_SECONDS)
                _drain(tail, ears)
    finally:
        if tail is not None:
            tail.close()


def wait_for_end(
    look: Callable[[], RunRow], *, timeout_seconds: float | None = None, clock: Clock | None = None
) -> RunRow | None:
    """Look at a run until it has ended, and return it; None if it has not in time."""
    clock = clock or system_clock()
    give_up_ns = None if timeout_seconds is None else clock.awake_ns() + round(timeout_seconds * 1e9)
    while True:
        run = look()
        if RunState(run.state).terminal:
            return run
        if give_up_ns is not None and clock.awake_ns() >= give_up_ns:
            return None
        clock.sleep(READ_EVERY_SECONDS)


def last_lines(data: bytes, lines: int | None) -> bytes:
    """Return the last lines, or all of them."""
    return data if lines is None else b"".join(data.splitlines(keepends=True)[-lines:])


def system_clock() -> Clock:
    """Return this host's clock, for a door that names runs or waits."""
    from fencepost.host.clock import SystemClock

    return SystemClock()


def _tail_of(run: RunRow, folder: str) -> LogReader | None:
    return None if run.fence is None else LogReader(log_path(folder, run.id, run.fence), None, tail_bytes=sys.maxsize)


def _drain(tail: LogReader | None, ears: Ears) -> None:
    for data in _rest_of(tail):
        ears.output(data)


def _rest_of(tail: LogReader | None) -> Iterator[bytes]:
    """Yield all that has come since the last reading."""
    while tail is not None and (data := tail.read(CHUNK)):
        yield data
