"""Opens directories without following symlinks, so that a swapped link cannot lead a write elsewhere."""

import errno
import os
from contextlib import ExitStack, suppress

from fencepost.model.errors import Misconfigured

NO_LINK = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# On the way down, permission to pass through is enough; the names of that differ between systems.
_PASS = getattr(os, "O_PATH", 0) or getattr(os, "O_SEARCH", os.O_RDONLY)


def descend(opened: ExitStack, path: str) -> list[tuple[str, int]]:
    """Open every directory of a real path, from the root down, for as long as the stack lives."""
    steps = [("/", os.open("/", _PASS | NO_LINK))]
    opened.callback(os.close, steps[0][1])
    for name in filter(None, path.split("/")):
        above, here = steps[-1]
        below = os.path.join(above, name)
        steps.append((below, _step(here, name, below)))
        opened.callback(os.close, steps[-1][1])
    return steps


def open_directory(at: int) -> int:
    """Open again, for syncing and listing, a directory that was opened for passing through."""
    return os.open(".", os.O_RDONLY | NO_LINK, dir_fd=at)


def sync(descriptor: int) -> None:
    """Return when the content, or the names in a directory, would survive a power cut."""
    import fcntl

    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        with suppress(OSError):  # not every file system of a Mac knows it; fsync is then the best there is
            fcntl.fcntl(descriptor, full)
            return
    os.fsync(descriptor)


def _step(here: int, name: str, path: str) -> int:
    try:
        return os.open(name, _PASS | NO_LINK, dir_fd=here)
    except FileNotFoundError:
        raise Misconfigured(f"there is no directory {path}; make it first, then try again.") from None
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        raise Misconfigured(
            f"{path} is no directory, or has become a symlink, which a gate never follows. Nothing was written."
        ) from None
