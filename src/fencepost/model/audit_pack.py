"""Sealed entries of the audit, a thousand to a pack: they never change any more, and together they are small.

Columns stand one after the other and are compressed; the hashes, which cannot be, are kept as bytes. A pack gives back each entry as it
was, so that the chain over them is proved as before. Its `names` answer whether it may tell of a subject, without opening it: a
Bloom filter, which errs on one side only.
"""

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import NamedTuple

from fencepost.model.errors import StoreUnavailable
from fencepost.model.instants import FOREVER_US

WHOLE = re.compile("[0-9a-f]{64}")  # a hash as it is always written; another one was put there by hand
HASH_BYTES = 32
BITS_EACH, SPOTS = 16, 8  # one pack in 1,700 is opened in vain
BATCH = "batch:"


class PackDamaged(StoreUnavailable):
    """A pack cannot be read: it was changed by hand, or the disk has lost a part of it."""


class PackSize(NamedTuple):
    """How much goes into a pack, and what is left as it is."""

    entries: int = 1_000
    letters: int = 1_000_000  # entries that name many runs are long, and no writer should wait for their packing
    plain: int = 1_000  # the newest entries: they are what is asked for most


class PackEntry(NamedTuple):
    """A sealed entry as the store keeps it."""

    seq: int
    at_us: int
    place: int
    said_seq: int | None  # in the store where it was sealed, if that was another one
    actor: str
    verb: str
    subject: str
    detail: str
    hash: str


class Pack(NamedTuple):
    """Entries in the form in which a store keeps many."""

    first_place: int
    last_place: int
    first_seq: int
    last_seq: int
    first_us: int
    entries: int
    verbs: str  # JSON list
    names: bytes
    content: bytes
    hashes: bytes


class WantedEntries(NamedTuple):
    """Which entries are asked for; an empty text stands for any."""

    verb: str = ""
    subject: str = ""
    batched: str = ""  # the run's id in quotes: entries about many runs at once that name it are asked for, too
    until_us: int = FOREVER_US
    before_seq: int = FOREVER_US

    def fits(self, one: PackEntry) -> bool:
        """Tell whether an entry is asked for."""
        return (
            self.verb in ("", one.verb)
            and (self.subject in ("", one.subject) or self._names(one))
            and one.at_us <= self.until_us
            and one.seq < self.before_seq
        )

    def may_be_in(self, verbs: str, names: bytes) -> bool:
        """Tell from what is known about a pack whether it may have such an entry."""
        asked = [one for one in json.loads(verbs) if self.verb in ("", one)]
        if not self.subject:
            return bool(asked)
        quoted = self.batched.split('"')[1:2]
        subjects = [self.subject, *(f"run:{one}" for one in quoted)]
        return any(_has(names, f"{verb} {subject}") for verb in asked for subject in subjects)

    def _names(self, one: PackEntry) -> bool:
        return bool(self.batched) and one.subject.startswith(BATCH) and self.batched in one.detail


def pack(entries: Sequence[PackEntry]) -> Pack:
    """Put entries, which come in the order of their places, into a pack."""
    seqs, times, places, said, *texts, hashes = zip(*entries, strict=True)
    odd = {number: one for number, one in enumerate(hashes) if not (one and WHOLE.fullmatch(one))}
    moved = [None if one is None else one - seq for one, seq in zip(said, seqs, strict=True)]
    columns = [*map(_distances, (seqs, times, places)), moved, *texts, odd]
    return Pack(
        first_place=places[0],
        last_place=places[-1],
        first_seq=min(seqs),
        last_seq=max(seqs),
        first_us=min(times),
        entries=len(entries),
        verbs=json.dumps(sorted({one.verb for one in entries})),
        names=_filter({f"{one.verb} {name}" for one in entries for name in _names_in(one)}),
        content=zlib.compress(json.dumps(columns, separators=(",", ":")).encode()),
        hashes=b"".join(bytes(HASH_BYTES) if n in odd else bytes.fromhex(one) for n, one in enumerate(hashes)),
    )


def unpack(content: bytes, hashes: bytes) -> list[PackEntry]:
    """Return the entries of a pack; raise PackDamaged if they cannot be read."""
    try:
        *columns, odd = json.loads(zlib.decompress(content))
        seqs, times, places = (accumulate(column) for column in columns[:3])
        each = [hashes[at : at + HASH_BYTES].hex() for at in range(0, len(hashes), HASH_BYTES)]
        for number, one in odd.items():
            each[int(number)] = one
        rows = zip(seqs, times, places, *columns[3:], each, strict=True)
        return [_entry(*row) for row in rows]
    except (zlib.error, ValueError, TypeError, IndexError, AttributeError):
        raise PackDamaged(
            "a part of the audit cannot be read: the store was changed by hand, or is damaged. What is missing: "
            "fencepost audit verify"
        ) from None


def _entry(seq: int, at_us: int, place: int, moved: int | None, *texts: str) -> PackEntry:
    actor, verb, subject, detail, hash_ = texts
    return PackEntry(seq, at_us, place, None if moved is None else seq + moved, actor, verb, subject, detail, hash_)


def _distances(column: Sequence[int]) -> list[int]:
    return [column[0], *(later - earlier for earlier, later in pairwise(column))]


def _names_in(one: PackEntry) -> Iterable[str]:
    """Return the subjects that an entry is found by: its own, and the runs that it names if they are many."""
    runs = one.detail.split('"')[1:-1] if one.subject.startswith(BATCH) else []
    return [one.subject, *(f"run:{run_id}" for run_id in runs)]


def _filter(names: set[str]) -> bytes:
    bits = bytearray(len(names) * BITS_EACH // 8)
    for name in names:
        for spot in _spots(name, len(bits)):
            bits[spot // 8] |= 1 << spot % 8
    return bytes(bits)


def _has(names: bytes, name: str) -> bool:
    return all(names[spot // 8] & 1 << spot % 8 for spot in _spots(name, len(names)))


def _spots(name: str, size: int) -> Iterator[int]:
    digest = sha256(name.encode()).digest()
    return (int.from_bytes(digest[4 * n : 4 * n + 4]) % (8 * size) for n in range(SPOTS))
