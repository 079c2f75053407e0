"""Why did it (not) run? Answered for any schedule and instant, from recorded facts only."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from fencepost.model.definition import ScheduleDefinition, Trigger, calendar_of, schedule_from_json, trigger_of
from fencepost.model.disposition import DispositionKind
from fencepost.model.errors import Invalid
from fencepost.model.instants import from_us, to_us
from fencepost.model.run import Reason, RunState
from fencepost.model.trigger import Align, AtTrigger, EveryTrigger
from fencepost.model.zone import Zone, find_zone
from fencepost.operations.phrases import SECOND_US, ago, gate_words, kept_words, rfc3339, wall
from fencepost.operations.preview import parse_moment, preview
from fencepost.operations.run_queries import SeenRun, Store, show, unknown
from fencepost.operations.scheduler_health import is_overdue, next_tick_us, silence
from fencepost.operations.tick_stories import Storyteller, pause_words
from fencepost.ports.read_rows import ScheduleFacts, TickRow, VersionFacts

if TYPE_CHECKING:
    from fencepost.stores.reads import SqlReads

ROWS_MAX = 5


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is known about a schedule at an instant, the most important sentence first."""

    # a disposition, a run's state, or: pending unrecorded pruned no_tick future not_applied retired none_yet
    verdict: str
    sentences: tuple[str, ...]
    tick: TickRow | None = None
    run: SeenRun | None = None
    next_us: int | None = None


@dataclass(frozen=True, slots=True)
class WhyQuestion:
    """The question as it was understood."""

    schedule: str
    tenant: str
    at_us: int | None
    now_us: int


def why(store: Store, tenant: str, name: str, at: str | None = None) -> tuple[WhyQuestion, list[Explanation]]:
    """Answer for an instant (one answer for each tick there), or without one for the last tick."""
    look = store.reads(tenant)
    facts = look.schedule(name)
    if facts is None:
        raise _no_schedule(look, name)
    inquiry = _Inquiry(store, tenant, look, facts)
    at_us = None if at is None else to_us(parse_moment(at, inquiry.zone or find_zone("UTC")))
    answers = inquiry.last() if at_us is None else inquiry.at(at_us)
    return WhyQuestion(name, tenant, at_us, inquiry.now_us), answers


class _Inquiry:
    """One schedule, one moment of the store, one question."""

    def __init__(self, store: Store, tenant: str, look: "SqlReads", facts: ScheduleFacts) -> None:
        self._store = store
        self._tenant = tenant
        self._look = look
        self._facts = facts
        self._definition = schedule_from_json(facts.definition)
        self._trigger = trigger_of(self._definition)
        self._versions = look.versions(facts.name)
        self.zone = _zone(self._definition)
        self.now_us = look.clock_us()
        self._stories = Storyteller(look, self.zone, self.now_us)
        self._asked_us: int | None = None
        self._mark = store.watermark(tenant, facts.name)

    def last(self) -> list[Explanation]:
        """Answer for the last tick, and say what comes next."""
        rows = self._look.ticks(self._facts.name, limit=1)
        if rows:
            return [self._told(rows[0], lead=f"The last tick was {self._when(rows[0])}.", closing=True)]
        if self._mark is not None:
            return [self._closed("pruned", [f"No tick is on record any more. {self._pruned_words()}"])]
        applied = self._facts.applied_us
        first = (
            f"No tick is recorded yet; the schedule was applied at {rfc3339(applied)} ({ago(applied, self.now_us)})."
        )
        return [self._closed("none_yet", [first])]

    def at(self, at_us: int) -> list[Explanation]:
        """Answer for an instant."""
        self._asked_us = at_us
        if at_us > self.now_us:
            return [self._future(at_us)]
        rows = [row for row in self._recorded(at_us) if self._is_meant(row, at_us)]
        if rows:
            return [self._told(row, lead=f"Tick {self._when(row)}.", closing=row is rows[-1]) for row in rows]
        version = self._version_at(at_us)
        if version is None:
            return [self._not_in_force(at_us)]
        trigger = trigger_of(schedule_from_json(version.definition))
        known = _ticks_at(trigger, at_us)
        if (known or isinstance(trigger, EveryTrigger)) and self._mark is not None and at_us <= self._mark.pruned_us:
            return [self._pruned(at_us, owed=known)]
        if known:
            return [self._undecided(at_us, version)]
        return [self._between(at_us, trigger)]

    def _recorded(self, at_us: int) -> list[TickRow]:
        """Return the rows that touch the second of an instant, oldest first."""
        return self._look.ticks(self._facts.name, from_us=at_us, until_us=at_us + SECOND_US, limit=ROWS_MAX)[::-1]

    def _is_meant(self, row: TickRow, at_us: int) -> bool:
        """Tell whether an instant is one of a range's ticks, and not merely between two of them."""
        if row.count == 1 or at_us in (row.tick_us, row.tick_until_us):
            return True
        version = next((one for one in self._versions if one.version == row.version), None)
        return version is not None and _ticks_at(trigger_of(schedule_from_json(version.definition)), at_us)

    def _told(self, row: TickRow, *, lead: str, closing: bool) -> Explanation:
        definition = self._definition_of(row.version)
        seen = show(self._store, self._tenant, row.run_id).seen if row.run_id and self._has(row.run_id) else None
        if seen is not None:
            sentences = [lead, *self._stories.tell_run(seen, row)]
        elif row.run_id:
            sentences = [lead, f"Run {row.run_id} was made for it; its record was pruned. {self._pruned_words()}"]
        else:
            sentences = [lead, *self._stories.tell(row, definition), *self._shut_gate(row)]
        verdict = seen.run.state if seen else row.disposition
        if not closing:
            return Explanation(verdict, tuple(sentences), row, seen)
        return self._closed(verdict, sentences, tick=row, run=seen)

    def _shut_gate(self, row: TickRow) -> Iterator[str]:
        """Say what keeps the run in the way from starting: of a tick that gave way to it, that is the real reason."""
        if row.disposition != DispositionKind.OVERLAP:
            return
        for run in self._look.alive_at(row.schedule, row.decided_us, limit=1):
            if run.state == RunState.READY and run.reason == Reason.GATE_UNREACHABLE:
                last_log = show(self._store, self._tenant, run.id).seen.last_log
                yield f"Run {run.id} waits for a gate: {gate_words(last_log)}"

    def _future(self, at_us: int) -> Explanation:
        when = f"{wall(at_us, self.zone)} is {ago(at_us, self.now_us)}"
        if self._facts.retired_us is not None:
            return self._closed("retired", [f"{when}; the schedule is retired, so nothing will run then."])
        if not _ticks_at(self._trigger, at_us):
            return self._closed("no_tick", [f"{when}; no tick is due then.", *self._nearest(self._trigger, at_us)])
        if self._is_gap(at_us):
            return self._closed("dst_gap", [f"{when}; nothing will run then{self._dst_note(at_us)}."])
        held = [f"But {pause_words(one)}, which covers it." for one in self._look.pauses_at(self._facts.name, at_us)]
        return self._closed("future", [f"{when}: a tick is due then{self._dst_note(at_us)}.", *held])

    def _not_in_force(self, at_us: int) -> Explanation:
        if not self._versions or at_us <= self._versions[0].after_us:
            first = self._versions[0].applied_us if self._versions else self._facts.applied_us
            return self._closed(
                "not_applied",
                [f"Nothing was owed at {wall(at_us, self.zone)}: the schedule was first applied at {rfc3339(first)}."],
            )
        return self._closed(
            "retired", [f"Nothing was owed at {wall(at_us, self.zone)}: the schedule was retired then."]
        )

    def _undecided(self, at_us: int, version: VersionFacts) -> Explanation:
        when = wall(at_us, self.zone)
        if at_us > self._facts.cursor_us and self._facts.due_us is not None:
            note = self._dst_note(at_us)
            if self._facts.due_us > at_us:
                return self._closed("pending", [f"At {when}{note} nothing was to run; the next tick records that."])
            return self._closed("pending", [f"The tick of {when}{note} is due and not decided yet."])
        if not schedule_from_json(version.definition).enabled:
            return self._closed("disabled", [f"Version {version.version}, in force at {when}, says enabled = false."])
        lead = f"Version {version.version} owed a tick at {when}, and there is no record of it."
        return self._closed("unrecorded", [lead, "That should not be; check with: fencepost prove"])

    def _pruned(self, at_us: int, *, owed: bool) -> Explanation:
        when = wall(at_us, self.zone)
        lead = (
            f"The tick of {when} was decided, and its record was pruned."
            if owed
            else f"Nothing is on record of {when}."
        )
        counts = f"How many there were: fencepost schedule show {self._facts.name}"
        return self._closed("pruned", [lead, self._pruned_words(), counts])

    def _pruned_words(self) -> str:
        if self._mark is None:
            return ""
        return f"Records up to {rfc3339(self._mark.pruned_us)} are gone: {kept_words(self._mark.kept_for_us)}."

    def _between(self, at_us: int, trigger: Trigger) -> Explanation:
        lead = f"There was no tick at {wall(at_us, self.zone)}."
        return self._closed("no_tick", [lead, *self._nearest(trigger, at_us)])

    def _nearest(self, trigger: Trigger, at_us: int) -> Iterator[str]:
        """Name the ticks on both sides; a recorded one with what became of it."""
        before = self._look.ticks(self._facts.name, until_us=at_us, limit=1)
        if before:
            fate = f"run {before[0].run_id}" if before[0].run_id else before[0].disposition
            yield f"The tick before it was {self._when(before[0])}: {fate}."
        if isinstance(trigger, EveryTrigger):
            after = self._look.following_tick(self._facts.name, at_us)
            if after:
                yield f"The one after it was {self._when(after)}."
            return
        following = trigger.next_after(from_us(at_us))
        if following is not None and to_us(following.tick_at) <= self.now_us:  # else it is the next one, said below
            yield f"The one after it was {wall(to_us(following.tick_at), self.zone)}."

    def _closed(
        self, verdict: str, sentences: list[str], *, tick: TickRow | None = None, run: SeenRun | None = None
    ) -> Explanation:
        """Add how the schedule stands now, and what comes next."""
        next_us, following = self._next()
        told = [] if next_us is not None and next_us == self._asked_us else following
        return Explanation(verdict, (*sentences, *self._standing(), *told), tick, run, next_us)

    def _standing(self) -> Iterator[str]:
        facts = self._facts
        if facts.retired_us is not None:
            yield f"The schedule is retired since {rfc3339(facts.retired_us)}: its file no longer defines it."
            return
        if not self._definition.enabled:
            yield "The schedule is disabled (enabled = false)."
        if facts.once_done:
            yield "It was to run once, and has."
        for pause in self._look.pauses_at(facts.name, self.now_us):
            yield f"Now: {pause_words(pause)}."
        if is_overdue(facts, self.now_us):
            yield silence(self._store, self._tenant, facts, self.now_us)

    def _next(self) -> tuple[int | None, list[str]]:
        facts = self._facts
        if facts.retired_us is not None or not self._definition.enabled or facts.once_done:
            return None, []
        if isinstance(self._trigger, EveryTrigger):
            return self._next_every()
        following = self._trigger.next_after(from_us(max(self.now_us, facts.cursor_us)))
        if following is None:
            return None, ["No tick is to come."]
        next_us = to_us(following.tick_at)
        left = json.loads(facts.skip_next)["left"] if facts.skip_next else 0
        skipped = f" It is to be skipped (skip-next, {left} left)." if left else ""
        when = f"{wall(next_us, self.zone)}, {ago(next_us, self.now_us)}{self._dst_note(next_us)}"
        return next_us, [f"The next tick is {when}.{skipped}"]

    def _next_every(self) -> tuple[int | None, list[str]]:
        facts, every = self._facts, self._definition.every
        if facts.last_run and facts.last_ended_us is None:
            rhythm = f"the first one of its rhythm of {every}" if self._definition.align == Align.START else every
            return None, [f"The next tick comes {rhythm} after run {facts.last_run} has ended."]
        if facts.due_us is None:
            return None, ["No tick is to come."]
        next_us = next_tick_us(facts) or facts.due_us
        when = f"{wall(next_us, self.zone)}, {ago(next_us, self.now_us)}"
        if next_us > self.now_us:
            return next_us, [f"The next tick is {when}."]
        return next_us, [f"The next tick was to be {when}{self._waits_for(next_us)}."]

    def _waits_for(self, owed_us: int) -> str:
        """Say what holds the tick of an `every` back that is due."""
        if self._look.pauses_at(self._facts.name, self.now_us):
            return ", and waits until that is over"
        calendar, now = calendar_of(self._definition), from_us(self.now_us)
        if calendar is not None and calendar.covering(now) is not None:
            return ", and waits for the end of a blackout of its calendar"
        denied = self._stories.denied_since(self._facts.name, owed_us)
        return f", and waits for its budget: {' '.join(denied).removesuffix('.')}" if denied else ""

    def _is_gap(self, at_us: int) -> bool:
        """Tell whether all that falls on an instant are slots that the clock jumps over."""
        if isinstance(self._trigger, EveryTrigger):
            return False
        at = from_us(at_us)
        return all(one.missing for one in self._trigger.occurrences(at, _second_later(at)))

    def _dst_note(self, at_us: int) -> str:
        if isinstance(self._trigger, AtTrigger | EveryTrigger):
            return ""
        at = from_us(at_us)
        note = next((line.note for line in preview(self._trigger, at, _second_later(at)) if line.note), "")
        return f" ({note})" if note else ""

    def _when(self, row: TickRow) -> str:
        return f"{wall(row.tick_us, self.zone)}, {ago(row.tick_us, self.now_us)}"

    def _version_at(self, at_us: int) -> VersionFacts | None:
        within = (
            one for one in self._versions if one.after_us < at_us and (one.until_us is None or at_us <= one.until_us)
        )
        return next(within, None)

    def _definition_of(self, version: int) -> ScheduleDefinition:
        found = next((one.definition for one in self._versions if one.version == version), self._facts.definition)
        return schedule_from_json(found)

    def _has(self, run_id: str) -> bool:
        return self._store.run(run_id, tenant=self._tenant) is not None


def _no_schedule(look: "SqlReads", name: str) -> Invalid:
    if any(one.name == name and one.kind == "agent" for one in look.names()):
        return Invalid(
            f"{name!r} is an agent and has no ticks; ask for its schedule, or see: fencepost runs --agent {name}"
        )
    return unknown(look, name, kinds=("schedule",))


def _second_later(at: datetime) -> datetime:
    """Return the end of the second that begins here; the last second of all ends with itself."""
    return from_us(to_us(at) + SECOND_US)


def _ticks_at(trigger: Trigger, at_us: int) -> bool:
    """Tell whether a trigger has a tick, or a slot that the clock jumped over, in the second of an instant."""
    if isinstance(trigger, EveryTrigger):
        return False
    at = from_us(at_us)
    return any(trigger.occurrences(at, _second_later(at)))


def _zone(definition: ScheduleDefinition) -> Zone | None:
    return find_zone(definition.timezone) if definition.timezone else None
