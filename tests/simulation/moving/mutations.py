"""Mistakes on purpose in moving a tenant: each takes one rule away, and the simulator must notice."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest.mock import patch

from fencepost.config import find
from fencepost.stores import maintenance, requests
from tests.simulation.moving.play import simulate_moves
from tests.simulation.mutations import _sql
from tests.simulation.promises import until_broken
from tests.simulation.world import Violation

Patches = Sequence[AbstractContextManager[object]]

LEFT = "\n   AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'moved:' || :tenant)"


def mutations() -> dict[str, Callable[[], Patches]]:
    """Return every mistake, by what it does."""
    return {
        "fences begin anew in the new store": lambda: [
            patch.object(maintenance, "lift", lambda _, above: above),
            _sql(import_resource=(":fence, :owed_gates", "0, :owed_gates")),
        ],
        "it leaves while it runs something": lambda: [_sql(held_by=("state = 'held'", "state = 'gone'"))],
        "it is not halted where it was": lambda: [_sql(put_pause=(":until_us", ":since_us"))],
        "requests are taken where it was": _requests_taken,
        "the map is not read": lambda: [patch.object(find, "_store_of", lambda settings, *_: settings.get("store"))],
        "it does not come back to life": lambda: [patch.object(maintenance, "come_back", lambda *_: None)],
        "the audit is numbered without a memory": lambda: [
            patch.object(maintenance, "_numbered_anew", _forget_the_number)
        ],
    }


def seeds_until_caught(patches: Callable[[], Patches], limit: int) -> tuple[int, Violation | None]:
    """Try seeds with the mistake in place; return how many it took, and what noticed it."""
    with ExitStack() as stack:
        for one in patches():
            stack.enter_context(one)
        return until_broken(simulate_moves(seed) for seed in range(limit))


def _requests_taken() -> Patches:
    return [
        patch.object(requests, "check_stays", lambda *_: None),
        _sql(schedule_to_run=(LEFT, ""), agent_to_run=(LEFT, "")),
    ]


def _forget_the_number(table: str, row: Mapping[str, Any]) -> Mapping[str, Any]:
    number = maintenance.NUMBERED.get(table)
    return {name: value for name, value in row.items() if name != number}
