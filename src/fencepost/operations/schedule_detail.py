"""One schedule in full, as scripts and agents see it: what it says, what comes, what was, what it may still spend."""

import json

from fencepost.model.instant import format_instant
from fencepost.operations import registry
from fencepost.operations.budget_use import budget_use, use_fields
from fencepost.operations.looking import Store
from fencepost.operations.schedule_fields import past_fields, schedule_fields

COMING = 10


def schedule_detail(store: Store, tenant: str, name: str) -> dict[str, object]:
    """Return everything about a schedule, with its next ticks."""
    listed = registry.find_schedule(store.registry(), name, tenant=tenant)
    coming = registry.coming(listed, count=COMING)
    return {
        **schedule_fields(listed),
        **past_fields(store, tenant, name),
        **use_fields(budget_use(store, tenant, listed)),
        "definition": json.loads(listed.row.definition),
        "manifest": json.loads(listed.row.manifest),
        "upcoming": [
            {"at": format_instant(one.at) if one.at else None, "local": one.local, "note": one.note} for one in coming
        ],
    }
