"""The last reckoning: every owed tick has one disposition, by brute force and by the product's own proof; every run has ended."""

from datetime import datetime
from typing import Any

from fencepost.model.definition import ScheduleDefinition, schedule_from_json
from fencepost.model.instants import parse_instant, to_us
from fencepost.operations.prove import prove
from tests.simulation.hosts import Process
from tests.simulation.ports import Agent
from tests.simulation.runtime.archives import check_chain, check_told
from tests.simulation.runtime.fleet import TENANT
from tests.simulation.runtime.oracle import Owed, Rule, owed
from tests.simulation.runtime.snapshot import Snapshot, TickSeen
from tests.simulation.runtime.stage import Stage

VERSIONS = (
    "SELECT name, version, definition, after_us, until_us FROM schedule_version WHERE name = '{name}' ORDER BY version"
)


def close_accounts(stage: Stage, process: Process, *, final: bool) -> None:
    """Compare what was owed with what is recorded, now; at the end also see that nothing is left undone."""
    snapshot = Snapshot().next(stage.place.engine.rows)
    total = 0
    for name in sorted(snapshot.schedules):
        total += _schedule(stage, snapshot, name)
    proof = prove(stage.runtime(process, reliable=True), tenant=TENANT)
    if not proof.holds:
        findings = [finding for one in proof.schedules for finding in one.findings]
        stage.world.fail("prove", f"{proof.totals()} {findings[:5]}")
    stage.world.totals["ticks owed"] += total if final else 0
    check_chain(stage)
    if final:
        _all_ended(stage, snapshot)
        _all_written(stage, process)
        check_told(stage, snapshot)


def _schedule(stage: Stage, snapshot: Snapshot, name: str) -> int:
    rows = sorted(
        (
            tick
            for tick in snapshot.ticks.values()
            if tick.schedule == name and not tick.occurrence.startswith("every:")
        ),
        key=lambda tick: tick.tick_us,
    )
    expected = Owed([], {})
    ended_us = -1
    versions: list[Any] = stage.place.engine.rows(VERSIONS.format(name=name))
    for _, version, text, after_us, until_us in versions:
        definition = schedule_from_json(text)
        if definition.once:  # owed until its first start, whenever that was: others look at it
            rows = [row for row in rows if row.version != version]
            ended_us = max(after_us, until_us or 0)
            continue
        ends_us = snapshot.schedules[name].cursor_us if until_us is None else until_us
        if after_us < ended_us and not definition.at:
            stage.world.fail(
                "versions in turn", f"{name} has a version from {after_us}, and the last ends at {ended_us}"
            )
        found = _owed_by(definition, after_us, ends_us)
        expected.ticks.extend(found.ticks)
        expected.gaps.update(found.gaps)
        ended_us = ends_us
    pruned_us = snapshot.watermarks.get(name, -1)
    pruned_us = snapshot.watermarks.get(name, -1)
    definitions = [schedule_from_json(text) for _, _, text, *_ in versions]
    if not any(one.every or one.once for one in definitions):  # of which nobody can tell by the calendar
        _counted(stage, name, expected, sum(row.number for row in rows) + snapshot.tallies.get((name, "tick"), 0))
    _compare(stage, name, expected, [row for row in rows if row.disposition != "dst_gap"], pruned_us)
    gaps = {row.tick_us: row.number for row in rows if row.disposition == "dst_gap" and row.tick_us > pruned_us}
    if gaps != {at: len(slots) for at, slots in expected.gaps.items() if at > pruned_us}:
        stage.world.fail("every tick accounted for", f"{name} lost {expected.gaps} in gaps, and {gaps} is recorded")
    return len(expected.ticks) + sum(map(len, expected.gaps.values()))


def _counted(stage: Stage, name: str, expected: Owed, recorded: int) -> None:
    """What was pruned and what is there make up what was owed."""
    owed_ever = len(expected.ticks) + sum(map(len, expected.gaps.values()))
    if recorded != owed_ever:
        stage.world.fail("pruned is counted", f"{name} owed {owed_ever} ticks, and {recorded} are there or counted")


def _owed_by(definition: ScheduleDefinition, after_us: int, until_us: int) -> Owed:
    if not definition.enabled or definition.every:
        return Owed([], {})
    instants = {to_us(parse_instant(at)) for at in _each(definition.at)}
    ticks, gaps = {at for at in instants if after_us < at <= until_us}, dict[int, set[datetime]]()
    for cron in _each(definition.cron):
        rule = Rule(cron, definition.timezone, definition.dst_gap, definition.dst_fold)
        found = owed(rule, after_us, until_us)
        ticks.update(found.ticks)
        for at, slots in found.gaps.items():
            gaps.setdefault(at, set()).update(slots)
    return Owed(sorted(ticks), gaps)


def _each(words: str | tuple[str, ...]) -> tuple[str, ...]:
    return words if isinstance(words, tuple) else (words,) if words else ()


def _compare(stage: Stage, name: str, expected: Owed, rows: list[TickSeen], pruned_us: int) -> None:
    """Lay the rows over the owed instants: each instant under one row, each row over as many as it says.

    Up to the watermark rows may be gone; they were counted when they went.
    """
    owed = [at for at in expected.ticks if at > pruned_us]
    times: dict[int, int] = dict.fromkeys(owed, 0)
    if len(times) != len(owed):
        stage.world.fail("versions in turn", f"two versions of {name} owe the same instant")
    for row in rows:
        under = [at for at in times if row.tick_us <= at <= row.tick_until_us]
        if len(under) != row.number and row.tick_us > pruned_us:
            stage.world.fail("every tick accounted for", f"{row} counts {row.number}, and {len(under)} were owed")
        for at in under:
            times[at] += 1
    wrong = {at: count for at, count in times.items() if count != 1}
    if wrong:
        stage.world.fail("every tick accounted for", f"{name}: instants and how often they are recorded: {wrong}")


def _all_ended(stage: Stage, snapshot: Snapshot) -> None:
    left: dict[str, Any] = {
        run.id: (run.schedule, run.state, run.reason, run.attempt) for run in snapshot.runs.values() if run.live
    }
    if left:
        stage.world.fail("progress", f"not ended long after the last fault: {left}")
    alive = [process.name for host in stage.hosts for process in host.processes.values() if isinstance(process, Agent)]
    if alive:
        stage.world.fail("nothing outlives its run", f"every run has ended, and these are alive: {alive}")
    held = [
        lease.id for lease in snapshot.leases.values() if lease.state == "held" and "scheduler" not in lease.resources
    ]
    if held:
        stage.world.fail("progress", f"still held at the end: {held}")
    lost = [run_id for run_id in stage.observer.acked if run_id not in snapshot.runs]
    if lost:
        stage.world.fail("kept", f"acknowledged and gone: {lost}")


def _all_written(stage: Stage, process: Process) -> None:
    """Each write that was accepted where writers exclude one another is counted there."""
    for target in stage.fleet.gates - stage.checker.shared:
        stage.checker.counted({target: stage.gate(target, process).read()})
        stage.world.totals["registers counted"] += 1
