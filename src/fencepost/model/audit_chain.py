"""The audit's chain: what makes a changed, missing or invented entry show.

Every sealed entry has a place in its tenant's chain and a hash over itself and the entry before it. A seal closes a
batch: it is authenticated with a key that is not in the store, and names the seal before it. A writer of the
store but lacks the key can change nothing that is sealed without it showing; and a seal that was exported
shows whether the end was cut off since, or another chain put in its place.
"""

import hmac
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from fencepost.model.errors import AuditCut

KINDS = ("integrity", "completeness")
START = "0" * 64  # what stands before the first entry
KEY_ID_LENGTH = 12
KEY_MIN_BYTES = 16


class ChainEntry(NamedTuple):
    """What was decided or done."""

    seq: int
    tenant: str
    at_us: int
    actor: str
    verb: str
    subject: str
    detail: str


class Link(NamedTuple):
    """An entry's place in the chain."""

    seq: int
    place: int
    hash: str


class Loose(NamedTuple):
    """What is not sealed yet."""

    entries: int
    since_us: int | None


class Seal(NamedTuple):
    """The end of a batch: everything up to `last_place` was there, and looked like this."""

    tenant: str
    number: int
    first_place: int
    last_place: int
    hash: str  # of the last entry, and so of all before it
    at_us: int
    key_id: str
    mac: str


class Sealed(NamedTuple):
    """An entry as it is kept, with the links that it was given."""

    entry: ChainEntry
    place: int
    hash: str


class Fault(NamedTuple):
    """The first thing that is wrong."""

    kind: str  # integrity | completeness
    where: str
    what: str


def key_id(key: bytes) -> str:
    """Name a key without giving it away."""
    return sha256(b"fencepost audit key\0" + key).hexdigest()[:KEY_ID_LENGTH]


def hash_of(entry: ChainEntry, previous: str) -> str:
    """Return the hash of an entry after another."""
    content = [entry.seq, entry.tenant, entry.at_us, entry.actor, entry.verb, entry.subject, entry.detail]
    text = json.dumps([previous, *content], separators=(",", ":"), ensure_ascii=True)
    return sha256(text.encode()).hexdigest()


def link(entries: Iterable[ChainEntry], last: Seal | None) -> list[Link]:
    """Give entries their places after the last seal."""
    place, previous = (last.last_place, last.hash) if last else (0, START)
    links = []
    for entry in entries:
        place, previous = place + 1, hash_of(entry, previous)
        links.append(Link(entry.seq, place, previous))
    return links


def seal(tenant: str, links: Sequence[Link], last: Seal | None, *, key: bytes, at_us: int) -> Seal:
    """Close a batch."""
    unsigned = Seal(
        tenant=tenant,
        number=last.number + 1 if last else 1,
        first_place=links[0].place,
        last_place=links[-1].place,
        hash=links[-1].hash,
        at_us=at_us,
        key_id=key_id(key),
        mac="",
    )
    return unsigned._replace(mac=_mac(unsigned, last, key))


def check_goes_on(kept: Seal | None, *, same: Seal | None, last: Seal | None) -> None:
    """Raise AuditCut unless the store still has the newest seal that was kept outside of it.

    `same` is the store's seal with the number of the kept one. Without this, an attacker who deletes every seal and some
    entries would have the rest sealed anew, and nothing would show.
    """
    if kept is None or (same is not None and same.mac == kept.mac):
        return
    newest = f"the newest there is {last.number}" if last else "there is none"
    state = "has another seal with this number" if same else f"has it no more: {newest}"
    raise AuditCut(
        f"seal {kept.number} of the audit of tenant {kept.tenant} is remembered on this machine, and the store {state}. "
        f"Nothing more is sealed. If a backup was restored, say so: fencepost audit accept --note TEXT. "
        f"If not, the store was changed: fencepost audit verify"
    )


def _mac(one: Seal, last: Seal | None, key: bytes) -> str:
    content = [last.mac if last else START, *one._replace(mac="")]
    return hmac.new(key, json.dumps(content, separators=(",", ":")).encode(), sha256).hexdigest()


class Verdict(NamedTuple):
    """What a walk over the whole chain found."""

    entries: int
    seals: int
    head: Seal | None
    faults: tuple[Fault, ...]  # the first of each kind, in the order in which they came
    unknown_keys: tuple[str, ...]  # seals by these could not be authenticated here


class Verifier:
    """Walks a chain seal by seal, in bounded memory, until something was changed and something is missing.

    Behind a fault it goes on with what the store says, so that one kind of fault does not hide the other. What comes
    right behind a gap cannot be compared with what was before it.
    """

    def __init__(self, keys: Mapping[str, bytes], heads: Sequence[Seal] = ()) -> None:
        self._keys = keys
        self._heads: dict[int, Seal] = {}
        self._forked: int | None = None  # the first seal of which two were exported
        for head in heads:
            if self._heads.setdefault(head.number, head).mac != head.mac:
                self._forked = min(head.number, self._forked or head.number)
        self._last: Seal | None = None
        self._entries = 0
        self._unknown: dict[str, None] = {}
        self._faults: dict[str, Fault] = {}  # by kind

    def take(self, one: Seal, entries: Iterable[Sealed]) -> bool:
        """Look at the next seal and its entries; False once there is nothing left to find out."""
        follows = self._follows(one)
        self._look_at_entries(one, entries, (self._last.hash if self._last else START) if follows else None)
        self._look_at_mac(one, follows=follows)
        self._last = one
        return len(self._faults) < len(KINDS)

    def verdict(self) -> Verdict:
        """Return what was found, with what the exported heads say about the end."""
        number = self._last.number if self._last else 0
        beyond = max(self._heads, default=0)
        if self._forked is not None:
            what = f"there were two chains: two different seals {self._forked} were kept"
            self._note("completeness", f"seal {self._forked}", what)
        if beyond > number:
            what = f"the end was cut off: seal {beyond} was kept elsewhere, and the newest here is {number}"
            self._note("completeness", f"seal {beyond}", what)
        return Verdict(self._entries, number, self._last, tuple(self._faults.values()), tuple(self._unknown))

    def _note(self, kind: str, where: str, what: str) -> None:
        self._faults.setdefault(kind, Fault(kind, where, what))

    def _follows(self, one: Seal) -> bool:
        """Tell whether a seal comes right behind the one before."""
        number = self._last.number + 1 if self._last else 1
        if one.number != number:
            self._note("completeness", f"seal {number}", f"seal {number} is missing; the next is {one.number}")
            return False
        place = self._last.last_place + 1 if self._last else 1
        if one.first_place != place:
            self._note("integrity", f"seal {one.number}", f"it begins at place {one.first_place} instead of {place}")
        return one.first_place == place

    def _look_at_entries(self, one: Seal, entries: Iterable[Sealed], previous: str | None) -> None:
        """Compare each entry with its hash over the one before; None: that one is not known."""
        place = one.first_place
        for found in entries:
            if found.place != place:
                self._note("completeness", f"place {place}", f"the entry at place {place} is missing")
                previous = None
            if previous is not None and hash_of(found.entry, previous) != found.hash:
                said = f"{found.entry.verb} {found.entry.subject} by {found.entry.actor}"
                what = f"the entry at place {found.place} was changed ({said})"
                self._note("integrity", f"entry {found.entry.seq}", what)
            previous, place = found.hash, found.place + 1
            self._entries += 1
        if place <= one.last_place:
            self._note("completeness", f"place {place}", f"the entry at place {place} is missing")
        elif previous is not None and previous != one.hash:
            what = f"its entries {one.first_place} to {one.last_place} are not those that were sealed"
            self._note("integrity", f"seal {one.number}", what)

    def _look_at_mac(self, one: Seal, *, follows: bool) -> None:
        head = self._heads.get(one.number)
        if head is not None and head.mac != one.mac:
            what = "another seal with this number was kept elsewhere: this is not the chain that it was"
            self._note("completeness", f"seal {one.number}", what)
        key = self._keys.get(one.key_id)
        if key is None:
            self._unknown[one.key_id] = None
        elif follows and not hmac.compare_digest(_mac(one, self._last, key), one.mac):
            self._note("integrity", f"seal {one.number}", "it was not made with its key")


def head_line(one: Seal) -> str:
    """Write a seal as one line, to keep elsewhere."""
    return json.dumps({"fencepost_audit_head": 1, **one._asdict()})


def read_heads(lines: Iterable[str]) -> Iterator[Seal]:
    """Read exported seals again; raise ValueError for a line that is none."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
            if isinstance(content, dict) and isinstance(content.get("data"), dict):
                content = content["data"]  # a webhook as it came
            if isinstance(content, dict) and "fencepost_audit_head" not in content and "audit" in content:
                continue  # an export has entries as well
            yield _seal_of(content)
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"line {number} is no exported head: {line.strip()[:60]}") from None


def _seal_of(content: Mapping[str, object]) -> Seal:
    values = [content[name] for name in Seal._fields]
    wrong = [
        value for value, kind in zip(values, Seal.__annotations__.values(), strict=True) if type(value) is not kind
    ]
    if wrong:
        raise TypeError(wrong)
    return Seal._make(values)
