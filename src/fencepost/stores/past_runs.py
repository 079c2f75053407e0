"""Runs that are not changed any more: how they go into a narrow form, a page at a time, and how one is found there."""

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from fencepost.model.instants import FOREVER_US
from fencepost.model.retention import past_bounds
from fencepost.ports.pruning import BEGINNING_US, MovedPage, PastPlace
from fencepost.stores.metering import folded_until
from fencepost.stores.transaction import Dialect, Row, Transaction

TABLES = ("past_run", "past_common")
PLAIN = {"run": "past_plain", "attempt": "past_attempt"}  # which views give back the rows of which tables
SCHEMA = 55  # what a program must know to find what was moved
PAGE = 500  # runs that one transaction looks at
MINUTE_US = 60_000_000
ID_MARK, FENCE_MARK = "\x01", "\x02"  # stand in shared texts for what differs; the views put it back


class Common(NamedTuple):
    """What a past run shares with others, its id and fence replaced by marks."""

    agent: str
    version: int | None
    trigger: str
    manifest_hash: str
    resources: str
    lease_max: int
    lines_up: bool
    priority: int
    rank: int
    reason: str | None
    attempt: int
    resume: bool
    exit_code: int | None
    reserved_micro: int
    log: str | None
    project: str | None
    in_process: bool
    outcome: str | None
    give_up: int | None
    period_start: int | None
    period_end: int | None

    def hash(self) -> str:
        """Return by what it is found."""
        return sha256(json.dumps(self).encode()).hexdigest()


class SqlPastRuns:
    """The verbs of a store's keeper about past runs."""

    def __init__(self, dialect: Dialect) -> None:
        """Speak to a store through its dialect."""
        self._dialect = dialect

    def movable(self) -> dict[str, int]:
        """Count the runs that can be moved, by tenant; a few odd ones of them will stay."""
        return self._dialect.read(lambda tx: {one: _movable(tx, one) for one in _tenants(tx)}, patient=True)

    def move(self, place: PastPlace, limit: int = PAGE) -> MovedPage:
        """Look at a page of runs, tenant by tenant and oldest first, and move those that are not changed any more.

        Programs before this form cannot open the store any more.
        """
        return self._dialect.write(lambda tx: _move(tx, place, limit))

    def move_on(self, place: PastPlace) -> MovedPage:
        """Do the same in a store where a person has begun with it; any other store stays as it is."""
        ((needs,),) = self._dialect.read(lambda tx: tx.rows("meta", key="schema_needs"))
        return self.move(place) if int(needs) >= SCHEMA else MovedPage(0, None)

    def give_way(self) -> None:
        """Let others write before the next page."""
        self._dialect.give_way()


def seen(tx: Transaction, statement: str, /, **which: object) -> list[Row]:
    """Return a run by a statement about the plain form, or else from the narrow one: it only ever goes from there to here."""
    return tx.rows(statement, **which) or tx.rows("past_run", **which)


def touch(tx: Transaction, run_id: str) -> None:
    """Note that a run was asked for again, in whichever form it is."""
    tx.later("touch_run", id=run_id)
    tx.later("touch_past_run", id=run_id)


def _tenants(tx: Transaction) -> Iterator[str]:
    """Yield every tenant that has runs in the plain form."""
    tenant = _next_tenant(tx, "")
    while tenant is not None:
        yield tenant
        tenant = _next_tenant(tx, tenant)


def _next_tenant(tx: Transaction, tenant: str) -> str | None:
    ((found,),) = tx.rows("next_tenant_with_runs", tenant=tenant)
    return None if found is None else str(found)


def _movable(tx: Transaction, tenant: str) -> int:
    marks: dict[str, int] = dict(tx.rows("folded", tenant=tenant))
    ((number,),) = tx.rows("count_past", tenant=tenant, **_bounds(tx, tenant, marks.get("run", BEGINNING_US)))
    return int(number)


def _move(tx: Transaction, place: PastPlace, limit: int) -> MovedPage:
    """Go on where a pass stands; behind the last run of a tenant comes the next tenant."""
    if place.at_us < FOREVER_US:
        return _move_page(tx, place, limit)
    tenant = _next_tenant(tx, place.tenant)
    return MovedPage(0, None) if tenant is None else _move_page(tx, PastPlace(tenant, BEGINNING_US), limit)


def _move_page(tx: Transaction, place: PastPlace, limit: int) -> MovedPage:
    """Move what fits; counting, pruning and another mover of the tenant wait until this is committed."""
    tenant = place.tenant
    bounds = _bounds(tx, tenant, folded_until(tx, tenant, "run"))
    rows = tx.rows("past_page", tenant=tenant, **bounds, after_us=place.at_us, after=place.id, limit=limit)
    old = [row for row in rows if row[2]]
    moved = _put(tx, tenant, old) if old else []
    if moved:
        ids = json.dumps(moved)
        tx.rows("drop_moved_runs", ids=ids)
        tx.rows("drop_moved_attempts", ids=ids)
        tx.rows("raise_needs", schema=str(SCHEMA))
    behind = (rows[-1][1], rows[-1][0]) if len(rows) == limit else (FOREVER_US, "")
    return MovedPage(len(moved), PastPlace(tenant, *behind))


def _bounds(tx: Transaction, tenant: str, folded_us: int) -> dict[str, object]:
    """Say which runs of a tenant are past."""
    ((now_us,),) = tx.rows("store_clock_us")
    newest = next((run_id for (run_id,) in tx.rows("newest_run", tenant=tenant)), "")
    return {"newest": newest, "until_us": folded_us, **past_bounds(int(now_us))._asdict()}


def _put(tx: Transaction, tenant: str, old: Sequence[Row]) -> list[str]:
    """Write runs in the narrow form, and return those that come back from it exactly as they are."""
    ids = [str(row[0]) for row in old]
    tx.rows("lock_runs", ids=json.dumps(ids))  # a request may count itself in one of them
    numbers = _commons(tx, tenant, old)
    moves = [(run_id, numbers[_common(row)], *map(_own, row[-2:])) for run_id, row in zip(ids, old, strict=True)]
    tx.rows("put_past_runs", moves=json.dumps(moves))
    misfits = {str(run_id) for (run_id,) in tx.rows("past_misfits", ids=json.dumps(ids))}
    if misfits:
        tx.rows("drop_past_runs", ids=json.dumps(sorted(misfits)))
    return [run_id for run_id in ids if run_id not in misfits]


def _commons(tx: Transaction, tenant: str, old: Sequence[Row]) -> dict[Common, int]:
    """Return the number of all that these runs share, each found or made."""
    newest: dict[Common, int] = {}
    for row in old:
        common = _common(row)
        newest[common] = max(int(row[1]), newest.get(common, int(row[1])))
    asked = {
        common: tx.later("put_past_common", tenant=tenant, hash=common.hash(), newest_us=newest_us, **common._asdict())
        for common, newest_us in newest.items()
    }
    return {common: int(answer()[0][0]) for common, answer in asked.items()}


def _common(row: Row) -> Common:
    run_id, _, _, fence, *shared = row
    common = Common(*shared)
    log = common.log and common.log.replace(run_id, ID_MARK).replace(str(fence), FENCE_MARK)
    return common._replace(
        resources=common.resources.replace(run_id, ID_MARK),
        log=log,
        period_start=_shared(common.period_start),
        period_end=_shared(common.period_end),
    )


def _shared(distance_us: int | None) -> int | None:
    """Return what others share: the period of a cron is one of few, that of `every` is each run's own."""
    return None if distance_us is None or distance_us % MINUTE_US else distance_us


def _own(distance_us: int | None) -> int | None:
    return None if distance_us is None or not distance_us % MINUTE_US else distance_us


def plain_row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row of a plain view as a backup has it: a run's definition is kept apart."""
    return {**row, "manifest": ""} if "manifest" in row else row
