"""Starts an agent in a process group of its own, with a clean slate of signals."""

from __future__ import annotations

import errno
import os

from fencepost.model import light_signal as signal
from fencepost.model.light import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.model.light import Callable, Collection, Mapping, Sequence

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
    folder: str | None = None,
    errors: str | None = None,
) -> int:
    """Start a program and return its pid, or raise the OSError that kept it from starting.

    `terminal` is a descriptor whose foreground the new group takes over; `folder` is where it works;
    `errors` is a pipe that standard error goes to.
    """
    if terminal is None and folder is None and errors is None and hasattr(os, "posix_spawn"):
        return _spawn_quickly(argv, env, ignore)
    return _fork(argv, env, ignore=ignore, terminal=terminal, folder=folder, errors=errors)


def _spawn_quickly(argv: Sequence[str], env: Mapping[str, str], ignore: Collection[int]) -> int:
    """Start it without a copy of our own memory, which takes longer than many a command.

    What we ignore ourselves stays ignored in the child unless it is reset.
    """
    for number in ignore:
        signal.signal(number, signal.SIG_IGN)
    reset = [number for number in _signals() if number not in ignore]

    def start(path: str) -> int:
        return os.posix_spawn(path, list(argv), dict(env), setpgroup=0, setsigmask=(), setsigdef=reset)

    return _first(start, argv[0], env)


def _fork(
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    ignore: Collection[int] = (),
    terminal: int | None = None,
    folder: str | None = None,
    errors: str | None = None,
) -> int:
    """Start it by a fork, which can do more on the way."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(argv, env, ignore=ignore, terminal=terminal, folder=folder, errors=errors, failure=writer)
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
    folder: str | None,
    errors: str | None,
    failure: int,
) -> None:
    """Turn the forked child into the program; the pipe closes by itself when that works."""
    try:
        os.setpgid(0, 0)
        if terminal is not None:
            take_terminal(terminal, os.getpid())
        _clean_signals(ignore)
        if folder is not None:
            os.chdir(folder)
        if errors is not None:
            _speak_to(errors)
        _first(lambda path: os.execve(path, list(argv), dict(env)), argv[0], env)  # noqa: S606  # an argv list
    except OSError as error:
        os.write(failure, str(error.errno).encode())
    finally:
        os._exit(127)


def _first(start: Callable[[str], int], name: str, env: Mapping[str, str]) -> int:
    """Start the first on the program's own PATH that can be; os.execvpe would import `warnings`, which is slow."""
    folders = [""] if "/" in name else env.get("PATH", os.defpath).split(os.pathsep)
    missing: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    denied: OSError | None = None
    for folder in folders:
        path = os.path.join(folder, name)
        try:
            os.stat(path)  # much cheaper than a start that fails
            return start(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            missing = error
        except OSError as error:
            denied = denied or error
    raise denied or missing


def _speak_to(errors: str) -> None:
    """Make a named pipe standard error; if nobody reads it any more, that is an error and no reason to wait."""
    pipe = os.open(errors, os.O_WRONLY | os.O_NONBLOCK)
    os.set_blocking(pipe, True)
    os.dup2(pipe, 2)
    os.close(pipe)


def _clean_signals(ignore: Collection[int]) -> None:
    for number in _signals():
        signal.signal(number, signal.SIG_IGN if number in ignore else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _signals() -> tuple[int, ...]:
    return (*TERMINAL_SIGNALS, *RESTORED_SIGNALS, signal.SIGCHLD, signal.SIGWINCH, signal.SIGCONT)


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
