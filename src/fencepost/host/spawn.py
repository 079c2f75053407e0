"""Starts an agent in a process group of its own, with a clean slate of signals."""

from __future__ import annotations

import errno
import os

from fencepost.host.libc import die_with_parent
from fencepost.model import fast_signal as signal
from fencepost.model.fast_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Collection, Mapping, Sequence

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
OOM_MAX, OOM_ABOVE_GUARD = 1000, 100
DESCRIPTORS_MAX = 65_536


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
    standard: tuple[int, int, int] | None = None,
) -> int:
    """Start a program that dies with us, and return its pid, or raise the OSError that kept it from starting.

    `terminal` is a descriptor whose foreground the new group takes over; `folder` is where it works;
    `standard` are its input, output and errors, where those are not ours.
    """
    paths = _paths(argv[0], env)  # looked up here: what the child touches has to be copied for it first
    reader, writer = os.pipe()
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        _outlive_nobody(parent)
        _become(paths, argv, env, ignore=ignore, terminal=terminal, folder=folder, standard=standard, failure=writer)
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
    paths: Sequence[str],
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    ignore: Collection[int],
    terminal: int | None,
    folder: str | None,
    standard: tuple[int, int, int] | None,
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
        for number, descriptor in enumerate(standard or ()):
            os.dup2(descriptor, number)
        _start_first(paths, argv, env)
    except OSError as error:
        os.write(failure, str(error.errno).encode())
    finally:
        os._exit(127)


def _outlive_nobody(parent: int) -> None:
    """Die when the guard is killed, and be killed before it when memory runs out: it is the guard that ends the rest."""
    die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(127)  # it was killed before we asked
    try:
        descriptor = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
        mine = int(os.read(descriptor, 16))
        os.pwrite(descriptor, str(min(OOM_MAX, mine + OOM_ABOVE_GUARD)).encode(), 0)
        os.close(descriptor)
    except (OSError, ValueError):
        return  # no Linux, or a /proc that is read-only


def _paths(name: str, env: Mapping[str, str]) -> list[str]:
    """Return where the program may be, by its own PATH; what is not absolute is meant from its own folder."""
    folders = [""] if "/" in name else env.get("PATH", os.defpath).split(os.pathsep)
    paths = [os.path.join(folder, name) for folder in folders]
    return [path for path in paths if not path.startswith("/") or not _is_missing(path)] or paths[:1]


def _is_missing(path: str) -> bool:
    try:
        os.stat(path)  # much cheaper than a start that fails
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False  # it is closed to us, which is another thing to say
    return False


def _start_first(paths: Sequence[str], argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Become the first that can be started; os.execvpe would import `warnings`, which is slow."""
    missing: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
    denied: OSError | None = None
    for path in paths:
        try:
            os.execve(path, list(argv), dict(env))  # noqa: S606  # an argv list
        except (FileNotFoundError, NotADirectoryError) as error:
            missing = error
        except OSError as error:
            denied = denied or error
    raise denied or missing


def _clean_signals(ignore: Collection[int]) -> None:
    for number in _signals():
        signal.signal(number, signal.SIG_IGN if number in ignore else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _signals() -> tuple[int, ...]:
    return (*TERMINAL_SIGNALS, *RESTORED_SIGNALS, signal.SIGCHLD, signal.SIGWINCH, signal.SIGCONT)


def close_others(*kept: int) -> None:
    """Close every descriptor of a forked child but the standard ones and these: what it holds open never ends for others."""
    first = 3
    for descriptor in sorted(kept):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, DESCRIPTORS_MAX)


def take_terminal(terminal: int, group: int) -> None:
    """Make a process group the terminal's foreground; a background process must not be stopped for asking."""
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
