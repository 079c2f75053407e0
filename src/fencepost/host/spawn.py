"""Starts an agent in a process group of its own, with a clean slate of signals."""

from __future__ import annotations

import os

from fencepost.model import light_signal as signal
from fencepost.model.light import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.model.light import Collection, Mapping, Sequence

# What a terminal, a shell or an operator sends; a guard ignores these and passes them on when told to.
TERMINAL_SIGNALS = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGHUP,
    signal.SIGTERM,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
# Python ignores these for itself; a program expects them to end it.
RESTORED_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)


def ignored_signals() -> list[int]:
    """Return which terminal signals the caller was told to ignore, as nohup does; an agent keeps ignoring them."""
    return [number for number in TERMINAL_SIGNALS if signal.getsignal(number) is signal.SIG_IGN]


def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    ignore: Collection[int] = (),
    terminal: int | None = None,
) -> int:
    """Start a program and return its pid, or raise the OSError that kept it from starting.

    `terminal` is a descriptor whose foreground the new group takes over.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(argv, env, ignore=ignore, terminal=terminal, failure=writer)
    os.close(writer)
    try:
        failure = os.read(reader, 16)
    finally:
        os.close(reader)
    if failure:
        os.waitpid(pid, 0)
        number = int(failure)
        raise OSError(number, os.strerror(number), argv[0])
    return pid


def _become(
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    ignore: Collection[int],
    terminal: int | None,
    failure: int,
) -> None:
    """Turn the forked child into the program; the pipe closes by itself when that works."""
    try:
        os.setpgid(0, 0)
        if terminal is not None:
            take_terminal(terminal, os.getpid())
        _clean_signals(ignore)
        os.execvpe(argv[0], list(argv), dict(env))  # noqa: S606  # an argv list, on purpose
    except OSError as error:
        os.write(failure, str(error.errno).encode())
    finally:
        os._exit(127)


def _clean_signals(ignore: Collection[int]) -> None:
    for number in (*TERMINAL_SIGNALS, *RESTORED_SIGNALS, signal.SIGCHLD, signal.SIGWINCH, signal.SIGCONT):
        signal.signal(number, signal.SIG_IGN if number in ignore else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def take_terminal(terminal: int, group: int) -> None:
    """Make a process group the terminal's foreground; whoever is in the background must not be stopped for asking."""
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        os.tcsetpgrp(terminal, group)
    except OSError:
        pass  # the terminal has hung up; there is no foreground to give away
    finally:
        signal.signal(signal.SIGTTOU, before)


def foreground_terminal() -> int | None:
    """Return standard input's descriptor if it is a terminal whose foreground we are."""
    try:
        return 0 if os.tcgetpgrp(0) == os.getpgrp() else None
    except OSError:
        return None
