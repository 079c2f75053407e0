"""The audit's packs beside its plain entries: how both are read as one, and how old entries go from one into the other."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fencepost.model.audit_pack import PackEntry, PackSize, WantedEntries, pack, unpack
from fencepost.stores.transaction import Row, Transaction

TABLE = "audit_pack"
SCHEMA = 52  # what a program must know to find what was packed
SIZE = PackSize()
AT_ONCE = 100  # entries that are taken in one statement
PACKS_AT_ONCE = 200
EVERY = 1 << 62


def look_audit(tx: Transaction, tenant: str, wanted: WantedEntries, limit: int) -> list[Row]:
    """Return the newest entries that are asked for, from both forms."""
    found = tx.rows("look_audit", tenant=tenant, limit=limit, **wanted._asdict())
    below = EVERY
    while True:
        above = found[-1][0] if len(found) == limit else -EVERY  # what is older than all that is shown is not opened
        reach = {"until_us": wanted.until_us, "before_seq": wanted.before_seq}
        packs = tx.rows("look_packs", tenant=tenant, below_seq=below, above_seq=above, limit=PACKS_AT_ONCE, **reach)
        for last_place, last_seq, verbs, names in packs:
            below = last_seq
            if len(found) == limit and found[-1][0] > last_seq:
                return found
            if wanted.may_be_in(verbs, names):
                entries = _opened(tx, tenant, last_place)
                more = [(*one[:2], *one[4:8]) for one in entries if wanted.fits(one)]
                found = sorted([*found, *more], reverse=True)[:limit]
        if len(packs) < PACKS_AT_ONCE:
            return found


def _opened(tx: Transaction, tenant: str, last_place: int) -> list[PackEntry]:
    ((content, hashes),) = tx.rows("pack_content", tenant=tenant, last_place=last_place)
    return unpack(content, hashes)


class PackReader:
    """Reads packed entries by their places, and keeps the last pack open: the next seal is mostly about the same one."""

    def __init__(self) -> None:
        self._open: tuple[str, int, int, list[PackEntry]] = ("", 1, 0, [])

    def between(self, tx: Transaction, tenant: str, first: int, last: int) -> list[PackEntry]:
        """Return the packed entries from one place to another."""
        whose, low, high, entries = self._open
        if whose == tenant and low <= first and last <= high:
            return [one for one in entries if first <= one.place <= last]
        found: list[PackEntry] = []
        for low, high, content, hashes in tx.rows("packs_between", tenant=tenant, first=first, last=last):
            entries = unpack(content, hashes)
            self._open = (tenant, low, high, entries)
            found += (one for one in entries if first <= one.place <= last)
        return found


def packable(tx: Transaction, tenant: str, size: PackSize, limit: int = EVERY) -> int:
    """Count the entries that can be packed, up to a limit."""
    after, until = _span(tx, tenant, size)
    ((number,),) = tx.rows("count_packable", tenant=tenant, after=after, until=until, limit=limit)
    return int(number)


def pack_next(tx: Transaction, tenant: str, size: PackSize) -> int | None:
    """Put the oldest plain entries into a pack; return how many, and None if there are too few.

    Older programs are kept out from the same transaction on: they would take the entries for lost.
    """
    if packable(tx, tenant, size, size.entries) < size.entries:
        return None
    entries = _taken(tx, tenant, size)
    if not entries:
        return 0
    made = pack(entries)
    assert unpack(made.content, made.hashes) == entries, "a pack gives back what went in, or nothing is moved"
    tx.rows("put_pack", tenant=tenant, **made._asdict())
    tx.rows("raise_needs", schema=str(SCHEMA))
    return len(entries)


def _taken(tx: Transaction, tenant: str, size: PackSize) -> list[PackEntry]:
    """Take entries out of the table in the order of their places, until they fill a pack."""
    (after, until), taken, letters = _span(tx, tenant, size), list[PackEntry](), 0
    while len(taken) < size.entries and letters < size.letters:
        limit = min(AT_ONCE, size.entries - len(taken))
        rows = tx.rows("take_packable", tenant=tenant, after=after, until=until, limit=limit)
        if not rows:
            break
        taken += sorted((PackEntry(*row) for row in rows), key=lambda one: one.place)
        letters += sum(len(one.detail) for one in taken[-len(rows) :])
        after = taken[-1].place
    return taken


def _span(tx: Transaction, tenant: str, size: PackSize) -> tuple[int, int]:
    """Return behind which place, and up to which, entries may be packed."""
    ((packed,),) = tx.rows("packed_until", tenant=tenant)
    last = max((int(row[3]) for row in tx.rows("last_seal", tenant=tenant)), default=0)
    return -EVERY if packed is None else int(packed), last - size.plain


def plain_rows(packs: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Return packed entries as rows of `audit`, in the words of a backup."""
    for row in packs:
        content, hashes = (bytes.fromhex(row[name].removeprefix("\\x")) for name in ("content", "hashes"))
        yield from ({**one._asdict(), "tenant": row["tenant"]} for one in unpack(content, hashes))
