"""Is the audit whole? Integrity (nothing was changed) and completeness (nothing is missing) are told apart."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fencepost.host.kept_seals import KeptSeals
from fencepost.model.audit_chain import ChainEntry, Fault, Loose, Seal, Sealed, Verifier, head_line
from fencepost.model.audit_pack import PackDamaged
from fencepost.model.errors import AuditCut, Invalid
from fencepost.operations.phrases import rfc3339
from fencepost.operations.run_queries import Store

if TYPE_CHECKING:
    from fencepost.stores.audit import SqlAudit

LOOSE_AT_ONCE = 1_000


class VerifiedAudit(NamedTuple):
    """What verification found."""

    tenant: str
    entries: int
    seals: int
    head: Seal | None
    loose: Loose
    faults: tuple[Fault, ...]  # the first of each kind
    unknown_keys: tuple[str, ...]
    heads: int  # that were compared
    remembered: int | None = None  # the newest seal that this machine knows of, by its number
    losses: tuple[Mapping[str, object], ...] = ()  # that a person has accepted on this machine

    @property
    def fault(self) -> Fault | None:
        """The first of all."""
        return self.faults[0] if self.faults else None

    @property
    def good(self) -> bool:
        """Whether everything that could be checked is as it was."""
        return not self.faults and not self.unknown_keys

    def first(self, kind: str) -> Fault | None:
        """Return the first fault of a kind."""
        return next((one for one in self.faults if one.kind == kind), None)


def verify_audit(
    store: Store,
    tenant: str,
    *,
    keys: Mapping[str, bytes],
    heads: Sequence[Seal] = (),
    memory: KeptSeals | None = None,
) -> VerifiedAudit:
    """Walk the whole chain of a tenant, and find the first entry that was changed and the first that is missing.

    What this machine remembers is compared as the exported heads are.
    """
    audit = store.audit_chain()
    kept = memory.kept(tenant) if memory else None
    mine = [head for head in heads if head.tenant == tenant]
    verifier = Verifier(keys, [*mine, *([kept] if kept else [])])
    for one in audit.seals(tenant):
        if not verifier.take(one, _entries(audit, one)):
            break
    found = verifier.verdict()
    faults = found.faults
    if not any(one.kind == "completeness" for one in faults):
        faults += tuple(_unsealed_place(audit, tenant, found.head))
    return VerifiedAudit(
        tenant,
        found.entries,
        found.seals,
        found.head,
        audit.loose(tenant),
        faults,
        found.unknown_keys,
        len(mine),
        kept.number if kept else None,
        tuple(memory.losses(tenant)) if memory else (),
    )


def _entries(audit: "SqlAudit", one: Seal) -> list[Sealed]:
    """Return the entries of a seal; those in a pack that cannot be read are missing."""
    try:
        return audit.sealed(one)
    except PackDamaged:
        return []


def _unsealed_place(audit: "SqlAudit", tenant: str, head: Seal | None) -> Iterator[Fault]:
    """Find entries that were sealed once by a seal that is gone."""
    place = audit.place_beyond(tenant, head.last_place if head else 0)
    if place is not None and (audit.last(tenant) or head) == head:  # else they were sealed while we looked
        yield Fault("completeness", f"place {place}", f"the seal over the entry at place {place} is missing")


class Accepted(NamedTuple):
    """A chain that goes on although its end was lost."""

    tenant: str
    lost: int  # the newest seal that this machine knew of
    after: int  # the seal after which the chain goes on; 0: from its beginning


def accept_loss(store: Store, memory: KeptSeals, tenant: str, *, by: str, note: str) -> Accepted:
    """Let the chain go on from what the store has, on record there and on this machine.

    For a store that was restored from a backup: without a person's word, nothing more would be sealed.
    """
    audit = store.audit_chain()
    kept = memory.kept(tenant)
    try:
        audit.check(kept)
    except AuditCut:
        assert kept is not None, "what is not remembered cannot be missed"
        return _accept(store, memory, kept, by=by, note=note)
    raise Invalid(
        f"the audit of tenant {tenant} has lost nothing that this machine remembers; there is nothing to accept."
    )


def accept_losses(store: Store, memory: KeptSeals, *, by: str, note: str) -> list[Accepted]:
    """Do the same for every tenant that has lost something, after a restore on this machine."""
    accepted = []
    for kept in memory.all():
        try:
            store.audit_chain().check(kept)
        except AuditCut:
            accepted.append(_accept(store, memory, kept, by=by, note=note))
    return accepted


def _accept(store: Store, memory: KeptSeals, kept: Seal, *, by: str, note: str) -> Accepted:
    audit = store.audit_chain()
    last = audit.last(kept.tenant)
    done = Accepted(kept.tenant, kept.number, last.number if last else 0)
    said = {"lost_seal": done.lost, "lost_mac": kept.mac, "goes_on_after": done.after, "note": note}
    audit.note(kept.tenant, actor=by, verb="audit_accept", subject=f"audit:{kept.tenant}", detail=said)
    memory.accept(kept, last, {**said, "at": rfc3339(store.clock_us()), "by": by})
    return done


class AuditState(NamedTuple):
    """How far a tenant's audit is sealed."""

    now_us: int
    seal: Seal | None
    loose: Loose


def audit_state(store: Store, tenant: str) -> AuditState:
    """Return the newest seal, and what is not sealed yet, without walking the chain."""
    audit = store.audit_chain()
    return AuditState(store.clock_us(), audit.last(tenant), audit.loose(tenant))


class AuditPart(NamedTuple):
    """Part of the export, and the seal after which the next part begins; None: this was the last."""

    lines: list[str]
    goes_on_after: int | None


def export_audit(store: Store, tenant: str, *, after: int = 0) -> Iterator[str]:
    """Yield the sealed entries as JSON lines, each batch followed by its seal; then what is loose."""
    audit = store.audit_chain()
    for one in audit.seals(tenant, after=after):
        yield from _batch(audit, one)
    yield from _loose(audit, tenant)


def export_part(store: Store, tenant: str, *, after: int, limit: int) -> AuditPart:
    """Return the lines of the export from one seal on: whole batches, until there are as many lines as the limit."""
    audit = store.audit_chain()
    lines: list[str] = []
    for one in audit.seals(tenant, after=after):
        if len(lines) >= limit:
            return AuditPart(lines, after)
        lines += _batch(audit, one)
        after = one.number
    return AuditPart([*lines, *_loose(audit, tenant)], None)


def _batch(audit: "SqlAudit", one: Seal) -> Iterator[str]:
    yield from (_line(found) for found in audit.sealed(one))
    yield head_line(one)


def _loose(audit: "SqlAudit", tenant: str) -> Iterator[str]:
    return (_line(Sealed(entry, 0, "")) for entry in audit.loose_entries(tenant, limit=LOOSE_AT_ONCE))


def audit_head(store: Store, tenant: str) -> str:
    """Return the newest seal as one line, to keep elsewhere."""
    last = store.audit_chain().last(tenant)
    if last is None:
        raise Invalid("nothing is sealed yet; 'fencepost up' seals the audit every few seconds.")
    return head_line(last)


def _line(found: Sealed) -> str:
    entry: ChainEntry = found.entry
    return json.dumps({"audit": entry._asdict(), "place": found.place or None, "hash": found.hash or None})
