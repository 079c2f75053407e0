"""What we ask of a store that can compare and swap: three calls."""

from __future__ import annotations

from fencepost.model.fast_typing import TYPE_CHECKING, Enum, NamedTuple, Protocol

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Collection


class Read(NamedTuple):
    """What a store holds under a name; no document and no tag if there is nothing."""

    document: bytes | None
    tag: str | None
    store_us: int | None = None  # the store's own clock, where it tells


class Answer(Enum):
    """What became of a swap that did not simply succeed."""

    CONFLICT = "conflict"  # the store says that another document is there
    UNKNOWN = "unknown"  # it may have been carried out, or may be later


class SwapOutcome(NamedTuple):
    """The answer to a swap: the new document's tag, or why there is none."""

    tag: str | None
    answer: Answer | None = None
    words: str = ""  # what the store said


class CellFacts(NamedTuple):
    """What is known of a kind of store before it is asked."""

    kind: str
    url: str  # never with a password
    ttl_seconds: float  # of a lease whose caller names none
    poll_seconds: float  # how far apart a waiting caller looks


class Cells(Protocol):
    """Documents under names, each with a tag that no other document ever has. Safe to use from several threads.

    Every call takes at most `seconds`. A store that does not answer is StoreUnavailable, except for a swap that was
    sent: that is Answer.UNKNOWN.
    """

    @property
    def facts(self) -> CellFacts:
        """Say what kind this is."""
        ...

    def read(self, names: Collection[str], *, seconds: float) -> dict[str, Read]:
        """Return what the store holds now under these names."""
        ...

    def swap(self, name: str, tag: str | None, document: bytes | None, *, seconds: float) -> SwapOutcome:
        """Put a document in the place of the one with this tag, or of none; no document deletes."""
        ...

    def list(self, prefix: str, *, seconds: float) -> list[str]:
        """Return the names that begin like this."""
        ...

    def weaknesses(self, *, seconds: float) -> tuple[str, ...]:
        """Return why documents may be forgotten, or raise Misconfigured if they surely are; asked once a day."""
        ...

    def close(self) -> None:
        """Let go of connections and scratch files."""
        ...
