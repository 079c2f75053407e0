"""Proof that every owed tick is accounted for: the registry's history, counted in another way than the ticker's."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from fencepost.model.definition import ScheduleDefinition, schedule_from_json
from fencepost.model.errors import Invalid, Unknown
from fencepost.model.instants import MICROSECOND, format_instant, to_us
from fencepost.model.nearest_name import nearest
from fencepost.model.proof import (
    FindingKind,
    ProofFinding,
    Reign,
    ScheduleProof,
    Sweep,
    TenantProof,
    reign_of,
    remapped,
)
from fencepost.model.version_handover import REARMING
from fencepost.model.zone import tzdata_version
from fencepost.ports.history import ScheduleHistory
from fencepost.ports.requests import VersionFact

if TYPE_CHECKING:
    from fencepost.stores.history import SqlHistory

EVER_US = 1 << 62
MOVED_US = timedelta(days=2) // MICROSECOND  # further than any new tzdata moves a slot


def prove(
    store: "SqlHistory",
    *,
    tenant: str,
    from_: datetime | None = None,
    until: datetime | None = None,
    schedule: str | None = None,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> TenantProof:
    """Compare what was owed in [from_, until) with what is recorded, for all schedules or for one."""
    now_us = store.clock_us()
    from_us = 0 if from_ is None else to_us(from_)
    until_us = min(now_us + 1, EVER_US if until is None else to_us(until))
    if until is not None and from_ is not None and until <= from_:
        raise Invalid(f"--until {format_instant(until)} is not after --from {format_instant(from_)}; swap them.")
    names = store.history_names(tenant)
    if schedule is not None:
        names = [_known(schedule, names)]
    proofs = []
    for number, name in enumerate(names, 1):
        history = store.history(tenant, name, from_us=from_us, until_us=until_us)
        proofs.append(prove_schedule(history, from_us, until_us))
        progress(number, len(names))
    return TenantProof(from_us, until_us, tuple(proofs))


def prove_schedule(history: ScheduleHistory, from_us: int, until_us: int) -> ScheduleProof:
    """Compare what one schedule owed with what is recorded about it, as far back as records are kept."""
    from_us = max(from_us, _kept_from_us(history))
    case = _Case(history, from_us, until_us)
    sweep = Sweep(history.name, case.reigns(), from_us, min(until_us, history.cursor_us + 1))
    sweep.run(remapped(row, tzdata=tzdata_version()) for row in history.ticks if case.judges(row.occurrence))
    pending = case.pending()
    every = case.every()
    findings = [*sweep.findings, *case.links(), *every.findings]
    missing, doubled = sweep.missing, sweep.doubled
    if pending and not case.will_look():
        findings.append(ProofFinding(FindingKind.MISSING, history.name, history.cursor_us, pending, case.sleep()))
        missing, pending = missing + pending, 0
    runless, tickless = len(history.runless), len(history.tickless)
    accounted = sweep.accounted + every.accounted - runless
    missing += runless + every.missing
    pending += every.pending
    return ScheduleProof(
        history.name,
        owed=accounted + pending + missing,
        accounted=accounted,
        pending=pending,
        missing=missing,
        doubled=doubled + tickless,
        cursor_us=history.cursor_us if history.exists else None,
        cursor_age_seconds=(history.now_us - history.cursor_us) / 1e6 if history.exists else None,
        findings=tuple(findings),
        pruned_until_us=history.watermark.pruned_us if history.watermark else None,
    )


def _kept_from_us(history: ScheduleHistory) -> int:
    """Return where the proof may begin: a slot that a new tzdata moved past the watermark has no record any more."""
    mark = history.watermark
    if mark is None:
        return 0
    return mark.pruned_us + 1 + (0 if mark.tzdata in ("", tzdata_version()) else MOVED_US)


@dataclass(frozen=True, slots=True)
class _Every:
    """What the chain of an `every` schedule comes to."""

    accounted: int = 0
    pending: int = 0
    missing: int = 0
    findings: tuple[ProofFinding, ...] = ()


@dataclass(frozen=True, slots=True)
class _Case:
    """One schedule's history, and the questions about it."""

    history: ScheduleHistory
    from_us: int
    until_us: int

    def reigns(self) -> list[Reign]:
        """Return what each version owed while it was in force, inside the window or not; the last one up to now."""
        reigns = (self._reign(version) for version in self._armed())
        return [reign for reign in reigns if reign is not None]

    def _armed(self) -> Iterator[VersionFact]:
        """Leave out versions of a schedule that runs once, and had: only a new trigger arms it again."""
        started: list[int] = []
        before: ScheduleDefinition | None = None
        for version in self.history.versions:
            schedule = schedule_from_json(version.definition)
            if before is None or any(getattr(schedule, name) != getattr(before, name) for name in REARMING):
                started = []
            if not schedule.once or all(version.after_us < at for at in started):
                yield version
            started += [self.history.starts[version.version]] if version.version in self.history.starts else []
            before = schedule

    def _reign(self, version: VersionFact) -> Reign | None:
        until_us = self.history.now_us if version.until_us is None else version.until_us
        if version.until_us is None and self.history.once_done:
            until_us = min(until_us, self.history.cursor_us)
        return reign_of(schedule_from_json(version.definition), after_us=version.after_us, until_us=until_us)

    def judges(self, occurrence: str) -> bool:
        """Whether a recorded tick is one of those that are known beforehand."""
        return not occurrence.startswith("every:")

    def pending(self) -> int:
        """Count what came due beyond the cursor."""
        start = max(self.from_us, self.history.cursor_us + 1)
        return sum(reign.count(start, self.until_us) for reign in self.reigns()) if start < self.until_us else 0

    def will_look(self) -> bool:
        """Whether the ticker has been told to look at this schedule by now."""
        return self.history.exists and self.history.due_us is not None and self.history.due_us <= self.history.now_us

    def sleep(self) -> str:
        """Say why the ticker will not look."""
        if not self.history.exists:
            return "the schedule's row is gone, and its versions are not"
        return "ticks are due, and the ticker was told to look later or never"

    def links(self) -> Iterator[ProofFinding]:
        """Report ticks without their run, and runs without their tick."""
        for occurrence, at_us in self.history.runless:
            yield ProofFinding(FindingKind.MISSING, self.history.name, at_us, 1, f"the run of {occurrence} is gone")
        for run_id, at_us in self.history.tickless:
            yield ProofFinding(FindingKind.DOUBLED, self.history.name, at_us, 1, f"run {run_id} belongs to no tick")

    def every(self) -> _Every:
        """Follow the chain: each run that has ended has a successor, or is the last and its successor is on the way."""
        accounted = sum(row.occurrence.startswith("every:") for row in self.history.ticks)
        broken = [
            link
            for link in self.history.every
            if link.ended_us is not None and not link.has_successor and link.run_id != self.history.last_run
        ]
        findings = [
            ProofFinding(FindingKind.MISSING, self.history.name, link.ended_us, 1, f"nothing follows run {link.run_id}")
            for link in broken
        ]
        waits = self._waits_for_successor()
        stopped = waits and self.history.due_us is None
        if stopped:
            what = f"run {self.history.last_run} has ended, and the ticker was never told to look again"
            findings.append(ProofFinding(FindingKind.MISSING, self.history.name, self.history.last_ended_us, 1, what))
        due = waits and not stopped and self.will_look()
        return _Every(accounted, int(due), len(findings), tuple(findings))

    def _waits_for_successor(self) -> bool:
        """Whether the version in force is an `every` whose last run has ended."""
        history = self.history
        if not history.versions or history.retired or history.once_done or not history.exists:
            return False
        schedule = schedule_from_json(history.versions[-1].definition)
        open_end = not schedule.end
        return bool(schedule.every and schedule.enabled and open_end and history.last_ended_us is not None)


def _known(name: str, names: list[str]) -> str:
    if name in names:
        return name
    near = nearest(name, names)
    hint = f"did you mean {near!r}?" if near else "see: fencepost schedule list"
    raise Unknown(f"there is no schedule {name!r}; {hint}")
