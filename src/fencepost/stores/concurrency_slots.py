"""Finds a slot of each concurrency key, in the transaction that is about to lease runs."""

from collections.abc import Iterable

from fencepost.model.lease import Claim
from fencepost.model.slots import Pool, pools_of, seat
from fencepost.ports.runs import RunRow
from fencepost.stores.transaction import Transaction

Key = tuple[str, str]


class ConcurrencySlots:
    """The slots of the keys whose doors are locked.

    A key's door is locked while a worker looks for a slot of it. The door itself is never leased: it is locked by those
    alone who look for slots.
    """

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._taken: dict[Key, set[str]] = {}  # a key's limit may have changed between two runs: what is taken is one

    def take(self, run: RunRow, claim: Claim) -> Claim | None:
        """Return the claim with a free slot in place of each key; None: a key has no room."""
        pools = pools_of(run.resources)
        found = {pool.name: seat(pool, self._in(pool)) for pool in pools}
        slots = {name: slot for name, slot in found.items() if slot is not None}
        if len(slots) < len(found):
            return None
        for pool in pools:
            self._in(pool).add(slots[pool.name])
        return claim._replace(resources=tuple(slots.get(name, name) for name in claim.resources)) if pools else claim

    def _in(self, pool: Pool) -> set[str]:
        """Return what is leased of a key; a lease whose time is up takes no room, and the next worker ends it."""
        key = (pool.tenant, pool.name)
        if key not in self._taken:
            rows = self._tx.rows("taken_slots", tenant=pool.tenant, name=pool.name)
            self._taken[key] = {str(name) for (name,) in rows}
        return self._taken[key]


def doors_of(runs: Iterable[RunRow]) -> set[Key]:
    """Return what is locked while a worker looks for slots for these runs."""
    return {(pool.tenant, pool.door) for run in runs for pool in pools_of(run.resources)}


def outside_of(run: RunRow, claim: Claim) -> tuple[str, ...]:
    """Return what a claim wants beside its slots."""
    names = {pool.name for pool in pools_of(run.resources)}
    return tuple(name for name in claim.resources if name not in names)
