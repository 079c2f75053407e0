"""The last reckoning: every owed tick has one disposition, by brute force and by the product's own proof; every run has ended."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from fencepost.model.definition import ScheduleDefinition, schedule_from_json
from fencepost.model.instant import parse_instant
from fencepost.model.moment import to_us
from fencepost.operations.prove import prove
from tests.simulation.hosts import Process
from tests.simulation.runtime.fleet import TENANT
from tests.simulation.runtime.oracle import Owed, Rule, owed
from tests.simulation.runtime.snapshot import Snapshot, TickSeen
from tests.simulation.runtime.stage import Stage

if TYPE_CHECKING:
    import apsw

VERSIONS = "SELECT name, version, definition, after_us, until_us FROM schedule_version WHERE name = ? ORDER BY version"


def close_accounts(stage: Stage, process: Process, *, final: bool) -> None:
    """Compare what was owed with what is recorded, now; at the end also see that nothing is left undone."""
    place = stage.place
    connection = place.connection(process.host)._sqlite._connection
    snapshot = Snapshot().next(connection)
    total = 0
    for name in sorted(snapshot.schedules):
        total += _schedule(stage, snapshot, connection, name)
    proof = prove(stage.runtime(process, reliable=True), tenant=TENANT)
    if not proof.holds:
        findings = [finding for one in proof.schedules for finding in one.findings]
        stage.world.fail("prove", f"{proof.totals()} {findings[:5]}")
    stage.world.totals["ticks owed"] += total if final else 0
    if final:
        _all_ended(stage, snapshot)


def _schedule(stage: Stage, snapshot: Snapshot, connection: "apsw.Connection", name: str) -> int:
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
    versions: list[Any] = connection.execute(VERSIONS, (name,)).fetchall()
    for _, _, text, after_us, until_us in versions:
        definition = schedule_from_json(text)
        ends_us = snapshot.schedules[name].cursor_us if until_us is None else until_us
        if after_us < ended_us and not definition.at:
            stage.world.fail(
                "versions in turn", f"{name} has a version from {after_us}, and the last ends at {ended_us}"
            )
        found = _owed_by(definition, after_us, ends_us)
        expected.ticks.extend(found.ticks)
        expected.gaps.update(found.gaps)
        ended_us = ends_us
    _compare(stage, name, expected, [row for row in rows if row.disposition != "dst_gap"])
    gaps = {row.tick_us: row.number for row in rows if row.disposition == "dst_gap"}
    if gaps != {at: len(slots) for at, slots in expected.gaps.items()}:
        stage.world.fail("every tick accounted for", f"{name} lost {expected.gaps} in gaps, and {gaps} is recorded")
    return len(expected.ticks) + sum(map(len, expected.gaps.values()))


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


def _compare(stage: Stage, name: str, expected: Owed, rows: list[TickSeen]) -> None:
    """Lay the rows over the owed instants: each instant under one row, each row over as many as it says."""
    times: dict[int, int] = dict.fromkeys(expected.ticks, 0)
    if len(times) != len(expected.ticks):
        stage.world.fail("versions in turn", f"two versions of {name} owe the same instant")
    for row in rows:
        under = [at for at in times if row.tick_us <= at <= row.tick_until_us]
        if len(under) != row.number:
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
    held = [
        lease.id for lease in snapshot.leases.values() if lease.state == "held" and "scheduler" not in lease.resources
    ]
    if held:
        stage.world.fail("progress", f"still held at the end: {held}")
    lost = [run_id for run_id in stage.observer.acked if run_id not in snapshot.runs]
    if lost:
        stage.world.fail("kept", f"acknowledged and gone: {lost}")
