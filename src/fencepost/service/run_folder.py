"""A private folder for one run: its socket and its payload."""

from __future__ import annotations

import os
import stat

from fencepost.model.errors import Misconfigured
from fencepost.model.fast_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Iterator, Mapping

SOCKET_PATH_MAX = 100  # what every platform's unix sockets can take
GUARD_NAME_MAX = 30
PAYLOAD, CHECKPOINT = "payload.json", "checkpoint.json"
TEMPORARY = "/tmp"  # noqa: S108  # below it only a folder that is ours is used


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
        return f"{self.path}/{PAYLOAD}"

    @property
    def checkpoint(self) -> str:
        """Where a resumed agent finds what it left for itself."""
        return f"{self.path}/{CHECKPOINT}"

    def make(self, files: Mapping[str, str]) -> None:
        """Make the folder, and lay files out where only the agent's user can read them."""
        os.mkdir(self.path, 0o700)
        for name, text in files.items():
            self.put(name, text)

    def put(self, name: str, text: str) -> None:
        """Lay out a file."""
        assert "/" not in name, name
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(f"{self.path}/{name}", flags, 0o600)
        try:
            data = memoryview(text.encode())
            while data:
                data = data[os.write(descriptor, data) :]
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        """Take it away with all that the agent put there; a second call finds nothing to do."""
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


def plan_run_folder(run_id: str, fence: int | None = None) -> RunFolder:
    """Choose a place that no other user can look into, below the user's runtime folder; nothing is made there yet.

    With its fence each attempt has a place of its own: what clears away after one takes nothing from the next.
    """
    name = run_id if fence is None else f"{run_id}.{fence}"
    return RunFolder(f"{_base(len(name))}/{name}")


def guards_below(state_folder: str) -> str:
    """Return the folder of the guards' sockets: in the state folder, or where its path is too long, in our own."""
    path = os.path.join(state_folder, "guards")
    if len(os.fsencode(path)) + GUARD_NAME_MAX <= SOCKET_PATH_MAX:
        return path
    return os.path.join(_base(GUARD_NAME_MAX), "guards")


def _base(name_length: int) -> str:
    """Return a folder of our own with room for a socket's name.

    Another user may have been there first, under the name that we would have taken: then we go elsewhere. Where no folder
    above is safe, as in a container whose /tmp is open to all and not sticky, one that is closed itself has to do.
    """
    for above in (_is_out_of_reach, _is_ours_above):
        for path in _candidates():  # the first one will nearly always do, so the others are not looked at yet
            fits = len(os.fsencode(path)) + name_length + len("//socket") <= SOCKET_PATH_MAX
            if fits and above(os.path.dirname(path)) and _is_private(path):
                return path
    raise Misconfigured(
        f"there is no private folder for run sockets: none of {', '.join(dict.fromkeys(_candidates()))} is one that only this user can use "
        f"and whose path leaves room for a socket's (at most {SOCKET_PATH_MAX} bytes). Set XDG_RUNTIME_DIR to a folder of "
        "your own with a short name."
    )


def _candidates() -> Iterator[str]:
    """Yield where the folder may be, the best place first; the folder itself is never a link."""
    from fencepost.config.find import state_folder

    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    shared = (os.environ.get("TMPDIR") or TEMPORARY, TEMPORARY)
    places = [
        *([f"{runtime}/fencepost"] if runtime else []),
        *(f"{folder.rstrip('/')}/fencepost-{os.getuid()}" for folder in shared),
        f"{state_folder(os.environ)}/run",
    ]
    for place in places:
        folder, name = os.path.split(place)
        if os.path.isdir(folder):
            yield f"{os.path.realpath(folder)}/{name}"


def _is_out_of_reach(folder: str) -> bool:
    """Tell whether no other user can put something else in a folder's place, anywhere on the way to it."""
    while True:
        found = os.lstat(folder)
        if found.st_uid not in (0, os.getuid()) or _is_shared(found):
            return False
        if folder == "/":
            return True
        folder = os.path.dirname(folder)


def _is_ours_above(folder: str) -> bool:
    """Tell whether a folder is at least not another user's own."""
    return os.lstat(folder).st_uid in (0, os.getuid())


def _is_shared(found: os.stat_result) -> bool:
    """Tell whether other users can take away what is ours in a folder; where it is sticky they cannot."""
    if found.st_mode & stat.S_ISVTX or not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return False
    if found.st_mode & stat.S_IWOTH:
        return True
    from fencepost.config.file_trust import is_private_group

    return not is_private_group(found.st_gid)


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
