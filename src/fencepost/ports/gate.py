"""What we ask of a gate: the fence is compared where the write lands."""

from __future__ import annotations

from fencepost.model.fast_typing import TYPE_CHECKING, Callable, Iterable, NamedTuple, Protocol

if TYPE_CHECKING:
    from fencepost.model.gate import Mark, Proof

Fetch = Callable[[str], str]  # what `env:NAME` or `file:PATH` means, or raises because it is not to be had


class GateStatus(NamedTuple):
    """What a gate remembers."""

    target: str  # `kind:where`, with the place spelled the one canonical way
    marks: dict[str, Mark]  # `tenant resource` -> the highest fence seen
    warnings: tuple[str, ...]  # where the gate is weaker than it should be


class Gate(Protocol):
    """A write target that compares fences.

    Kinds differ in how a payload is written: a file's gate has `write`, a directory's `publish`, a database's
    `transaction`, a repository's `push`. Each takes the proof first and compares it in the act of writing.
    """

    @property
    def target(self) -> str:
        """Return `kind:where`."""
        ...

    def raise_fence(self, proof: Proof, *, adopt: bool = False) -> None:
        """Lift the marks to this fence, durably, or raise FenceRefused; a gate that is away is GateUnreachable.

        When it returns, no write with a lower fence takes effect any more, not even one that was checked before.
        """
        ...

    def check(self, proof: Proof) -> None:
        """Raise FenceRefused if a write would be refused now; it may be refused later all the same."""
        ...

    def status(self) -> GateStatus:
        """Return what the gate remembers."""
        ...


class Disk(Protocol):
    """What a host knows about the place of a path; the host's module of file systems is one."""

    def kind_of(self, path: str, /) -> str | None:
        """Return the kind of file system, or None if the host does not tell."""
        ...

    def is_network(self, kind: str, /) -> bool:
        """Tell whether other machines may be using the same files."""
        ...

    def is_synced_folder(self, path: str, /) -> str | None:
        """Return which service copies this folder to other machines, or None."""
        ...


class Witness(Protocol):
    """What a host knows about who works in some folders; the host's module is one."""

    def at_work(self, folders: Iterable[str], uid: int, /) -> list[str] | None:
        """Return the processes of a user that may hold a lock there, none if surely none does; None: it cannot tell."""
        ...


class Stream(Protocol):
    """Something to read data from, such as sys.stdin.buffer."""

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes, none at the end."""
        ...
