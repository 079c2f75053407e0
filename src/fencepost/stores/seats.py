"""Finds a slot of each concurrency key of a run, in the transaction that is about to lease it."""

import json

from fencepost.model.slots import Pool, pools_of, seat, seated
from fencepost.ports.runs import RunRow
from fencepost.stores.transaction import Transaction


def take_seats(tx: Transaction, run: RunRow) -> RunRow | None:
    """Return the run with a free slot in place of each of its keys; None: a key has no room.

    The key's door is locked, so that nobody else looks for a slot of it before this transaction is over. Nobody ever
    leases the door: it is locked here alone, before all resources, so that no two verbs wait for each other in a circle.
    """
    pools = pools_of(run.resources)
    if not pools:
        return run
    doors = json.dumps([(pool.tenant, pool.door) for pool in pools])
    tx.rows("ensure_resources", keys=doors)
    tx.rows("lock_resources", keys=doors)
    found = {pool.name: seat(pool, _taken(tx, pool)) for pool in pools}
    seats = {name: slot for name, slot in found.items() if slot is not None}
    return run._replace(resources=seated(run.resources, seats)) if len(seats) == len(found) else None


def _taken(tx: Transaction, pool: Pool) -> set[str]:
    """Return what is leased of a key; a lease whose time is up takes no room, and whoever comes next ends it."""
    return {str(name) for (name,) in tx.rows("taken_slots", tenant=pool.tenant, name=pool.name)}
