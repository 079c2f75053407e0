"""What became of a tick, told in sentences from what was recorded when it was decided."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from fencepost.model.calendar import Calendar
from fencepost.model.definition import ScheduleDefinition
from fencepost.model.disposition import DispositionKind
from fencepost.model.duration import parse_duration
from fencepost.model.instants import FOREVER_US, from_us, parse_wall
from fencepost.model.run import Reason, RunState
from fencepost.model.zone import Zone, find_zone
from fencepost.operations.phrases import (
    SECOND_US,
    clock,
    gate_words,
    last_line,
    plain,
    rfc3339,
    span,
    wall,
    why_so,
)
from fencepost.operations.run_queries import SeenRun
from fencepost.ports.read_rows import AuditRow, PauseFacts, TickRow
from fencepost.ports.runs import RunRow

IN_THE_WAY_MAX = 3
DECISIONS_MAX = 5  # of one schedule within the time in which a decision is written
TOGETHER_US = SECOND_US  # rows of one decision are written within this time


class Records(Protocol):
    """What a story is made of."""

    def alive_at(self, schedule: str, at_us: int, *, limit: int) -> list[RunRow]:
        """Return the runs of a schedule that had not ended at an instant, oldest first."""
        ...

    def named_runs(self, run_ids: Iterable[str]) -> dict[str, RunRow]:
        """Return some runs by their ids; those that are not on record are left out."""
        ...

    def ticks(self, schedule: str, *, from_us: int, until_us: int, limit: int) -> list[TickRow]:
        """Return the recorded ticks that touch [from, until), newest first."""
        ...

    def following_tick(self, schedule: str, at_us: int) -> TickRow | None:
        """Return the first recorded tick after an instant."""
        ...

    def pauses_at(self, schedule: str, at_us: int) -> list[PauseFacts]:
        """Return the pauses of a schedule, and the halts, that cover an instant."""
        ...

    def audit(self, *, verb: str, subject: str, until_us: int = FOREVER_US, limit: int) -> list[AuditRow]:
        """Return audit rows, newest first."""
        ...


@dataclass(frozen=True, slots=True)
class Storyteller:
    """Tells ticks of one schedule."""

    look: Records
    zone: Zone | None
    now_us: int

    def tell(self, tick: TickRow, definition: ScheduleDefinition) -> Iterator[str]:
        """Yield what became of a tick without a run, the reason first."""
        if tick.count > 1:
            first, last = self._at(tick.tick_us), self._at(tick.tick_until_us)
            yield f"It is one of {tick.count} ticks from {first} to {last} that share this fate."
        match DispositionKind(tick.disposition):
            case DispositionKind.MISSED:
                yield from self._missed(tick, definition)
            case DispositionKind.OVERLAP:
                yield from self._overlap(tick, definition)
            case DispositionKind.DST_GAP:
                yield self._gap(tick)
            case DispositionKind.COALESCED:
                yield self._coalesced(tick)
            case DispositionKind.PAUSED:
                yield from self._paused(tick)
            case DispositionKind.BUDGET:
                yield from self._budget(tick, definition)
            case DispositionKind.CALENDAR:
                yield from self._calendar(tick, definition)
            case DispositionKind.RUN:
                return

    def tell_run(self, seen: SeenRun, tick: TickRow | None) -> Iterator[str]:
        """Yield what became of a run, how it ended first."""
        run = seen.run
        match RunState(run.state):
            case RunState.SUCCEEDED:
                yield f"Run {run.id} ran for it and succeeded{_took(run)}{_started(run)}."
            case RunState.RUNNING:
                asked = f" It was asked to stop: {why_so(run.stop)}." if run.stop else ""
                since = f"since {rfc3339(run.started_us)}" if run.started_us else "and is about to start"
                yield f"Run {run.id} is running for it {since}, attempt {run.attempt} on {run.worker}.{asked}"
                if seen.unattended is not None:
                    yield f"Its worker is gone, and its guard keeps it going: {seen.unattended.words(self.now_us)}."
            case RunState.READY:
                yield f"Run {run.id} waits: {seen.place.words(self.now_us) if seen.place else 'queued'}."
                if run.reason:
                    yield f"It is back in the queue: {why_so(run.reason)}."
                if run.reason == Reason.GATE_UNREACHABLE and seen.last_log:
                    yield gate_words(seen.last_log)
            case RunState.DEAD:
                yield from self._dead(seen)
            case RunState.CANCELLED:
                yield f"Run {run.id} was made for it and was cancelled{self._by(run)}: {why_so(run.reason)}."
        late_us = (run.created_us - tick.tick_us) if tick else 0
        if late_us > SECOND_US * parse_duration("60s"):
            yield f"The run was made {span(late_us)} after its tick."

    def _dead(self, seen: SeenRun) -> Iterator[str]:
        run = seen.run
        if run.reason == Reason.EXIT_CODE:
            yield f"Run {run.id} ran for it and failed: the agent exited with code {run.exit_code}{_took(run)}."
        else:
            yield f"Run {run.id} was made for it and died{_took(run)}: {why_so(run.reason)}."
        line = last_line(seen.last_log)
        if line:
            yield f"Its last line: {line}"
        if run.discarded_us is None:
            yield f"Look: fencepost logs {run.id}"
            yield f"Then: fencepost dead replay {run.id}"

    def _missed(self, tick: TickRow, definition: ScheduleDefinition) -> Iterator[str]:
        late = span(tick.decided_us - tick.tick_us)
        yield (
            f"It was missed: the scheduler looked at {rfc3339(tick.decided_us)}, {late} after the tick "
            f"(grace is {definition.grace})."
        )
        if definition.missed == "skip":
            yield 'Under missed = "skip", a tick that is late makes no run.'
        else:
            yield (
                f'missed = "{definition.missed}" reaches back {definition.catchup_window} and '
                f"makes at most {definition.catchup_max} runs."
            )

    def _overlap(self, tick: TickRow, definition: ScheduleDefinition) -> Iterator[str]:
        names = self._in_its_way(tick)
        if names:
            more = " and others" if len(names) > IN_THE_WAY_MAX else ""
            yield f"It was skipped because of overlap: {', '.join(names[:IN_THE_WAY_MAX])}{more} had not ended."
        elif (newer := self.look.following_tick(tick.schedule, tick.tick_until_us)) and _together(tick, newer):
            yield f"It was skipped because of overlap: it gave way to the tick of {self._at(newer.tick_us)}."
        else:
            yield "It was skipped because of overlap; the run that was in the way is no longer on record."
        yield f'The schedule says overlap = "{definition.overlap}".'

    def _in_its_way(self, tick: TickRow) -> list[str]:
        """Name the runs that were in a tick's way: those recorded with it, or else those alive when it was decided."""
        if not tick.behind:  # decided by a program that did not record them
            alive = self.look.alive_at(tick.schedule, tick.decided_us, limit=IN_THE_WAY_MAX + 1)
            return [_in_the_way(run, tick.decided_us) for run in alive]
        ids = behind_of(tick)
        known = self.look.named_runs(ids)
        return [
            _in_the_way(known[one], tick.decided_us) if one in known else f"run {one} (pruned since)" for one in ids
        ]

    def _gap(self, tick: TickRow) -> str:
        first, last = parse_wall(tick.slot), parse_wall(tick.slot_until)
        times = clock(first) if tick.count == 1 else f"{clock(first)} to {clock(last)}"
        zone = self.zone.name if self.zone else "UTC"
        return (
            f"{times} did not exist on {first:%a %Y-%m-%d} in {zone}: clocks jumped ahead, to "
            f'{rfc3339(tick.tick_us)}. Under dst_gap = "skip" such a tick makes no run.'
        )

    def _coalesced(self, tick: TickRow) -> str:
        if tick.into_us is None:
            return "It was coalesced: a later run covers it."
        rows = self.look.ticks(tick.schedule, from_us=tick.into_us, until_us=tick.into_us + 1, limit=5)
        run_id = next((row.run_id for row in rows if row.run_id), None)
        made = f", run {run_id}" if run_id else ""
        return f"It was coalesced: the catch-up run for the tick of {self._at(tick.into_us)}{made}, covers it."

    def _paused(self, tick: TickRow) -> Iterator[str]:
        pauses = self.look.pauses_at(tick.schedule, tick.tick_us)
        yield from (f"It was skipped: {pause_words(one)}." for one in pauses)
        if pauses:
            return
        asked = self._asked_to_skip(tick)
        by = f" by {plain(asked.actor)} at {rfc3339(asked.at_us)}" if asked else ""
        yield f"It was skipped on purpose, by skip-next, asked for{by}." if asked else "It was skipped on purpose."

    def _asked_to_skip(self, tick: TickRow) -> AuditRow | None:
        subject = f"schedule:{tick.schedule}"
        rows = self.look.audit(verb="skip_next", subject=subject, until_us=tick.tick_until_us, limit=1)
        return rows[0] if rows else None

    def _budget(self, tick: TickRow, definition: ScheduleDefinition) -> Iterator[str]:
        """Tell which limit was in the way, as it was recorded; older records name only what limits there were."""
        denied = self._denied(tick)
        if denied:
            yield f"It was skipped because of the budget: {' '.join(map(plain, denied))}"
            return
        limits = {
            "budget_usd_per_day": definition.budget_usd_per_day,
            "budget_usd_per_month": definition.budget_usd_per_month,
            "max_runs_per_hour": definition.max_runs_per_hour,
            "max_time_per_day": definition.max_time_per_day,
        }
        named = ", ".join(f"{name} = {value}" for name, value in limits.items() if value)
        yield f"It was skipped: no money, time or place in the hour was left ({named or 'a limit of its agent'})."

    def _denied(self, tick: TickRow) -> list[str]:
        until_us = tick.decided_us + TOGETHER_US
        rows = self.look.audit(verb="tick", subject=f"schedule:{tick.schedule}", until_us=until_us, limit=DECISIONS_MAX)
        for row in rows:
            if row.at_us >= tick.decided_us - TOGETHER_US and (found := json.loads(row.detail).get("denied")):
                return [str(one) for one in found]
        return []

    def denied_since(self, schedule: str, since_us: int) -> list[str]:
        """Return which limits of the budget were in the way of the tick that is due since an instant."""
        rows = self.look.audit(verb="tick", subject=f"schedule:{schedule}", limit=1)
        found = json.loads(rows[0].detail) if rows and rows[0].at_us >= since_us else {}
        return [plain(str(one)) for one in found.get("denied", ())] if "waits" in found else []

    def _calendar(self, tick: TickRow, definition: ScheduleDefinition) -> Iterator[str]:
        zone = find_zone(definition.timezone or "UTC")
        at = from_us(tick.tick_us)
        inside = [entry for entry in definition.calendar if Calendar.parse((entry,), zone).covering(at) is not None]
        which = f': "{plain(inside[0])}"' if inside else ""
        yield f"It fell into a blackout of the schedule's calendar{which}."

    def _by(self, run: RunRow) -> str:
        if run.reason != Reason.CANCELLED:
            return ""
        rows = self.look.audit(verb="cancel", subject=f"run:{run.id}", limit=1)
        return f" by {plain(rows[0].actor)}" if rows else ""

    def _at(self, us: int) -> str:
        return wall(us, self.zone)


def behind_of(tick: TickRow) -> list[str]:
    """Return the ids of the runs that were in a tick's way, as far as they are recorded with it."""
    return [str(one) for one in json.loads(tick.behind)] if tick.behind else []


def pause_words(pause: PauseFacts) -> str:
    """Say what was held back, by whom, since when and why."""
    what = "the schedule was paused" if pause.schedule else "everything was halted"
    until = "" if pause.until_us >= FOREVER_US else f" until {rfc3339(pause.until_us)}"
    note = f' ("{plain(pause.note)}")' if pause.note else ""
    return f"{what} by {plain(pause.by_whom)} from {rfc3339(pause.since_us)}{until}{note}"


def _in_the_way(run: RunRow, at_us: int) -> str:
    if run.started_us is not None and run.started_us <= at_us:
        return f"run {run.id} (running for {span(at_us - run.started_us)} then)"
    if (
        run.created_us >= at_us
    ):  # the tick before was decided at the same moment, and its run written down after this one
        return f"run {run.id} (made at the same moment)"
    return f"run {run.id} (waiting for {span(at_us - run.created_us)} then)"


def _together(tick: TickRow, newer: TickRow) -> bool:
    return newer.run_id is not None and abs(newer.decided_us - tick.decided_us) < TOGETHER_US


def _took(run: RunRow) -> str:
    return f" after {span(run.ended_us - run.started_us)}" if run.ended_us and run.started_us else ""


def _started(run: RunRow) -> str:
    return f", started at {rfc3339(run.started_us)}" if run.started_us else ""
