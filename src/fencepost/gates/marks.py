"""The marks of one gate on disk, and the lock under which they are compared."""

import errno
import fcntl
import os
import stat
from contextlib import contextmanager, suppress

from fencepost.gates.file_draft import Draft
from fencepost.gates.file_target import FOLDER, Place
from fencepost.gates.mark_text import decode, encode
from fencepost.gates.open_beneath import NO_LINK, sync
from fencepost.model.errors import GateUnreachable, Misconfigured
from fencepost.model.fast_typing import TYPE_CHECKING, Iterator
from fencepost.model.gate import Mark

if TYPE_CHECKING:
    from fencepost.ports.clock import Clock

_WHOLE_DIRECTORY = ".dir"
_SIZE_MAX = 4_194_304
_NAME_MAX = 240
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PAUSE_FIRST, _PAUSE_MAX = 0.001, 0.05


class BrokenMarks(Misconfigured):
    """The marks cannot be read, so no writer passes: a gate that forgot its fences would let a zombie in."""


class FileMarks:
    """The marks that stand before one file, or without a name before the whole directory, in an open folder."""

    def __init__(self, folder: int, place: Place) -> None:
        self.folder = folder
        self.target = place.target
        self._stem = _stem(place.name)
        self._path = os.path.join(place.folder, self._stem)

    def exists(self) -> bool:
        """Tell whether a fence was ever raised here."""
        try:
            os.stat(self._stem + ".fence", dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def read(self) -> dict[str, Mark]:
        """Return the marks, none if no fence was ever raised here, or raise BrokenMarks."""
        try:
            return decode(self._content())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise BrokenMarks(
                f"{self._path}.fence cannot be read ({_reason(error)}), so its gate lets no writer pass. "
                f"To close it for all older runs and go on: fencepost gate raise --adopt {self.target}"
            ) from None

    def keep(self, marks: dict[str, Mark]) -> None:
        """Replace the marks and return when they would survive a power cut."""
        first = not self.exists()
        with Draft(self.folder, 0o600) as draft:
            draft.fill([encode(marks)])
            # The folder's owner, so that a write by root does not shut the others out.
            draft.complete(like=os.fstat(self.folder), mask=0o600)
            draft.publish(self._stem + ".fence", self.folder)
        if first:
            self._sync_directory()

    def copy_aside(self) -> None:
        """Keep the broken marks under another name too, for a person to look at.

        They stay in force until the new ones replace them: a crash between must not leave a gate without marks.
        """
        with suppress(FileNotFoundError):
            os.unlink(self._stem + ".broken", dir_fd=self.folder)
        os.link(
            self._stem + ".fence",
            self._stem + ".broken",
            src_dir_fd=self.folder,
            dst_dir_fd=self.folder,
            follow_symlinks=False,
        )

    @contextmanager
    def locked(self, clock: "Clock", wait_seconds: float) -> Iterator[None]:
        """Hold the gate: no other process compares or writes meanwhile. The kernel lets go when we die."""
        deadline_ns = clock.awake_ns() + int(wait_seconds * 1e9)
        while True:
            file = os.open(self._stem + ".lock", _LOCK, 0o600, dir_fd=self.folder)
            try:
                self._wait_for(file, clock, deadline_ns)
                if self._is_ours(file):
                    yield
                    return
            finally:
                os.close(file)

    def _wait_for(self, file: int, clock: "Clock", deadline_ns: int) -> None:
        pause = _PAUSE_FIRST
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            if clock.awake_ns() >= deadline_ns:
                raise GateUnreachable(
                    f"{self._path}.lock is busy: another process, maybe a frozen one, holds the gate. "
                    "Find it with fuser or lsof and end it; never delete the lock."
                )
            clock.sleep(pause)
            pause = min(pause * 2, _PAUSE_MAX)

    def _is_ours(self, file: int) -> bool:
        """Tell whether the locked file still has its name: the folder may have been cleared while we waited."""
        try:
            named = os.stat(self._stem + ".lock", dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(named, os.fstat(file))

    def _content(self) -> bytes:
        file = os.open(self._stem + ".fence", _READ, dir_fd=self.folder)
        with open(file, "rb", buffering=0) as content:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise ValueError("it is no regular file")
            return content.read(_SIZE_MAX) or b""

    def _sync_directory(self) -> None:
        """Make sure that the folder itself does not vanish in a power cut, with its first marks."""
        above = os.open("..", os.O_RDONLY | NO_LINK, dir_fd=self.folder)
        try:
            sync(above)
        finally:
            os.close(above)


def open_folder(directory: int, place: Place) -> int | None:
    """Open the folder of marks in a directory, or return None if there is none that can be believed."""
    try:
        folder = os.open(FOLDER, os.O_RDONLY | NO_LINK, dir_fd=directory)
    except FileNotFoundError:
        return None
    except OSError as error:
        if not _is_believed(directory):
            return None
        raise Misconfigured(_closed_sentence(error, place.folder)) from None
    if _is_believed(directory):
        return folder
    os.close(folder)
    return None


def make_folder(directory: int, place: Place) -> int:
    """Open the folder of marks in a directory, and make it if there is none."""
    with suppress(FileExistsError):
        os.mkdir(FOLDER, 0o700, dir_fd=directory)
    folder = open_folder(directory, place)
    if folder is None:
        raise Misconfigured(
            f"{place.folder} belongs to another user in a directory where every user may write; put the target elsewhere."
        )
    with suppress(FileExistsError):
        _hide_from_git(folder)
    return folder


def _hide_from_git(folder: int) -> None:
    """Keep git from offering the marks for a commit, and `git clean -d` from removing them."""
    file = os.open(".gitignore", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        os.write(file, b"*\n")
    finally:
        os.close(file)


def _is_believed(directory: int) -> bool:
    """Tell whether the folder's owner may make it: in a place like /tmp, only we or root."""
    if not os.stat(".", dir_fd=directory).st_mode & stat.S_ISVTX:
        return True
    return os.stat(FOLDER, dir_fd=directory, follow_symlinks=False).st_uid in (os.geteuid(), 0)


def _closed_sentence(error: OSError, folder: str) -> str:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return f"{folder} is a symlink or a file, so the gate cannot be trusted. Remove it, then raise the gate again."
    return f"{folder} cannot be opened ({_reason(error)}); all writers of one gate run as the user who owns it."


def _stem(name: str) -> str:
    if not name:
        return _WHOLE_DIRECTORY
    if name == _WHOLE_DIRECTORY or len(os.fsencode(name)) > _NAME_MAX:
        from hashlib import sha256

        return "sha256-" + sha256(os.fsencode(name)).hexdigest()
    return name


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
