"""The file gate: a file, or everything below a directory, that only the newest fence may write."""

import os
import stat

from fencepost.gates.file_draft import Draft
from fencepost.gates.file_target import Place, beneath_of, place_of
from fencepost.gates.path import WAIT_SECONDS, PathGate, explained
from fencepost.model.errors import Misconfigured
from fencepost.model.fast_typing import TYPE_CHECKING, Callable, Iterable
from fencepost.model.gate import Proof

if TYPE_CHECKING:
    from fencepost.ports.clock import Clock
    from fencepost.ports.gate import Disk, Stream

CHUNK = 262_144


class FileGate(PathGate):
    """Replaces whole files."""

    def __init__(
        self, path: str, *, clock: "Clock", disk: "Callable[[], Disk] | None" = None, wait_seconds: float = WAIT_SECONDS
    ) -> None:
        super().__init__(place_of(path), clock=clock, disk=disk, wait_seconds=wait_seconds)

    def write(self, proof: Proof, data: "bytes | Iterable[bytes] | Stream", *, beneath: str = "") -> int:
        """Replace the file's content, all or nothing, and return its size; a directory's gate is told which file.

        The data is taken in before the gate is locked, so that a slow sender keeps no other writer waiting.
        """
        place = beneath_of(self._place, beneath)
        with explained("write", place.target):
            self._look(proof, place)
            with self._way(place, make=True) as way, Draft(way.guards[-1].folder, 0o666) as draft:
                size = draft.fill(_chunks(data))
                draft.complete(like=self._replaceable(way.directory, place))
                self._publish(draft.publish, proof, place)
        return size

    def _replaceable(self, directory: int, place: Place) -> os.stat_result | None:
        """Return the facts of the file that will be replaced, None if there is none yet; refuse what is no file."""
        try:
            facts = os.stat(place.name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISREG(facts.st_mode):
            return facts
        if stat.S_ISLNK(facts.st_mode):
            raise Misconfigured(
                f"{place.target} is a symlink, which a gate never follows; name the file that it points to."
            )
        if stat.S_ISDIR(facts.st_mode):
            raise Misconfigured(f"{place.target} is a directory; name a file below it.")
        raise Misconfigured(f"{place.target} is a pipe, a socket or a device; a file gate writes regular files only.")


def _chunks(data: "bytes | Iterable[bytes] | Stream") -> Iterable[bytes]:
    if isinstance(data, bytes | bytearray | memoryview):
        return (bytes(data),)
    read = getattr(data, "read", None)
    if read is not None:
        return iter(lambda: read(CHUNK), b"")
    assert isinstance(data, Iterable)
    return data
