"""Concurrency keys: how many runs with one key may go at once, and which of its slots each of them holds.

A key that lets one run go is a resource of its own, `key:NAME`. One that lets several go has as many slots,
`key:NAME/1` and so on; a run leases one of them. Leases of either form count against the same limit, so that an
edit of the limit takes effect while runs of both versions are on their way.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from fencepost.model.errors import Invalid
from fencepost.model.lease import keys_of

SLOTS_MAX = 1000
BETWEEN = "/"  # a key's name, and the number of its slot
_PAIR = 2  # of tenant and name; a concurrency key has its limit behind


class Pool(NamedTuple):
    """A concurrency key as a run asks for it."""

    tenant: str
    name: str  # key:NAME
    limit: int

    @property
    def door(self) -> str:
        """What is locked while a slot is looked for; it is never leased."""
        return f"{self.name}{BETWEEN}0"


def check_key(key: str) -> str:
    """Return a concurrency key whose slots cannot be taken for those of another one."""
    if not key.strip() or BETWEEN in key:
        raise Invalid(f'a concurrency key is a short name without "{BETWEEN}", such as "openai".')
    return key


def spell_resources(tenant: str, names: Iterable[str], *, key: str = "", limit: int = 1) -> str:
    """Spell what a run leases, as its row keeps it: each resource as `[tenant, name]`, a key with its limit behind."""
    keys: list[tuple[object, ...]] = list(keys_of(tenant, names))
    if key:
        keys.append((*keys_of(tenant, [f"key:{key}"])[0], limit))
    return json.dumps(sorted(keys, key=lambda one: one[:2]))


def pools_of(resources: str) -> list[Pool]:
    """Return the concurrency keys among what a run leases."""
    return [Pool(*one) for one in json.loads(resources) if len(one) == len(Pool._fields)]


def names_of(resources: str) -> tuple[str, ...]:
    """Return the names of what a run leases."""
    return tuple(name for _, name, *_ in json.loads(resources))


def seat(pool: Pool, taken: Collection[str]) -> str | None:
    """Return the resource that a run of a key leases, given those that are leased; None: there is no room."""
    if len(taken) >= pool.limit:
        return None
    if pool.limit == 1:
        return pool.name
    slots = (f"{pool.name}{BETWEEN}{number}" for number in range(1, pool.limit + 1))
    return next(slot for slot in slots if slot not in taken)


class Together:
    """Which runs could be leased at once, by what they want alone: no two want the same, and no bound is passed."""

    def __init__(self) -> None:
        self._wanted: Counter[tuple[str, str]] = Counter()

    def admits(self, tenant: str, schedule: str | None, resources: str, lease_max: int) -> bool:
        """Tell whether this run fits beside those that were admitted before it; if it does, it is one of them."""
        bounds = {(one[0], one[1]): one[2] if len(one) > _PAIR else 1 for one in json.loads(resources)}
        if schedule is not None:
            bounds[tenant, f"of {schedule}"] = lease_max
        if any(self._wanted[key] >= bound for key, bound in bounds.items()):
            return False
        self._wanted.update(bounds.keys())
        return True
