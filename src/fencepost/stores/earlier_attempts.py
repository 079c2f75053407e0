"""What earlier attempts at a run left for the next: its checkpoint, its conversation, and what that came to."""

import json
from collections import Counter
from collections.abc import Callable, Sequence

from fencepost.model.usage import llm_tokens
from fencepost.model.usage_figures import SoFar
from fencepost.ports.runs import LeasedRun, RunRow
from fencepost.stores.transaction import Row, Transaction


def checkpoint_of(tx: Transaction, run_id: str) -> str | None:
    """Return what the run's last attempt left for the next."""
    rows = tx.rows("checkpoint", run_id=run_id)
    return str(rows[0][0]) if rows else None


def earlier_of(tx: Transaction, runs: Sequence[RunRow]) -> Callable[[RunRow, LeasedRun], LeasedRun]:
    """Return a way to what earlier attempts left for each run: its checkpoint, its conversation and what that came to."""
    ids = [run.id for run in runs if run.fence is not None]  # one that was never leased has nothing
    checkpoints = tx.later("checkpoints", ids=json.dumps(ids)) if ids else list
    resumed = [run.id for run in runs if run.resume]
    sessions = sessions_of(tx, resumed) if resumed else {}
    left: dict[str, str] = dict(checkpoints())

    def filled(now: RunRow, leased: LeasedRun) -> LeasedRun:
        session, so_far = session_of([row for row in sessions.get(now.id, ()) if row[0] != now.fence])
        return leased._replace(run=now, checkpoint=left.get(now.id), session=session, so_far=so_far)

    return filled


def sessions_of(tx: Transaction, ids: Sequence[str]) -> dict[str, list[Row]]:
    """Return the fence, the conversation and the figures of each attempt that had one, by run, the latest first."""
    found: dict[str, list[Row]] = {}
    for run_id, *told in tx.rows("sessions_of", ids=json.dumps(ids)):
        found.setdefault(run_id, []).append(tuple(told))
    return found


def session_of(rows: Sequence[Row]) -> tuple[str | None, SoFar]:
    """Return the conversation that a resumed run shall go on with, and what it came to so far."""
    if not rows:
        return None, SoFar()
    latest = rows[0][1]
    told = [(cost_micro, usage) for _, session, cost_micro, usage in rows if session == latest]
    usage = sum((Counter(llm_tokens(text)) for _, text in told), Counter[str]())
    return str(latest), SoFar(sum(cost_micro or 0 for cost_micro, _ in told), tuple(sorted(usage.items())))
