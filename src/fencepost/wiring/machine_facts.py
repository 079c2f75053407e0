"""Looks at this machine: its processes, its clock, its name, its SQLite."""

from __future__ import annotations

from fencepost.model.fast_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.model.process import Host
    from fencepost.ports.clock import Clock
    from fencepost.ports.processes import Processes


def this_hosts_processes() -> Processes:
    """Return the process table of this host."""
    from fencepost.host.clock import SystemClock
    from fencepost.host.processes import system_processes

    return system_processes(SystemClock())


def system_clock() -> Clock:
    """Return the clock of this machine."""
    from fencepost.host.clock import SystemClock

    return SystemClock()


def sqlite_version() -> str:
    """Return which SQLite there is, or raise StoreUnavailable if it can corrupt a file."""
    import apsw

    from fencepost.stores.sqlite.store import check_library

    version: str = apsw.sqlite_lib_version()
    check_library(version)
    return version


def this_machine() -> Host:
    """Return where this process runs."""
    from fencepost.host.identity import this_host

    return this_host()


def now_us() -> int:
    """Return this machine's time, in microseconds since 1970."""
    from fencepost.host.clock import SystemClock

    return SystemClock().wall_us()


def keep_to_ourselves() -> None:
    """Let no agent read what this process has in its environment, as far as the host allows; `doctor` says how far."""
    from fencepost.host.unreadable_process import become_unreadable

    become_unreadable()
