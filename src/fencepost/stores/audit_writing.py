"""Writes one entry of the audit, inside the transaction of the verb that it tells of."""

import json
from collections.abc import Mapping

from fencepost.stores.lease_rows import storable
from fencepost.stores.transaction import Transaction


def write_audit(
    tx: Transaction, tenant: str, *, actor: str, verb: str, subject: str, detail: Mapping[str, object]
) -> None:
    """Write down who did what, in the same transaction."""
    entry = {
        "tenant": tenant,
        "actor": storable(actor),
        "verb": verb,
        "subject": subject,
        "detail": json.dumps(detail),
    }
    tx.rows("write_audit", entries=json.dumps([entry]))
