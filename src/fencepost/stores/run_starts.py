"""Records that agents are about to start: in their runs, their attempts and their leases, and with schedules that run once.

Rows are locked in the order schedule, run, lease, each sorted, as every verb does that waits for them.
"""

import json
from collections.abc import Collection, Sequence

from fencepost.model.definition import schedule_from_json
from fencepost.model.lease import HELD
from fencepost.model.run import TriggerKind
from fencepost.ports.notices import run_notice
from fencepost.ports.runs import Starting
from fencepost.stores.lease_rows import kept, leases_of
from fencepost.stores.notices import put_notices
from fencepost.stores.run_ends import fate_of_attempt
from fencepost.stores.transaction import Transaction


def start_all(tx: Transaction, starting: Sequence[Starting]) -> dict[str, str]:
    """Record what is still ours as started; return the others, each as `lost` or `moved`."""
    ids = json.dumps(sorted(one.run.id for one in starting))
    once = _once(tx, starting)
    if once:
        tx.rows("lock_schedules_of", ids=json.dumps(sorted(one.run.id for one in once)))
    runs = tx.later("lock_runs", ids=ids)
    leases = tx.later("lock_leases", ids=json.dumps(sorted({one.lease.id for one in starting})))
    now = {row[0]: row[1:] for row in runs()}
    held = {one.id: one for one in leases_of(leases())}
    fates = {one.run.id: fate_of_attempt(one.lease, held.get(one.lease.id), now.get(one.run.id)) for one in starting}
    ours = [one for one in starting if fates[one.run.id] == HELD]
    if ours:
        _write_starts(tx, ours, {(one.run.tenant, str(one.run.schedule)) for one in once if one in ours})
    return {run_id: fate for run_id, fate in fates.items() if fate != HELD}


def _write_starts(tx: Transaction, starting: Sequence[Starting], once: Collection[tuple[str, str]]) -> None:
    values = json.dumps({one.run.id: {"fence": one.lease.fence, "session": one.session} for one in starting})
    started = tx.later("start_runs", starting=values)
    leases = tx.later("start_leases", leases=kept({one.lease.id: one.lease for one in starting}.values()))
    tx.later("start_attempts", starting=values)
    for tenant, schedule in sorted(once):
        _spend(tx, tenant, schedule)
    assert leases(), "the leases were locked while they were held"
    assert len(started()) == len(starting), "the runs were locked while they were running"
    told = [run_notice(one.run, f"started {one.run.id} {one.lease.fence}", ("started",)) for one in starting]
    put_notices(tx, told)


def _once(tx: Transaction, starting: Sequence[Starting]) -> list[Starting]:
    """Return those whose schedule shall run once, and is to be retired now that a run of its ticks starts."""
    born = [one for one in starting if one.run.schedule is not None and TriggerKind(one.run.trigger).tick_born]
    if not born:
        return []
    rows = tx.rows("definitions_of", ids=json.dumps(sorted(one.run.id for one in born)))
    once = {(row[0], row[1]) for row in rows if schedule_from_json(row[2]).once}
    return [one for one in born if (one.run.tenant, one.run.schedule) in once]


def _spend(tx: Transaction, tenant: str, schedule: str) -> None:
    for (cursor_us,) in tx.rows("spend_once", tenant=tenant, schedule=schedule):
        tx.rows("close_version", tenant=tenant, schedule=schedule, cursor_us=cursor_us)
