"""The few calls of the C library that Python has no name for, without the cost of importing ctypes."""

from __future__ import annotations

import sys

_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
_TFD_ABSTIME, _TFD_NONBLOCK, _TFD_CLOEXEC = 1, 0o4000, 0o2000000
_CLOCK_BOOTTIME = 7


_found: dict[str, int] = {}  # where each function lies: a guard sets its alarm again and again


def call(name: str, *values: int | bytes) -> int | None:
    """Call a function of the C library; None where there is no way to."""
    try:
        from _ctypes import call_function, dlopen, dlsym  # a quarter of what ctypes costs

        if name not in _found:
            _found[name] = dlsym(dlopen(None, 0), name)  # type: ignore[arg-type]  # None is this program itself
        return int(call_function(_found[name], values))
    except (ImportError, OSError):
        return None


def become_subreaper() -> bool:
    """Make orphans among our descendants our own children; False where the host has no such thing."""
    return sys.platform == "linux" and call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def die_with_parent(signum: int) -> bool:
    """Get this signal when the parent ends, however it ends; False where the host has no such thing."""
    return sys.platform == "linux" and call("prctl", _PR_SET_PDEATHSIG, signum, 0, 0, 0) == 0


def name_process(name: str) -> None:
    """Have process listings show this name, of at most fifteen letters."""
    if sys.platform == "linux":
        call("prctl", _PR_SET_NAME, name.encode() + b"\0", 0, 0, 0)


def open_alarm() -> int | None:
    """Return a descriptor that becomes readable at a time of the clock that counts sleep; None where there is none."""
    if sys.platform != "linux":
        return None
    descriptor = call("timerfd_create", _CLOCK_BOOTTIME, _TFD_NONBLOCK | _TFD_CLOEXEC)
    return None if descriptor is None or descriptor < 0 else descriptor


def set_alarm(descriptor: int, at_ns: int) -> None:
    """Have the descriptor become readable then; a time in the past makes it so at once."""
    seconds, nanoseconds = divmod(max(1, at_ns), 1_000_000_000)
    when = b"".join(part.to_bytes(8, sys.byteorder) for part in (0, 0, seconds, nanoseconds))
    call("timerfd_settime", descriptor, _TFD_ABSTIME, when, 0)
