"""A file that a process keeps locked for as long as it lives: who gets the lock knows that the process is gone."""

import fcntl
import os


def hold_life_lock(path: str, text: str) -> int:
    """Make the file, lock it for good, and return its descriptor; no child inherits it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_there(path, descriptor):  # another worker may have tidied it away before it was locked
            os.write(descriptor, text.encode())
            return descriptor
        os.close(descriptor)


def try_life_lock(path: str, text: str) -> int | None:
    """Do the same without waiting; None if another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    os.truncate(descriptor, 0)
    os.write(descriptor, text.encode())
    return descriptor


def _is_there(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def holder_of(path: str) -> int | None:
    """Return the process that says it holds the lock, if it is held."""
    if is_life_over(path):
        return None
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def holders_in(folder: str) -> dict[str, int]:
    """Return the processes that hold the locks of a folder, by the names of the files."""
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return {}
    found = {name: holder_of(os.path.join(folder, name)) for name in names}
    return {name: pid for name, pid in found.items() if pid is not None}


def is_life_over(path: str) -> bool:
    """Tell whether the process that held the lock is gone; a missing file tells nothing."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
