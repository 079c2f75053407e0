"""How the end of an attempt is spelled and written down, by every process alike: once for all that are alike."""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fencepost.model.instants import to_us
from fencepost.model.outcome import Settlement
from fencepost.model.run import Reason
from fencepost.ports.alike_runs import AlikeEnds
from fencepost.ports.runs import Ended, Report, RunRow
from fencepost.stores.audit_writing import batch_entry, write_audit, write_entries
from fencepost.stores.lease_rows import storable
from fencepost.stores.notices import end_notice, end_notices, put_notices
from fencepost.stores.run_rows import note_ends
from fencepost.stores.transaction import Later, Row, Transaction


class End(NamedTuple):
    """One attempt's end, as it is written down where its keeper is gone; a keeper tells more (Ended)."""

    run: RunRow
    lease_id: str
    fence: int
    settlement: Settlement
    report: Report
    began: bool = True


Ends = Sequence[End | Ended]


def write_ends(tx: Transaction, ends: Ends) -> tuple[Later, Callable[[], None]]:
    """Write attempts down as ended; return a way to the runs' rows, and a way to tell those who want to hear of it."""
    kinds: Ends = ends
    if _are_alike(ends):
        kinds = [ends[0]]
        settled = _settle_alike(tx, ends)
        write_entries(tx, [_entry(ends)])
    else:
        settled = _settle_each(tx, ends)
        write_entries(tx, _entries(ends))
        for one in ends:
            if one.settlement.alarm:
                _audit_alarm(tx, one)
        if not all(one.settlement.state.terminal for one in ends):
            tx.later("announce", what="ready")
    notices = end_notices(
        tx,
        {one.run.tenant for one in kinds},
        [(one.settlement, one.report) for one in kinds],
        lambda: [told for one in ends for told in end_notice(one.run, one.fence, one.settlement, one.report)],
    )
    return settled, lambda: put_notices(tx, notices())


def _are_alike(ends: Ends) -> bool:
    """Tell whether runs of one lease all ended for good in the same way, with nothing to tell; lanes have many such."""
    if isinstance(ends, AlikeEnds):
        return True
    first = ends[0]
    settlement, report = first.settlement, first.report
    return (
        settlement == Settlement(settlement.state)
        and settlement.state.terminal
        and first.began
        and report == Report(report.outcome, exit_code=0)
        and all(
            one.settlement is settlement
            and one.report is report
            and one.fence == first.fence
            and one.lease_id == first.lease_id
            and one.run.attempt == first.run.attempt
            and one.began
            for one in ends
        )
    )


def _ids(ends: Ends) -> list[str]:
    return ends.runs.ids if isinstance(ends, AlikeEnds) else [one.run.id for one in ends]


def _settle_alike(tx: Transaction, ends: Ends) -> Later:
    first, ids = ends[0], json.dumps(_ids(ends))
    state = first.settlement.state.value
    values = {"ids": ids, "fence": first.fence, "exit_code": 0}
    settled = tx.later("settle_batch", **values, lease_id=first.lease_id, state=state)
    tx.later("end_batch", **values, outcome=storable(first.report.outcome))
    return settled


def _settle_each(tx: Transaction, ends: Ends) -> Later:
    values = json.dumps(groups_of(ends))
    settled = tx.later("settle_runs", ended=values)
    tx.later("end_attempts", ended=values)
    return settled


def groups_of(ends: Ends) -> dict[str, object]:
    """Spell ends, once for all that are the same; a lane that is in a hurry says so by one object."""
    alike: dict[tuple[object, ...], list[str]] = defaultdict(list)
    first: dict[tuple[object, ...], End | Ended] = {}
    for one in ends:
        key = (id(one.settlement), id(one.report), one.lease_id, one.fence, one.began, one.run.started_us is None)
        alike[key].append(one.run.id)
        first.setdefault(key, one)
    return {"ids": list(alike.values()), "given": [_values(one) for one in first.values()]}


def _values(one: End | Ended) -> dict[str, object]:
    settlement, report = one.settlement, one.report
    return {
        "lease_id": one.lease_id,
        "fence": one.fence,
        "state": settlement.state.value,
        "reason": settlement.reason.value if settlement.reason else None,
        "ready_us": to_us(settlement.ready_at) if settlement.ready_at else None,
        "steps_back": settlement.reason is Reason.RETRY,
        "refund": 0 if settlement.uses_attempt else 1,
        "resume": settlement.resume,
        "never_began": not one.began and one.run.started_us is None,
        "began": one.began,
        **_reported(report),
    }


def _reported(report: Report) -> dict[str, object]:
    """Spell a report; what no database takes must not keep the end from being written down."""
    told = report._asdict()
    return {name: storable(value) if isinstance(value, str) else value for name, value in told.items()}


def _entries(ends: Ends) -> list[dict[str, str]]:
    """Spell each decision once for all runs of a lease about which it says the same."""
    alike: dict[tuple[object, ...], list[End | Ended]] = defaultdict(list)
    for one in ends:
        alike[one.lease_id, one.fence, one.settlement.state, one.settlement.reason, one.run.attempt].append(one)
    return [_entry(group) for group in alike.values()]


def _entry(group: Ends) -> dict[str, str]:
    first = group[0]
    said = {"state": first.settlement.state.value, "reason": first.settlement.reason, "fence": first.fence}
    detail = {**said, "attempt": first.run.attempt}
    ids = sorted(_ids(group))
    return batch_entry(first.run.tenant, first.lease_id, ids, actor="settler", verb="settle", detail=detail)


def _audit_alarm(tx: Transaction, one: End | Ended) -> None:
    """Put down that a person should look; the decision says so once, when its bound is passed."""
    said = {"reason": one.settlement.reason, "last_log": one.report.last_log, "fence": one.fence}
    write_audit(tx, one.run.tenant, actor="settler", verb="alarm", subject=f"run:{one.run.id}", detail=said)


def note_terminal(tx: Transaction, ends: Ends, rows: Sequence[Row]) -> None:
    """Tell the schedules which of their runs ended for good."""
    ended_us: dict[str, int] = dict(rows)
    over = [one for one in ends if one.settlement.state.terminal]
    note_ends(tx, [(one.run, one.settlement.state, int(ended_us[one.run.id])) for one in over])
