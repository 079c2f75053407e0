"""A private folder for one run: its socket and its payload."""

from __future__ import annotations

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

    @property
    def checkpoint(self) -> str:
        """Where a resumed agent finds what it left for itself."""
        return f"{self.path}/checkpoint.json"

    def make(self, payload: str) -> None:
        """Make the folder, and put the payload where only the agent's user can read it."""
        os.mkdir(self.path, 0o700)
        self._put(self.payload, payload)

    def put_checkpoint(self, content: str) -> None:
        """Lay out what a resumed agent gets back."""
        self._put(self.checkpoint, content)

    def put(self, name: str, text: str) -> None:
        """Lay out a file of the engine's."""
        assert "/" not in name, name
        self._put(f"{self.path}/{name}", text)

    def _put(self, path: str, text: str) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)

    def remove(self) -> None:
        """Take it away with whatever the agent put there; whoever comes second finds nothing to do."""
        for path in (self.socket, self.payload, self.checkpoint):
            try:
                os.unlink(path)
            except OSError:
                continue  # the guard or the supervisor was quicker, or the agent put something else there
        try:
            os.rmdir(self.path)
        except FileNotFoundError:
            return
        except OSError:
            from shutil import rmtree

            rmtree(self.path, ignore_errors=True)


def plan_run_folder(run_id: str) -> RunFolder:
    """Choose a place that nobody else can look into, below the user's runtime folder; nothing is made there yet."""
    return RunFolder(f"{_base(len(run_id))}/{run_id}")


def _base(name_length: int) -> str:
    """Return a folder of our own with room for a socket's name."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    candidates = [f"{runtime}/fencepost"] if runtime and os.path.isdir(runtime) else []
    shared = [os.environ.get("TMPDIR") or "/tmp", "/tmp"]  # noqa: S108  # below it only a folder that is ours is used
    candidates += [f"{folder.rstrip('/')}/fencepost-{os.getuid()}" for folder in shared]
    for path in map(os.path.abspath, candidates):
        if len(os.fsencode(path)) + name_length + len("//socket") <= SOCKET_PATH_MAX and _is_private(path):
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
