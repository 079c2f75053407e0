"""Writes down the steps of an apply, many rows with each statement."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from fencepost.model.apply_steps import ApplyStep
from fencepost.model.definition import ScheduleDefinition, schedule_from_json
from fencepost.model.instants import from_us, to_us
from fencepost.model.registry_plan import fields_between
from fencepost.model.run import TriggerKind
from fencepost.model.version_handover import REARMING, Before, Start, hand_over
from fencepost.stores.transaction import Transaction


class _Standing(NamedTuple):
    """Where a schedule stands, what is left to skip, and what it was if it ran once and has."""

    before: Before
    skip_next: str | None
    definition: str | None


class Writing:
    """Writes steps of one apply down; all of them count from the instant at which it was decided."""

    def __init__(
        self,
        tx: Transaction,
        *,
        tenant: str,
        source: str,
        actor: str,
        now: datetime,
        parsed: Mapping[str, ScheduleDefinition] | None = None,
    ) -> None:
        self._tx = tx
        self._common = {"tenant": tenant, "source": source}
        self._tenant = tenant
        self._actor = actor
        self._now = now
        self._parsed = parsed or {}  # definitions that need not be read once more

    def write(self, step: ApplyStep) -> None:
        """Write one step down."""
        now_us, names = to_us(self._now), json.dumps(step.rows)
        match step.what:
            case "put_agents":
                self._tx.rows(
                    "put_agents", **self._common, now_us=now_us, actor=self._actor, rows=json.dumps(step.rows)
                )
            case "put_schedules":
                self._put(step.rows)
            case "retire_schedules":
                self._tx.rows("lock_schedules", tenant=self._tenant, names=names)
                self._tx.rows("retire_schedules", tenant=self._tenant, now_us=now_us, names=names)
                self._tx.rows("end_versions", tenant=self._tenant, names=names)
            case "retire_agents":
                self._tx.rows("retire_agents", tenant=self._tenant, now_us=now_us, names=names)
            case "move_agents" | "move_schedules":
                self._tx.rows(step.what, **self._common, names=names)
            case _:
                raise AssertionError(step.what)

    def _put(self, new: list[dict[str, Any]]) -> None:
        names = json.dumps([one["name"] for one in new])
        before = self._lock(names)
        rows = [self._row(one, before.get(one["name"])) for one in new]
        # We do not wait for these: the server may write them down while the next ones are spelled.
        self._tx.later("put_schedules", tenant=self._tenant, now_us=to_us(self._now), rows=json.dumps(rows))
        if before:
            self._tx.later("end_versions", tenant=self._tenant, names=names)
        self._tx.later("put_versions", tenant=self._tenant, actor=self._actor, names=names)

    def _lock(self, names: str) -> dict[str, _Standing]:
        """Keep tickers away from these schedules, and return where they stand."""
        return {
            name: _Standing(_before(*standing), skip_next, definition)
            for name, *standing, skip_next, definition in self._tx.rows(
                "lock_schedules", tenant=self._tenant, names=names
            )
        }

    def _row(self, new: dict[str, Any], before: _Standing | None) -> dict[str, object]:
        definition = self._parsed.get(new["name"]) or schedule_from_json(new["definition"])
        start = self._start(definition, new["definition"], before)
        skips = before is not None and definition.kind is not TriggerKind.EVERY
        return {
            **new,
            "trigger": definition.kind.value,
            "cursor_us": to_us(start.cursor),
            "due_us": None if start.due is None else to_us(start.due),
            "skip_next": before.skip_next if before and skips else None,
            "once_done": start.once_done,
        }

    def _start(self, definition: ScheduleDefinition, text: str, before: _Standing | None) -> Start:
        if before is None:
            return hand_over(definition, None, now=self._now)
        changes = fields_between(before.definition or "", text)
        rearmed = before.before.once_done and any(one.field in REARMING for one in changes)
        return hand_over(definition, before.before, now=self._now, rearmed=rearmed)


def _before(trigger: str, cursor_us: int, due_us: int | None, once_done: object) -> Before:
    due = None if due_us is None else from_us(due_us)
    return Before(TriggerKind(trigger), from_us(cursor_us), due, bool(once_done))
