"""`fencepost ticks NAME`: preview the ticks of a schedule of the registry, with all its triggers and its calendar."""

import argparse
from collections.abc import Iterator
from datetime import datetime
from itertools import islice, takewhile
from typing import NamedTuple

from fencepost.cli import options
from fencepost.model.definition import trigger_of
from fencepost.model.errors import Invalid
from fencepost.model.instants import format_instant, from_us
from fencepost.model.merged_triggers import MergedTrigger
from fencepost.model.trigger import Align, CronTrigger, EveryTrigger
from fencepost.model.zone import Zone, find_zone, tzdata_version
from fencepost.operations.preview import PreviewedTick, known_ahead, parse_moment, preview_schedule
from fencepost.operations.schedule_registry import Listed, find_schedule


class TicksQuestion(NamedTuple):
    """A schedule, and which of its ticks are wanted."""

    listed: Listed
    trigger: CronTrigger | MergedTrigger | None  # None under `every`, which goes by the end of its last run
    zone: Zone
    start: datetime
    end: datetime | None

    @property
    def lines(self) -> Iterator[PreviewedTick]:
        """What comes, oldest first."""
        if self.trigger is None:
            return iter(())
        return preview_schedule(self.listed.definition, self.trigger, self.start, self.end)

    @property
    def rhythm(self) -> Iterator[datetime] | None:
        """The instants of an `every` that keeps to the clock, oldest first; None where it counts from the last end."""
        trigger = trigger_of(self.listed.definition)
        if not isinstance(trigger, EveryTrigger) or trigger.align is not Align.START:
            return None
        return takewhile(lambda at: self.end is None or at < self.end, trigger.beats(self.start))

    @property
    def next_end(self) -> Iterator[datetime]:
        """When an `every` schedule is looked at next, if that is known and asked for."""
        due = self.listed.row.due_us
        if due is not None and self.start <= from_us(due) and (self.end is None or from_us(due) < self.end):
            yield from_us(due)


def ask(args: argparse.Namespace) -> TicksQuestion:
    """Look a schedule up; wall times of --from and --until are in its zone."""
    with options.opened(args) as store:
        listed = find_schedule(store.registry(), args.name, tenant=options.tenant_of(args))
    trigger = known_ahead(listed.definition)
    zone = (trigger and trigger.zone) or find_zone(listed.definition.timezone or "UTC")
    start = parse_moment(args.start, zone) if args.start else listed.now
    end = parse_moment(args.end, zone) if args.end else None
    if end and end < start:
        raise Invalid(f"--until ({args.end}) is before --from ({format_instant(start)}); swap them.")
    return TicksQuestion(listed, trigger, zone, start, end)


def head(asked: TicksQuestion) -> Iterator[str]:
    """Say what is previewed, and whether anything will come of it."""
    listed = asked.listed
    yield f"{listed.row.name}, version {listed.row.version}: {listed.definition.when}"
    gap = f", gap: {asked.trigger.gap}" if asked.trigger else ""
    yield f"{asked.zone.name}, tzdata {tzdata_version()}{gap}"
    if listed.state != "active":
        yield f"It is {listed.state}: these are its ticks, and no runs come of them while it is."
    yield ""


def after_an_end(asked: TicksQuestion, limit: int) -> Iterator[str]:
    """Say what is known about a schedule that goes by the end of its last run."""
    rhythm, every = asked.rhythm, asked.listed.definition.every
    for at in islice(rhythm or asked.next_end, limit):
        note = "unless a run outlasts it" if rhythm else "the next"
        yield f"{asked.zone.local(at).isoformat(' ', 'seconds')}  {format_instant(at)}  {note}"
    if not rhythm:
        yield f"Each later one is due {every} after the run before it has ended."


def fields_after_an_end(asked: TicksQuestion, limit: int) -> Iterator[dict[str, object]]:
    """Return the ticks that are known, as scripts see them; an occurrence is named when it is decided."""
    rhythm = asked.rhythm
    note = "unless a run outlasts it" if rhythm else f"then {asked.listed.definition.every} after each end"
    for at in islice(rhythm or asked.next_end, limit):
        slot = at.replace(tzinfo=None, microsecond=0).isoformat()
        yield {
            "tick_at": format_instant(at),
            "slot": slot,
            "slot_until": slot,
            "count": 1,
            "zone": "UTC",
            "fold": 0,
            "occurrence": None,
            "disposition": "fired",
            "note": note,
        }
