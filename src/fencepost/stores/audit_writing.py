"""Writes entries of the audit, inside the transaction of the verb that they tell of."""

import json
from collections.abc import Mapping, Sequence

from fencepost.stores.lease_rows import storable
from fencepost.stores.transaction import Transaction


def write_audit(
    tx: Transaction, tenant: str, *, actor: str, verb: str, subject: str, detail: Mapping[str, object]
) -> None:
    """Write down who did what."""
    write_entries(tx, [audit_entry(tenant, actor=actor, verb=verb, subject=subject, detail=detail)])


def write_entries(tx: Transaction, entries: Sequence[Mapping[str, str]]) -> None:
    """Write down all that was decided together."""
    tx.later("write_audit", entries=json.dumps(entries))


def audit_entry(tenant: str, *, actor: str, verb: str, subject: str, detail: Mapping[str, object]) -> dict[str, str]:
    """Spell one entry."""
    return {"tenant": tenant, "actor": storable(actor), "verb": verb, "subject": subject, "detail": json.dumps(detail)}


def batch_entry(
    tenant: str, lease_id: str, run_ids: Sequence[str], *, actor: str, verb: str, detail: Mapping[str, object]
) -> dict[str, str]:
    """Spell what was decided about runs of one lease: one entry, which names all of them if they are several."""
    several = len(run_ids) > 1
    subject = f"batch:{lease_id}" if several else f"run:{run_ids[0]}"
    said = {**detail, "runs": list(run_ids)} if several else detail
    return audit_entry(tenant, actor=actor, verb=verb, subject=subject, detail=said)
