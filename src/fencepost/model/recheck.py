"""The second look: what was true when the run was made may no longer hold when a worker is about to lease it."""

from dataclasses import dataclass

from fencepost.model.budget import BudgetDenied, Reservation
from fencepost.model.run import Reason, TriggerKind


@dataclass(frozen=True, slots=True)
class Recheck:
    """What holds now, read in the transaction that is about to lease the run."""

    trigger: TriggerKind
    started: bool  # an earlier attempt of this run has started
    enabled: bool
    paused: bool
    in_blackout: bool
    budget: Reservation | BudgetDenied  # with the run's own reservation left out of what is spent


def recheck(facts: Recheck) -> Reason | None:
    """Return why the run must end `cancelled` instead of starting, or None: go.

    A run that has started goes on through a pause or a blackout, as it would have without the interruption; its next
    attempt still costs money. A person's run, a webhook's, a replay or a backfill was asked for on purpose: neither
    the pause nor the calendar of the schedule is about it.
    """
    if not facts.started and not facts.enabled:
        return Reason.DISABLED
    if not facts.started and facts.trigger.tick_born:
        if facts.paused:
            return Reason.PAUSED
        if facts.in_blackout:
            return Reason.CALENDAR
    if isinstance(facts.budget, BudgetDenied):
        return Reason.BUDGET
    return None
