"""Whose turn it is: the lines in which ready runs stand, read without a lock."""

import json
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from fencepost.model.project import Workplace, apart
from fencepost.model.slots import Together
from fencepost.ports.runs import RunRow
from fencepost.stores.run_rows import run_of
from fencepost.stores.transaction import Transaction
from fencepost.stores.workplaces import turns

HEADS = 20  # of a line that are looked at together
LOOKS_MAX = 200  # at runs that could not start, before the worker is told to come again


class _Head(NamedTuple):
    """A run at the head of its line, and what it wants."""

    run_id: str
    schedule: str | None
    resources: str
    lease_max: int


class Lines:
    """The lines of all tenants, as a worker sees them that has passed some runs and can reach some projects."""

    def __init__(self, tx: Transaction, passed: Collection[str], places: Sequence[Workplace]) -> None:
        self._tx = tx
        self._passed = passed
        self._project = {"turns": json.dumps(turns(tx, places, passed)), "apart": json.dumps(apart(places))}
        self._together = Together()

    def first(self, limit: int) -> list[RunRow]:
        """Return the first runs that could go together: tenants in turn, the one that was served longest ago first."""
        ranks: dict[str, list[int]] = {}
        for tenant, rank in self._tx.rows("ready_lines"):
            ranks.setdefault(tenant, []).append(rank)
        ids = list(_in_turn([self._of(tenant, ranks[tenant]) for tenant in ranks], limit))
        rows = self._tx.rows("runs_named", ids=json.dumps(ids)) if ids else []
        found = {run.id: run for run in map(run_of, rows)}
        return [found[run_id] for run_id in ids]

    def _of(self, tenant: str, ranks: Sequence[int]) -> Iterator[str]:
        """Yield a tenant's runs by priority, then who has been ready longest.

        Within a project it is first come, first served, for all tenants alike.
        """
        looked = 0
        for rank in ranks:
            seen = list(self._passed)
            while looked < LOOKS_MAX:
                heads = self._heads(tenant, rank, seen)
                yield from (head.run_id for head in heads if self._fits(tenant, head))
                seen += [head.run_id for head in heads]
                looked += len(heads)
                if len(heads) < HEADS:
                    break

    def _fits(self, tenant: str, head: _Head) -> bool:
        return self._together.admits(tenant, head.schedule, head.resources, head.lease_max)

    def _heads(self, tenant: str, rank: int, passed: Sequence[str]) -> list[_Head]:
        values = {"tenant": tenant, "rank": rank, "passed": json.dumps(passed), "limit": HEADS, **self._project}
        return [_Head(*row) for row in self._tx.rows("line_heads", **values)]


def _in_turn(lines: Sequence[Iterator[str]], limit: int) -> Iterator[str]:
    """Yield one of each line in turn, until there are enough."""
    left = list(lines)
    number = 0
    while left:
        for line in tuple(left):
            if number >= limit:
                return
            run_id = next(line, None)
            if run_id is None:
                left.remove(line)
            else:
                number += 1
                yield run_id
