"""An apply in steps: each is small enough to be written down while others wait, and all of them together are the plan.

First what a new schedule needs, its agent; then what goes, so that a schedule with a new name never runs beside the old
one; then what is new; last what nothing refers to any more.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from fencepost.model.registry_plan import ChangeKind, Plan

ROWS_AT_ONCE = 500  # in one transaction: others wait for it
NEW = (ChangeKind.ADDED, ChangeKind.CHANGED, ChangeKind.REVIVED)


class ApplyStep(NamedTuple):
    """Some of what an apply changes: rows as the store takes them, or names."""

    what: str
    rows: list[Any]


def steps_of(planned: Plan, rows_at_once: int) -> list[ApplyStep]:
    """Cut a plan into steps, in the order in which they are to be written down."""
    agents, schedules = _by_kind(planned.agents), _by_kind(planned.schedules)
    put_agents = [
        {"name": one.name, "hash": one.spelled.hash, "definition": one.spelled.text}
        for kind in NEW
        for one in agents[kind]
    ]
    put = [
        {
            "name": one.name,
            "version": one.version,
            "hash": one.spelled.hash,
            "agent": one.agent,
            "definition": one.spelled.text,
            "source": one.source,
        }
        for one in sorted((one for kind in NEW for one in schedules[kind]), key=lambda one: one.name)
    ]
    parts: list[tuple[str, list[Any]]] = [
        ("put_agents", put_agents),
        ("move_agents", _names(agents[ChangeKind.MOVED])),
        ("retire_schedules", sorted(_names(schedules[ChangeKind.RETIRED]))),
        ("put_schedules", put),
        ("move_schedules", _names(schedules[ChangeKind.MOVED])),
        ("retire_agents", _names(agents[ChangeKind.RETIRED])),
    ]
    return [ApplyStep(what, rows) for what, whole in parts for rows in _cut(whole, rows_at_once)]


def _by_kind(changes: Iterable[Any]) -> dict[ChangeKind, list[Any]]:
    found: dict[ChangeKind, list[Any]] = {kind: [] for kind in ChangeKind}
    for one in changes:
        found[one.kind].append(one)
    return found


def _names(changes: Iterable[Any]) -> list[str]:
    return [one.name for one in changes]


def _cut(rows: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
