"""What the conformance suite needs to know about a kind of gate; a new kind adds one of these, and nothing else.

Each harness has a real target. `place` is all that another process needs to find the same one.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from fencepost.gates.file import FileGate
from fencepost.model.gate import Proof
from fencepost.operations.gate_kinds import open_gate
from fencepost.ports.gate import Gate


def nothing() -> None:
    """Do not pause."""


class Harness(Protocol):
    """One target of one kind."""

    place: str
    stale_writes: int  # how many of them the suite throws at it; a slow kind has its thousands in `make stress`

    @property
    def target(self) -> str:
        """Return the target as a person writes it."""
        ...

    def gate(self) -> Gate:
        """Open the gate as another process would: no state is shared with one that was opened before."""
        ...

    def write(self, proof: Proof, text: str, pause: Callable[[], None] = nothing) -> None:
        """Replace the payload; `pause` is called between the comparison and the effect, as near to it as can be."""
        ...

    def content(self) -> str | None:
        """Return the payload, read past the gate; None if nothing was ever written."""
        ...

    def command(self, text: str) -> str:
        """Return a shell command that writes the text through the gate, with the proof from its environment."""
        ...


class FileHarness:
    """A file on a local disk."""

    stale_writes = 10_000

    def __init__(self, place: str) -> None:
        self.place = place
        self._path = Path(place)

    @classmethod
    @contextmanager
    def made(cls, folder: Path) -> "Iterator[FileHarness]":
        yield cls(str(folder / "out.txt"))

    @property
    def target(self) -> str:
        return f"file:{self.place}"

    def gate(self) -> Gate:
        return open_gate(self.target)

    def write(self, proof: Proof, text: str, pause: Callable[[], None] = nothing) -> None:
        def slowly() -> Iterator[bytes]:
            yield text.encode()
            pause()

        gate = self.gate()
        assert isinstance(gate, FileGate)
        gate.write(proof, slowly())

    def content(self) -> str | None:
        return self._path.read_text() if self._path.exists() else None

    def command(self, text: str) -> str:
        return f"printf %s {text} | fencepost gate write-file {self.place}"


Making = Callable[[Path], AbstractContextManager[Harness]]

# kind -> how a target is made; the second process only knows its place
HARNESSES: dict[str, Making] = {"file": FileHarness.made}
BY_PLACE: dict[str, Callable[[str], Harness]] = {"file": FileHarness}
