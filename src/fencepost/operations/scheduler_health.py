"""Whether a scheduler is at work: how far it has come, and who holds its lease."""

from fencepost.model.definition import schedule_from_json, trigger_of
from fencepost.model.instants import from_us, to_us
from fencepost.model.lease import Held
from fencepost.model.trigger import EndedRun, EveryTrigger
from fencepost.operations.phrases import SECOND_US, ago, rfc3339
from fencepost.operations.run_queries import Store
from fencepost.ports.read_rows import ScheduleFacts
from fencepost.ports.registry import ScheduleRow

PATIENCE_US = 30 * SECOND_US  # a scheduler that is alive looks far more often


def next_tick_us(facts: ScheduleFacts | ScheduleRow) -> int | None:
    """Return when the next tick is, or was to be.

    An `every` that is held back, by a pause, a blackout or its budget, is looked at again and again: what it waits
    with is the tick that it owes, and not the next look.
    """
    if facts.due_us is None or '"every"' not in facts.definition:
        return facts.due_us
    trigger = trigger_of(schedule_from_json(facts.definition))
    if not isinstance(trigger, EveryTrigger):
        return facts.due_us
    previous = (
        EndedRun(facts.last_run, from_us(facts.last_ended_us)) if facts.last_run and facts.last_ended_us else None
    )
    owed = trigger.due(previous, applied_at=from_us(facts.applied_us))
    return min(facts.due_us, to_us(owed.tick_at)) if owed else facts.due_us


def is_overdue(facts: ScheduleFacts, now_us: int) -> bool:
    """Tell whether a schedule was due and no scheduler came."""
    return facts.retired_us is None and facts.due_us is not None and facts.due_us < now_us - PATIENCE_US


def silence(store: Store, tenant: str, facts: ScheduleFacts, now_us: int) -> str:
    """Say since when the scheduler has not looked at a schedule, and who should."""
    since = f"The scheduler has not looked at it since {rfc3339(facts.cursor_us)} ({ago(facts.cursor_us, now_us)})"
    return f"{since}; {driver_words(store, tenant)}"


def is_driven(store: Store, tenant: str) -> bool:
    """Tell whether a scheduler is at work, by its lease."""
    return _driver(store, tenant) is not None


def _driver(store: Store, tenant: str) -> Held | None:
    name = f"scheduler:{tenant}"
    return next((one for one in store.leases() if name in one.resources and not one.lost and not one.expired), None)


def driver_words(store: Store, tenant: str) -> str:
    """Say who drives the scheduler, by its lease."""
    name, held = f"scheduler:{tenant}", _driver(store, tenant)
    if held is None:
        return f"no scheduler holds {name}: is `fencepost up` running?"
    return f"{name} is held by pid {held.supervisor.pid} on {held.supervisor.host.name}."
