"""The gate of a directory that is published as a whole: readers see the old one or the new one, never half of each."""

import fcntl
import os
import shutil
import stat
from contextlib import ExitStack, suppress

from fencepost.gates.file_target import FOLDER, Place, named_place
from fencepost.gates.open_beneath import sync
from fencepost.gates.path import PathGate, explained
from fencepost.model.errors import Misconfigured
from fencepost.model.fast_typing import TYPE_CHECKING, Callable, Self
from fencepost.model.gate import Proof

if TYPE_CHECKING:
    from fencepost.ports.clock import Clock
    from fencepost.ports.gate import Disk

DEPTH_MAX = 100
KEPT = 1  # of the generations before the current one: a reader may be in the middle of it
CHUNK = 1_048_576
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DRAFT, _DONE, _LINK = "tmp-", "g-", "link-"


def folder_of(name: str) -> str:
    """Return where the generations of a directory are kept, beside it."""
    return f".{name}.generations"


class Generation:
    """A copy of a directory under a name of its own, removed unless it was published.

    Its writer holds a lock on it, so that what a dead writer left can be told from the work of a slow one.
    """

    def __init__(self, directory: int, name: str) -> None:
        self._name = name
        self._opened = ExitStack()
        self._folder = _open_folder(directory, folder_of(name))
        self._opened.callback(os.close, self._folder)
        self._draft = _DRAFT + os.urandom(16).hex()
        os.mkdir(self._draft, 0o755, dir_fd=self._folder)
        self._root = os.open(self._draft, _DIRECTORY, dir_fd=self._folder)
        self._opened.callback(os.close, self._root)
        fcntl.flock(self._root, fcntl.LOCK_EX)
        self._published = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if not self._published:
                shutil.rmtree(self._draft, dir_fd=self._folder)
        finally:
            self._opened.close()

    def fill(self, source: str) -> int:
        """Copy a directory, durably, and return how many bytes that made; refuse what would lead out of it."""
        opened = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return _copy(opened, self._root, "", 0)
        finally:
            os.close(opened)

    def publish(self, at_us: int, directory: int) -> None:
        """Switch the name to this generation, and return when that would survive a power cut; then clear up."""
        done = f"{_DONE}{at_us:020d}-{self._draft.removeprefix(_DRAFT)}"
        os.rename(self._draft, done, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._published = True
        sync(self._folder)
        link = _LINK + os.urandom(16).hex()
        os.symlink(f"{folder_of(self._name)}/{done}", link, dir_fd=self._folder)
        os.rename(link, self._name, src_dir_fd=self._folder, dst_dir_fd=directory)
        sync(directory)
        self._clear_up(done)

    def _clear_up(self, current: str) -> None:
        """Remove what is not needed: all but the newest generations, and what dead writers left. The gate is locked."""
        names = os.listdir(self._folder)
        older = sorted(name for name in names if name.startswith(_DONE) and name != current)
        for name in older[: len(older) - KEPT] if len(older) > KEPT else []:
            shutil.rmtree(name, dir_fd=self._folder, ignore_errors=True)
        for name in names:
            with suppress(OSError):  # in a living writer's hands, or gone
                if name.startswith(_LINK):
                    os.unlink(name, dir_fd=self._folder)
                elif name.startswith(_DRAFT):
                    _remove_if_abandoned(self._folder, name)


def current_of(directory: int, name: str, target: str) -> str | None:
    """Return which generation the name leads to, None if there is nothing yet; refuse what is no link of ours."""
    try:
        facts = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(facts.st_mode):
        where = os.readlink(name, dir_fd=directory)
        if where.startswith(f"{folder_of(name)}/"):
            return where.partition("/")[2]
        raise Misconfigured(f"{target} is a symlink that no gate has made; remove it, then publish again.")
    what = "a directory of its own" if stat.S_ISDIR(facts.st_mode) else "no directory"
    raise Misconfigured(
        f"{target} is {what}, which cannot be switched in one step; move it away once (mv {name} {name}.before), then "
        "publish again."
    )


def _open_folder(directory: int, name: str) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=directory)
        sync(directory)
    return os.open(name, _DIRECTORY, dir_fd=directory)


def _copy(source: int, copy: int, where: str, depth: int) -> int:
    if depth > DEPTH_MAX:
        raise Misconfigured(f"{where} is more than {DEPTH_MAX} directories deep; that is not published.")
    size = 0
    with os.scandir(source) as entries:
        names = sorted(entry.name for entry in entries)
    for name in names:
        if name == FOLDER:
            continue  # the marks of another gate are not for readers
        path = f"{where}/{name}" if where else name
        facts = os.stat(name, dir_fd=source, follow_symlinks=False)
        if stat.S_ISDIR(facts.st_mode):
            size += _copy_directory(source, copy, name, path, depth)
        elif stat.S_ISREG(facts.st_mode):
            size += _copy_file(source, copy, name)
        elif stat.S_ISLNK(facts.st_mode):
            os.symlink(_inner_link(source, name, path), name, dir_fd=copy)
        else:
            raise Misconfigured(
                f"{path} is a pipe, a socket or a device; only files, directories and links are published."
            )
    sync(copy)
    return size


def _copy_directory(source: int, copy: int, name: str, path: str, depth: int) -> int:
    with ExitStack() as opened:
        inner = os.open(name, _DIRECTORY, dir_fd=source)
        opened.callback(os.close, inner)
        os.mkdir(name, 0o700, dir_fd=copy)
        made = os.open(name, _DIRECTORY, dir_fd=copy)
        opened.callback(os.close, made)
        size = _copy(inner, made, path, depth + 1)
        os.fchmod(made, (os.fstat(inner).st_mode & 0o777) | 0o700)
    return size


def _copy_file(source: int, copy: int, name: str) -> int:
    size = 0
    with ExitStack() as opened:
        read = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=source)
        opened.callback(os.close, read)
        facts = os.fstat(read)
        if not stat.S_ISREG(facts.st_mode):
            raise Misconfigured(f"{name} is no longer a file; nothing was published.")
        made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=copy)
        opened.callback(os.close, made)
        while chunk := os.read(read, CHUNK):
            rest = memoryview(chunk)
            while rest:
                rest = rest[os.write(made, rest) :]
            size += len(chunk)
        os.fchmod(made, facts.st_mode & 0o777)
        sync(made)
    return size


def _inner_link(source: int, name: str, path: str) -> str:
    """Return where a link leads, if that is inside of what is published."""
    where = os.readlink(name, dir_fd=source)
    inside = os.path.normpath(os.path.join(os.path.dirname(path), where))
    if os.path.isabs(where) or inside == ".." or inside.startswith("../"):
        raise Misconfigured(f"{path} is a link to {where}, out of the directory; nothing was published.")
    return where


def _remove_if_abandoned(folder: int, name: str) -> None:
    opened = os.open(name, _DIRECTORY, dir_fd=folder)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(name, dir_fd=folder)
    finally:
        os.close(opened)


class DirectoryGate(PathGate):
    """A name that is a symlink to one of several generations; the switch happens under the gate's lock.

    Shares marks, lock and order with the gate of a file of that name: the mark first, then the switch.
    """

    def __init__(self, path: str, *, clock: "Clock", disk: "Callable[[], Disk] | None" = None) -> None:
        super().__init__(named_place(path, kind="dir"), clock=clock, disk=disk)

    def publish(self, proof: Proof, source: str, *, pause: Callable[[], None] = lambda: None) -> int:
        """Copy a directory and switch to the copy, all or nothing; return its size in bytes.

        The copy is made before the gate is locked, so that a big one keeps no other writer waiting.
        """
        place = self._place
        with explained("publish", place.target):
            self._demand_apart(source)
            self._look(proof, place)
            with self._way(place, make=True) as way, Generation(way.directory, place.name) as generation:
                size = generation.fill(source)
                pause()
                at_us = self._clock.wall_us()
                self._publish(lambda _, directory: generation.publish(at_us, directory), proof, place)
        return size

    def _replaceable(self, directory: int, place: Place) -> os.stat_result | None:
        current_of(directory, place.name, place.target)
        return None

    def _demand_apart(self, source: str) -> None:
        """Refuse a source that is no directory, or that the copy would be inside of."""
        try:
            facts = os.stat(source)
        except OSError as error:
            raise Misconfigured(f"{source} cannot be published: {error.strerror}.") from None
        if not stat.S_ISDIR(facts.st_mode):
            raise Misconfigured(f"{source} is no directory; to write one file, use write-file.")
        real = os.path.realpath(source)
        if os.path.commonpath([real, self._place.directory]) == real:
            raise Misconfigured(
                f"{source} contains {self._place.directory}, where its copy would go; build it elsewhere."
            )
