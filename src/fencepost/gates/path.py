"""The gate of a path: marks beside it, compared under a lock that is held until the new content has its name."""

import errno
import os
import stat
from contextlib import ExitStack, contextmanager

from fencepost.gates.file_draft import sweep
from fencepost.gates.file_target import Place, beneath_of
from fencepost.gates.marks import BrokenMarks, FileMarks, make_folder, open_folder
from fencepost.gates.open_beneath import descend, open_directory
from fencepost.model.errors import Misconfigured
from fencepost.model.fast_typing import TYPE_CHECKING, Callable, Iterator, NamedTuple
from fencepost.model.gate import Mark, Proof, check, closed_below, raised

if TYPE_CHECKING:  # a gate is opened for every single write, and these are only words to it
    from fencepost.ports.clock import Clock
    from fencepost.ports.gate import Disk, GateStatus

WAIT_SECONDS = 10.0


class OpenPath(NamedTuple):
    """The open directory of a target, and the guards to pass on the way to it, outermost first."""

    directory: int
    guards: list[FileMarks]


class PathGate:
    """What files and directories share: compare, lift the mark, give the new content its name.

    A mark is on the disk before the data is, so that a crash between the two only refuses more.
    """

    def __init__(
        self,
        place: Place,
        *,
        clock: "Clock",
        disk: "Callable[[], Disk] | None" = None,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._place = place
        self._clock = clock
        self._disk = disk
        self._wait_seconds = wait_seconds

    @property
    def target(self) -> str:
        """Return the kind and the real path."""
        return self._place.target

    def raise_fence(self, proof: Proof, *, adopt: bool = False) -> None:
        """Lift the marks to this fence, durably, or raise FenceRefused; wait for a write that is under way."""
        self._demand_local_disk()
        with explained("raise", self.target), self._own_guard() as guard:
            sweep(guard.folder)
            with guard.locked(self._clock, self._wait_seconds):
                marks = self._marks(guard, proof, adopt=adopt)
                check(proof, marks, target=self.target, adopt=adopt)
                self._lift(guard, marks, proof)

    def check(self, proof: Proof, *, beneath: str = "") -> None:
        """Raise FenceRefused if a write would be refused now; it may be refused later all the same."""
        place = beneath_of(self._place, beneath) if beneath else self._place
        with explained("check", place.target):
            self._look(proof, place)

    def status(self) -> "GateStatus":
        """Return the marks that a writer has to pass here, those of directories above included."""
        from fencepost.ports.gate import GateStatus

        with explained("read", self.target), self._way(self._place) as way:
            marks: dict[str, Mark] = {}
            for guard in way.guards:
                marks.update({key: mark for key, mark in guard.read().items() if _is_higher(mark, marks.get(key))})
            return GateStatus(self.target, marks, tuple(self._warnings(way)))

    def _look(self, proof: Proof, place: Place) -> None:
        """Take a first look without the lock, so that who is refused leaves no trace, not even a draft."""
        with self._way(place) as way:
            if place.name:
                self._replaceable(way.directory, place)
            if not any(guard.exists() for guard in way.guards):
                self._demand_local_disk()
            for guard in way.guards:
                check(proof, guard.read(), target=guard.target)

    def _publish(self, publish: Callable[[str, int], None], proof: Proof, place: Place) -> None:
        """Compare, lift the marks and let the new content have its name, with every gate on the way locked, outermost first.

        The way is gone again, since the data may have been long in coming and gates may have been raised meanwhile.
        """
        with self._way(place, make=True) as way, ExitStack() as locks:
            for guard in way.guards:
                locks.enter_context(guard.locked(self._clock, self._wait_seconds))
            seen = [guard.read() for guard in way.guards]
            for guard, marks in zip(way.guards, seen, strict=True):
                check(proof, marks, target=guard.target)
            for guard, marks in zip(way.guards, seen, strict=True):
                self._lift(guard, marks, proof)
            self._replaceable(way.directory, place)
            publish(place.name, way.directory)

    def _replaceable(self, directory: int, place: Place) -> os.stat_result | None:
        """Return the facts of what will be replaced, None if there is nothing yet; refuse what must not be."""
        raise NotImplementedError

    def _lift(self, guard: FileMarks, marks: dict[str, Mark], proof: Proof) -> None:
        """Write the marks down unless they are there already.

        Such a mark may not have been synced yet by a writer that died, which is fine: a power cut that takes it away
        takes every older writer of a local disk with it.
        """
        lifted = raised(proof, marks, at_us=self._clock.wall_us())
        if lifted != marks:
            guard.keep(lifted)

    def _marks(self, guard: FileMarks, proof: Proof, *, adopt: bool) -> dict[str, Mark]:
        try:
            return guard.read()
        except BrokenMarks:
            if not adopt:
                raise
            guard.copy_aside()
            return closed_below(proof, at_us=self._clock.wall_us())

    @contextmanager
    def _own_guard(self) -> Iterator[FileMarks]:
        """Open this gate's own marks, and make room for them where there are none yet."""
        with ExitStack() as opened:
            _, directory = descend(opened, self._place.directory)[-1]
            folder = make_folder(directory, self._place)
            opened.callback(os.close, folder)
            yield FileMarks(folder, self._place)

    @contextmanager
    def _way(self, place: Place, *, make: bool = False) -> Iterator[OpenPath]:
        """Open the directory of a place, and every gate on the way down to it.

        A file below a gated directory has marks of its own only if they were raised there.
        """
        with ExitStack() as opened:
            guards: list[FileMarks] = []
            for path, here in descend(opened, place.directory):
                above = Place(path, "")
                guards += _guards(opened, here, above, make=make, always=above == self._place)
            directory = open_directory(here)
            opened.callback(os.close, directory)
            if place.name:
                guards += _guards(opened, directory, place, make=make, always=not guards)
            yield OpenPath(directory, guards)

    def _demand_local_disk(self) -> None:
        if kind := self._network():
            raise Misconfigured(
                f"{self.target} is on a network file system ({kind}), whose locks do not hold between machines; "
                "a file gate needs a local disk."
            )

    def _network(self) -> str | None:
        """Return the kind of a file system that other machines may be using, None for a local or unknown one."""
        if self._disk is None:
            return None
        kind = self._disk().kind_of(self._place.directory)
        return kind if kind and self._disk().is_network(kind) else None

    def _warnings(self, way: OpenPath) -> Iterator[str]:
        mode = os.fstat(way.directory).st_mode
        if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
            yield f"others may write in {self._place.directory}, past the gate."
        if kind := self._network():
            yield f"{kind} is a network file system: raise and write are refused here."
        if self._disk and (service := self._disk().is_synced_folder(self._place.directory)):
            yield f"{service} copies this folder to other machines, where the gate guards nothing."


def _guards(opened: ExitStack, directory: int, place: Place, *, make: bool, always: bool) -> list[FileMarks]:
    """Open the guard of one place, if there is one; if it counts always, also when no fence was raised there yet."""
    folder = make_folder(directory, place) if make and always else open_folder(directory, place)
    if folder is None:
        return []
    opened.callback(os.close, folder)
    guard = FileMarks(folder, place)
    return [guard] if always or guard.exists() else []


def _is_higher(mark: Mark, other: Mark | None) -> bool:
    return other is None or mark.fence > other.fence


@contextmanager
def explained(verb: str, target: str) -> Iterator[None]:
    """Turn what the operating system says into a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise Misconfigured(
                f"{target} is on another file system than the gate above it; give it one of its own: "
                f"fencepost gate raise {target}"
            ) from error
        raise Misconfigured(f"cannot {verb} {target}: {error.strerror or error}.") from error
