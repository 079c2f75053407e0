"""How far ahead no run meets another: the ticks of many schedules in order, with the runs at work at each tick."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush, merge
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from fencepost.model.calendar import Calendar
from fencepost.model.disposition import DispositionKind
from fencepost.model.instants import EPOCH, from_us, to_us
from fencepost.model.merged_triggers import MergedTrigger
from fencepost.model.missed import INSTANT
from fencepost.model.trigger import AtTrigger, CronTrigger, EndedRun, EveryTrigger
from fencepost.operations.simulation.budget_sums import SimulatedBudget

TOLD_EVERY = 1000  # ticks


class Plain(NamedTuple):
    """A schedule whose ticks can be counted while they meet no other run."""

    name: str
    trigger: CronTrigger | AtTrigger | MergedTrigger | EveryTrigger
    busy_us: int  # from a tick to the end of its run
    groups: tuple[str, ...]  # what its runs share with runs of other schedules
    forbids: bool  # a tick that meets a run of its own schedule is skipped, and that is all
    due_us: int | None = None  # of an `every`, its next tick
    calendar: Calendar | None = None
    simulated_budget: SimulatedBudget | None = None  # of what has a budget

    @property
    def chained(self) -> bool:
        """Whether each tick follows from the end of the run before it."""
        return isinstance(self.trigger, EveryTrigger)

    def due(self, at_us: int | None) -> "Plain":
        """Return it with the next tick of an `every`."""
        return self._replace(due_us=at_us) if self.chained else self


class Quiet(NamedTuple):
    """What happens before `met_us`: the first tick that meets another run, or the end of the stretch."""

    met_us: int
    runs: Mapping[str, int]  # that have ended by then
    skips: Mapping[tuple[str, DispositionKind], int]  # ticks without a run, and why
    first_budget_us: Mapping[str, int]  # when a budget first stood in the way
    busy_us: Mapping[str, int]  # what is still at work, with its tick
    ended_us: Mapping[str, int]  # of each `every`, the end of the last run that has ended by then


def look_ahead(
    plain: Sequence[Plain],
    room: Mapping[str, int],
    *,
    since_us: int,
    limit_us: int,
    slots: int,
    reached: Callable[[int], None],
) -> Quiet:
    """Go through the ticks in (since, limit) until one meets a run; no run may be at work at the beginning.

    `reached` hears now and then where it is.
    """
    by_name = {one.name: one for one in plain}
    shop = _Shop(by_name, room, slots)
    skips: Counter[tuple[str, DispositionKind]] = Counter()
    first_budget_us: dict[str, int] = {}
    met_us = limit_us
    ticks = merge(*(_ticks_of(one, since_us, limit_us) for one in plain))
    for number, (at_us, same) in enumerate(groupby(ticks, key=itemgetter(0))):
        if number % TOLD_EVERY == 0:
            reached(at_us)
        shop.close(at_us)
        due = [by_name[name] for _, name in same]
        passed = [(one.name, why) for one in due if (why := _why_not(one, shop, at_us))]
        begins = [one for one in due if all(one.name != name for name, _ in passed)] if passed else due
        if not shop.enter(begins, at_us):
            met_us = at_us
            break
        skips.update(passed)
        for name, why in passed:
            if why is DispositionKind.BUDGET:
                first_budget_us.setdefault(name, at_us)
    else:
        shop.close(limit_us)
    busy_us = {name: tick_us for _, name, tick_us in shop.busy}
    return Quiet(met_us, shop.done, skips, first_budget_us, busy_us, shop.ended_us)


def _why_not(one: Plain, shop: "_Shop", at_us: int) -> DispositionKind | None:
    """Return why a tick has no run, in the order in which the ticker asks, or None: it has one if there is room."""
    if one.calendar is not None and one.calendar.covering(from_us(at_us)) is not None:
        return DispositionKind.CALENDAR
    if shop.held[one.name]:
        return DispositionKind.OVERLAP if one.forbids else None
    if one.simulated_budget is not None and not one.simulated_budget.allows(at_us):
        return DispositionKind.BUDGET
    return None


class _Shop:
    """What is at work at a moment, and whether there is room for more."""

    def __init__(self, by_name: Mapping[str, Plain], room: Mapping[str, int], slots: int) -> None:
        self._by_name = by_name
        self._room = room
        self._slots = slots
        self.busy: list[tuple[int, str, int]] = []
        self.held: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.ended_us: dict[str, int] = {}

    def close(self, at_us: int) -> None:
        """End the runs that end before an instant; a run that ends right then still meets what begins."""
        while self.busy and self.busy[0][0] < at_us:
            end_us, name, tick_us = heappop(self.busy)
            one = self._by_name[name]
            self.done[name] += 1
            self.held.subtract((name, *one.groups))
            if one.chained:
                self.ended_us[name] = end_us
            if one.simulated_budget is not None:
                one.simulated_budget.count(tick_us)

    def enter(self, begins: Sequence[Plain], at_us: int) -> bool:
        """Start the runs of one instant: all of them, or none if one of them finds no room."""
        wanted = Counter(name for one in begins for name in (one.name, *one.groups))
        full = len(self.busy) + len(begins) > self._slots
        if full or any(self.held[name] + number > self._room.get(name, 1) for name, number in wanted.items()):
            return False
        for one in begins:
            heappush(self.busy, (at_us + one.busy_us, one.name, at_us))
        self.held.update(wanted)
        return True


def _ticks_of(one: Plain, since_us: int, limit_us: int) -> Iterator[tuple[int, str]]:
    start, end = from_us(since_us) + INSTANT, from_us(limit_us)
    if isinstance(one.trigger, EveryTrigger):
        return ((at_us, one.name) for at_us in _chain(one, one.trigger, limit_us))
    if isinstance(one.trigger, AtTrigger):
        return ((to_us(tick.tick_at), one.name) for tick in one.trigger.occurrences(start, end))
    return ((to_us(at), one.name) for at in one.trigger.instants(start, end))


def _chain(one: Plain, trigger: EveryTrigger, limit_us: int) -> Iterator[int]:
    """Yield each tick that follows from the end of the run before it."""
    at_us = one.due_us
    while at_us is not None and at_us < limit_us:
        yield at_us
        following = trigger.due(EndedRun(one.name, from_us(at_us + one.busy_us)), applied_at=EPOCH)
        at_us = to_us(following.tick_at) if following else None
