"""A private folder for one run: its socket and its payload."""

import os
import stat

from fencepost.model.errors import Misconfigured

SOCKET_PATH_MAX = 100  # what every platform's unix sockets can take


class RunFolder:
    """The folder, by its path."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def socket(self) -> str:
        """Where the supervisor answers."""
        return f"{self.path}/socket"

    @property
    def payload(self) -> str:
        """Where the agent reads what it was triggered with."""
        return f"{self.path}/payload.json"

    def write_payload(self, text: str) -> None:
        """Put the payload where only the agent's user can read it."""
        descriptor = os.open(self.payload, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        """Take it away; whoever is second finds nothing to do."""
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    os.unlink(entry.path)
            os.rmdir(self.path)
        except FileNotFoundError:
            pass  # the guard or the supervisor was quicker


def make_run_folder(run_id: str) -> RunFolder:
    """Make a folder that nobody else can look into, below the user's runtime folder."""
    base = _base()
    path = f"{base}/{run_id}"
    os.mkdir(path, 0o700)
    return RunFolder(path)


def _base() -> str:
    """Return a folder of our own with room for a socket's name."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    candidates = [f"{runtime}/fencepost"] if runtime and os.path.isdir(runtime) else []
    shared = ["/tmp"]  # noqa: S108  # below it only a folder that is ours alone is used
    shared.insert(0, os.environ.get("TMPDIR", "/tmp"))  # noqa: S108  # likewise
    candidates += [f"{folder.rstrip('/')}/fencepost-{os.getuid()}" for folder in shared]
    for path in candidates:
        if len(path) + len("/r0123456789abcdef0123/socket") > SOCKET_PATH_MAX:
            continue
        if _is_private(path):
            return path
    raise Misconfigured(
        f"there is no private folder for run sockets: {candidates[-1]} is not a folder that only this user "
        "can use. Remove it, or set XDG_RUNTIME_DIR to a folder of your own."
    )


def _is_private(path: str) -> bool:
    """Make the folder if need be; trust it only if it is ours and closed to others."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass  # the usual case
    except OSError:
        return False
    found = os.lstat(path)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
