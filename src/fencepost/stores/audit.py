"""The notary's verbs, what a verifier reads, and the packs of old entries: the audit's chain, once for both dialects."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from fencepost.model.audit_chain import ChainEntry, Link, Loose, Seal, Sealed, check_goes_on
from fencepost.model.audit_pack import PackEntry, PackSize
from fencepost.model.notice import Notice
from fencepost.stores.audit_packs import SCHEMA, SIZE, PackReader, pack_next, packable
from fencepost.stores.audit_writing import write_audit
from fencepost.stores.notices import put_notices
from fencepost.stores.transaction import Dialect, Transaction

SEALS_AT_ONCE = 100

Notarize = Callable[[Sequence[ChainEntry], Seal | None], tuple[Sequence[Link], Seal]]


class SqlAudit:
    """The chain over named statements."""

    def __init__(self, dialect: Dialect) -> None:
        """Speak to a store through its dialect."""
        self._dialect = dialect
        self._packs = PackReader()

    def loose_tenants(self) -> list[str]:
        """Return the tenants that have something to seal."""
        return [str(tenant) for (tenant,) in self._dialect.read(lambda tx: tx.rows("loose_tenants"))]

    def seal(self, tenant: str, notarize: Notarize, *, limit: int, kept: Seal | None = None) -> Seal | None:
        """Seal the oldest entries that are loose, all or none; None: there are none, or another process was quicker.

        `kept` is the newest seal that is remembered elsewhere; a store that has lost it is not sealed.
        """

        def work(tx: Transaction) -> Seal | None:
            last = _last(tx, tenant)  # first: if another is put after it meanwhile, ours has a number that is taken
            check_goes_on(kept, same=_numbered(tx, kept), last=last)
            entries = [ChainEntry(*row) for row in tx.rows("loose_entries", tenant=tenant, limit=limit)]
            if not entries:
                return None
            links, made = notarize(entries, last)
            if not tx.rows("put_seal", **made._asdict()):
                return None
            placed = tx.rows("put_links", links=json.dumps(links))
            assert len(placed) == len(links), "a seal is kept with its entries"
            put_notices(tx, [_head(made)])
            return made

        return self._dialect.write(work)

    def note(self, tenant: str, *, actor: str, verb: str, subject: str, detail: Mapping[str, object]) -> None:
        """Write down what was noticed, and by whom."""
        self._dialect.write(lambda tx: write_audit(tx, tenant, actor=actor, verb=verb, subject=subject, detail=detail))

    def last(self, tenant: str) -> Seal | None:
        """Return the newest seal."""
        return self._dialect.read(lambda tx: _last(tx, tenant))

    def check(self, kept: Seal | None) -> None:
        """Raise AuditCut unless the store still has the newest seal that is remembered elsewhere."""
        if kept is not None:
            same, last = self._dialect.read(lambda tx: (_numbered(tx, kept), _last(tx, kept.tenant)))
            check_goes_on(kept, same=same, last=last)

    def loose(self, tenant: str) -> Loose:
        """Count what is not sealed yet."""
        ((count, since_us),) = self._dialect.read(lambda tx: tx.rows("loose_count", tenant=tenant))
        return Loose(count, since_us)

    def loose_entries(self, tenant: str, *, limit: int) -> list[ChainEntry]:
        """Return the oldest entries that are not sealed yet."""
        rows = self._dialect.read(lambda tx: tx.rows("loose_entries", tenant=tenant, limit=limit))
        return [ChainEntry(*row) for row in rows]

    def place_beyond(self, tenant: str, last_place: int) -> int | None:
        """Return the first place in the chain that no seal covers, if there is one."""
        ((place,),) = self._dialect.read(lambda tx: tx.rows("beyond_seals", tenant=tenant, last=last_place))
        return None if place is None else int(place)

    def seals(self, tenant: str, *, after: int = 0) -> Iterator[Seal]:
        """Yield the seals, oldest first."""
        while True:
            rows = self._page(tenant, after)
            if not rows:
                return
            yield from rows
            after = rows[-1].number

    def _page(self, tenant: str, after: int) -> list[Seal]:
        values = {"tenant": tenant, "number": after, "limit": SEALS_AT_ONCE}
        return [Seal(*row) for row in self._dialect.read(lambda tx: tx.rows("seals_after", **values))]

    def sealed(self, one: Seal) -> list[Sealed]:
        """Return the entries of a seal, in their places."""
        tenant, first, last = one.tenant, one.first_place, one.last_place

        def look(tx: Transaction) -> list[Sealed]:
            plain = tx.rows("sealed_entries", tenant=tenant, first=first, last=last)
            packed = self._packs.between(tx, tenant, first, last)
            found = [Sealed(ChainEntry(*row[:7]), row[7], row[8]) for row in plain]
            return sorted([*found, *(_sealed(tenant, entry) for entry in packed)], key=lambda each: each.place)

        return self._dialect.read(look)

    def packable(self, size: PackSize = SIZE) -> dict[str, int]:
        """Count the entries that can be packed, by tenant."""
        return self._dialect.read(lambda tx: {one: packable(tx, one, size) for one in _tenants(tx)}, patient=True)

    def pack(self, tenant: str, size: PackSize = SIZE) -> int | None:
        """Put a tenant's oldest plain entries into a pack; return how many, and None if there are too few left for one.

        Programs before packs cannot open the store any more. 0: another process was quicker.
        """
        return self._dialect.write(lambda tx: pack_next(tx, tenant, size))

    def pack_on(self) -> int | None:
        """Do the same for a tenant that has enough, in a store where it was begun; any other store stays as it is."""
        tenant = self._dialect.read(_next_to_pack)
        return None if tenant is None else self.pack(tenant)

    def give_way(self) -> None:
        """Let others write before the next pack."""
        self._dialect.give_way()


def _sealed(tenant: str, one: PackEntry) -> Sealed:
    said = one.seq if one.said_seq is None else one.said_seq
    entry = ChainEntry(said, tenant, one.at_us, one.actor, one.verb, one.subject, one.detail)
    return Sealed(entry, one.place, one.hash)


def _tenants(tx: Transaction) -> list[str]:
    return [str(tenant) for (tenant,) in tx.rows("sealed_tenants")]


def _next_to_pack(tx: Transaction) -> str | None:
    ((needs,),) = tx.rows("meta", key="schema_needs")
    if int(needs) < SCHEMA:
        return None
    return next((one for one in _tenants(tx) if packable(tx, one, SIZE, SIZE.entries) == SIZE.entries), None)


def _head(made: Seal) -> Notice:
    """Tell of a seal to the keeper of the heads elsewhere."""
    subject = f"audit:{made.tenant}"
    return Notice(made.tenant, f"{subject} {made.number}", ("audit_head",), subject, "", made._asdict())


def _numbered(tx: Transaction, kept: Seal | None) -> Seal | None:
    """Return the store's seal with the number of a kept one."""
    if kept is None:
        return None
    rows = tx.rows("seals_after", tenant=kept.tenant, number=kept.number - 1, limit=1)
    return next((one for row in rows if (one := Seal(*row)).number == kept.number), None)


def _last(tx: Transaction, tenant: str) -> Seal | None:
    return next((Seal(*row) for row in tx.rows("last_seal", tenant=tenant)), None)
