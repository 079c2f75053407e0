"""The ticks of all schedules that made no run, each with the reason: the latest decision first."""

from dataclasses import dataclass

from fencepost.model.instants import FOREVER_US
from fencepost.operations.recorded_ticks import ToldTick, tell_ticks
from fencepost.operations.run_queries import Store

Place = tuple[int, str, str]
NEWEST: Place = (FOREVER_US, "", "")


@dataclass(frozen=True, slots=True)
class SkippedTicks:
    """One page; `before` is where the next one begins."""

    now_us: int
    told: list[ToldTick]
    definitions: dict[str, str]  # by schedule, for its zone
    before: Place | None = None


def skips(store: Store, tenant: str, *, disposition: str = "", before: Place = NEWEST, limit: int) -> SkippedTicks:
    """Return one page of what was skipped; a few questions for each schedule on it."""
    look = store.reads(tenant)
    rows = look.skips(disposition=disposition, before=before, limit=limit + 1)
    kept = rows[:limit]
    now_us = look.clock_us()
    told: dict[tuple[str, str], ToldTick] = {}
    definitions: dict[str, str] = {}
    for name in dict.fromkeys(row.schedule for row in kept):
        facts = look.schedule(name)
        if facts is None:  # its last record is about to be pruned
            continue
        definitions[name] = facts.definition
        own = sorted((row for row in kept if row.schedule == name), key=lambda row: row.tick_us, reverse=True)
        told |= {(name, one.tick.occurrence): one for one in tell_ticks(look, facts, own, now_us)}
    last = kept[-1] if len(rows) > limit else None
    return SkippedTicks(
        now_us,
        [told[row.schedule, row.occurrence] for row in kept if (row.schedule, row.occurrence) in told],
        definitions,
        (last.decided_us, last.schedule, last.occurrence) if last else None,
    )
