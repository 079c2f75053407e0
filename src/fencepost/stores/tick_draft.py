"""What decided ticks come to, spelled as the store takes it."""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fencepost.model.new_run import NewRun
from fencepost.model.run import TriggerKind
from fencepost.ports.ticks import NewTick, TickPlan
from fencepost.stores.audit_writing import audit_entry
from fencepost.stores.manifests import spelled_of

DENIED_MAX = 4  # one for each kind of limit


class TickDraft(NamedTuple):
    """Rows of one part of what is due, and their texts."""

    plans: Sequence[TickPlan]
    ticks: Sequence[NewTick]
    runs: Sequence[NewRun]
    ticks_text: str
    runs_text: str
    entries_text: str


def draft_of(plans: Sequence[TickPlan], is_wanted: Callable[[NewTick], bool] = lambda _: True) -> TickDraft:
    """Spell plans; of their ticks, and the runs for these, only some may be wanted."""
    ticks = [tick for plan in plans for tick in plan.ticks if is_wanted(tick)]
    made = {tick.run_id for tick in ticks if tick.run_id}
    runs = [run for plan in plans for run in plan.runs if run.id in made]
    entries = [_entry(plan) for plan in plans if plan.ticks or plan.trouble or plan.held]
    return TickDraft(
        plans,
        ticks,
        runs,
        json.dumps([tick._asdict() for tick in ticks]) if ticks else "",
        runs_text(runs) if runs else "",
        json.dumps(entries) if entries else "",
    )


def runs_text(runs: Sequence[NewRun]) -> str:
    """Spell new runs."""
    return json.dumps([{**run._asdict(), **spelled_of(run)._asdict()} for run in runs])


def moves_text(plans: Sequence[TickPlan]) -> str:
    """Spell how the cursors of schedules move on."""
    return json.dumps([_move(plan) for plan in plans])


def _move(plan: TickPlan) -> dict[str, object]:
    every = any(run.trigger == TriggerKind.EVERY for run in plan.runs)
    return {
        "tenant": plan.due.tenant,
        "name": plan.due.name,
        "version": plan.due.version,
        "cursor_was_us": plan.due.cursor_us,
        "last_was": plan.due.last_run,
        "cursor_us": plan.cursor_us,
        "due_us": plan.due_us,
        "skip_next": plan.skip_next,
        "seen": plan.seen,
        "last_run": plan.runs[-1].id if every else None,
    }


def _entry(plan: TickPlan) -> dict[str, str]:
    counts: dict[str, int] = defaultdict(int)
    for tick in plan.ticks:
        counts[tick.disposition] += tick.count
    detail: dict[str, object] = {"version": plan.due.version, "ticks": counts, "runs": [run.id for run in plan.runs]}
    if plan.denied:
        detail["denied"] = plan.denied[:DENIED_MAX]
    if plan.held:
        detail["waits"] = plan.held.disposition
    if plan.trouble:
        detail = {"version": plan.due.version, "trouble": plan.trouble}
    return audit_entry(plan.due.tenant, actor="ticker", verb="tick", subject=f"schedule:{plan.due.name}", detail=detail)
