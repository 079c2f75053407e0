"""Writes down what an apply changes, many rows with each statement."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

from fencepost.model.definition import ScheduleDefinition, schedule_from_json
from fencepost.model.handover import REARMING, Before, Start, hand_over
from fencepost.model.moment import from_us, to_us
from fencepost.model.registry import ChangeKind, Plan, ScheduleChange
from fencepost.model.run import TriggerKind
from fencepost.model.zone import tzdata_version
from fencepost.stores.lease_rows import storable
from fencepost.stores.transaction import Transaction

AT_ONCE = 5_000  # rows in one statement
NEW = (ChangeKind.ADDED, ChangeKind.CHANGED, ChangeKind.REVIVED)
T = TypeVar("T")


class _Standing(NamedTuple):
    """Where a schedule stands, and what is left to skip."""

    before: Before
    skip_next: str | None


class Writing:
    """Writes a plan down, many rows with each statement."""

    def __init__(self, tx: Transaction, planned: Plan, now: datetime, actor: str) -> None:
        self._tx = tx
        self._plan = planned
        self._wanted = planned.wanted
        self._tenant = planned.wanted.tenant
        self._now = now
        self._actor = actor

    def write(self) -> None:
        """Write agents first: a schedule takes its manifest from there."""
        self._agents()
        self._tx.rows("begin_with_tzdata", tzdata=tzdata_version())
        self._new_versions([one for one in self._plan.schedules if one.kind in NEW])
        self._retire([one.name for one in self._plan.schedules if one.kind is ChangeKind.RETIRED])
        moved = [one.name for one in self._plan.schedules if one.kind is ChangeKind.MOVED]
        for names in _chunks(moved):
            self._tx.rows("move_schedules", tenant=self._tenant, source=self._wanted.source, names=json.dumps(names))
        counts = {kind.value: self._plan.count(kind) for kind in ChangeKind if self._plan.count(kind)}
        detail = {"source": self._wanted.source, **counts}
        subject = f"file:{self._wanted.source}"
        write_audit(self._tx, self._tenant, actor=self._actor, verb="apply", subject=subject, detail=detail)

    def _agents(self) -> None:
        by_kind = {kind: [one for one in self._plan.agents if one.kind is kind] for kind in ChangeKind}
        common = {"tenant": self._tenant, "source": self._wanted.source}
        for some in _chunks([one for kind in NEW for one in by_kind[kind]]):
            rows = [{"name": one.name, "hash": one.spelled.hash, "definition": one.spelled.text} for one in some]
            self._tx.rows("put_agents", **common, now_us=to_us(self._now), actor=self._actor, rows=json.dumps(rows))
        for some in _chunks(by_kind[ChangeKind.MOVED]):
            self._tx.rows("move_agents", **common, names=json.dumps([one.name for one in some]))
        for some in _chunks(by_kind[ChangeKind.RETIRED]):
            names = json.dumps([one.name for one in some])
            self._tx.rows("retire_agents", tenant=self._tenant, now_us=to_us(self._now), names=names)

    def _new_versions(self, changes: list[ScheduleChange]) -> None:
        now_us = to_us(self._now)
        for some in _chunks(sorted(changes, key=lambda one: one.name)):
            names = json.dumps([one.name for one in some])
            before = self._lock(names)
            starts = {one.name: self._start(one, before.get(one.name)) for one in some}
            rows = [self._row(one, starts[one.name], before.get(one.name)) for one in some]
            # Nobody waits for these: the server may write them down while the next ones are spelled.
            self._tx.later("put_schedules", tenant=self._tenant, now_us=now_us, rows=json.dumps(rows))
            if before:
                self._tx.later("end_versions", tenant=self._tenant, names=names)
            self._tx.later("put_versions", tenant=self._tenant, actor=self._actor, names=names)

    def _retire(self, gone: list[str]) -> None:
        for some in _chunks(sorted(gone)):
            names = json.dumps(some)
            self._tx.rows("lock_schedules", tenant=self._tenant, names=names)
            self._tx.rows("retire_schedules", tenant=self._tenant, now_us=to_us(self._now), names=names)
            self._tx.rows("end_versions", tenant=self._tenant, names=names)

    def _lock(self, names: str) -> dict[str, _Standing]:
        """Keep tickers away from these schedules, and return where they stand."""
        return {
            name: _Standing(_before(*standing), skip_next)
            for name, *standing, skip_next in self._tx.rows("lock_schedules", tenant=self._tenant, names=names)
        }

    def _start(self, change: ScheduleChange, before: _Standing | None) -> Start:
        definition = self._definition(change)
        if before is None:
            return hand_over(definition, None, now=self._now)
        rearmed = before.before.once_done and any(one.field in REARMING for one in change.fields)
        return hand_over(definition, before.before, now=self._now, rearmed=rearmed)

    def _row(self, change: ScheduleChange, start: Start, before: _Standing | None) -> dict[str, object]:
        definition = self._definition(change)
        skips = before is not None and definition.kind is not TriggerKind.EVERY
        return {
            "name": change.name,
            "version": change.version,
            "hash": change.spelled.hash,
            "agent": change.agent,
            "definition": change.spelled.text,
            "source": change.source,
            "trigger": definition.kind.value,
            "cursor_us": to_us(start.cursor),
            "due_us": None if start.due is None else to_us(start.due),
            "skip_next": before.skip_next if before and skips else None,
            "once_done": start.once_done,
        }

    def _definition(self, change: ScheduleChange) -> ScheduleDefinition:
        """Return what is to be; the file does not say it for another file's schedule, whose agent has changed."""
        wanted = self._wanted.schedules.get(change.name)
        return wanted.definition if wanted else schedule_from_json(change.spelled.text)


def _before(trigger: str, cursor_us: int, due_us: int | None, once_done: object) -> Before:
    due = None if due_us is None else from_us(due_us)
    return Before(TriggerKind(trigger), from_us(cursor_us), due, bool(once_done))


def _chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), AT_ONCE):
        yield items[start : start + AT_ONCE]


def write_audit(
    tx: Transaction, tenant: str, *, actor: str, verb: str, subject: str, detail: Mapping[str, object]
) -> None:
    """Write down who did what, in the same transaction."""
    entry = {
        "tenant": tenant,
        "actor": storable(actor),
        "verb": verb,
        "subject": subject,
        "detail": json.dumps(detail),
    }
    tx.rows("write_audit", entries=json.dumps([entry]))
