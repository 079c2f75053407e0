"""The gate of a directory that is published as a whole: readers see the old one or the new one, never half of each."""

import os
import stat

from fencepost.gates.directory_draft import Generation, current_of
from fencepost.gates.file_target import Place, named_place
from fencepost.gates.path import PathGate, explained
from fencepost.model.errors import Misconfigured
from fencepost.model.gate import Proof
from fencepost.model.light import TYPE_CHECKING, Callable

if TYPE_CHECKING:
    from fencepost.ports.clock import Clock
    from fencepost.ports.gate import Disk


class DirectoryGate(PathGate):
    """A name that is a symlink to one of several generations; the switch happens under the gate's lock.

    Shares marks, lock and order with the gate of a file of that name: the mark first, then the switch.
    """

    def __init__(self, path: str, *, clock: "Clock", disk: "Callable[[], Disk] | None" = None) -> None:
        super().__init__(named_place(path, kind="dir"), clock=clock, disk=disk)

    def publish(self, proof: Proof, source: str, *, pause: Callable[[], None] = lambda: None) -> int:
        """Copy a directory and switch to the copy, all or nothing; return its size in bytes.

        The copy is made before the gate is locked, so that a big one keeps nobody waiting.
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
