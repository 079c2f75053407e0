"""What may be asked about notices: which there are, and to send those once more that were given up."""

from fencepost.model.errors import Invalid
from fencepost.model.instants import FOREVER_US
from fencepost.operations.run_queries import Store
from fencepost.ports.notices import NoticeHealth, NoticeRow


def list_notices(
    store: Store,
    tenant: str,
    *,
    state: str = "",
    event: str = "",
    name: str = "",
    before: tuple[int, int] = (FOREVER_US, 0),
    limit: int,
) -> list[NoticeRow]:
    """Return notices, newest first."""
    return store.notices().listed(tenant, state=state, event=event, name=name, before=before, limit=limit)


def outbox(store: Store, tenant: str) -> tuple[NoticeHealth, int]:
    """Return how the outbox stands, and the store's time."""
    return store.notices().health(tenant), store.clock_us()


def revive_notices(store: Store, tenant: str, name: str) -> int:
    """Have what was given up for one target tried once more; return how many."""
    revived = store.notices().revive(tenant, name)
    if not revived:
        raise Invalid(f"nothing was given up for {name!r}; see: fencepost notice list --state dead")
    return revived
