"""Every statement that names a fence, one by one, on both stores: it touches nothing whose fence is another.

The verbs above them look more than once, so a condition that was left out in one statement would not show there.
"""

import json
import re
from collections import Counter
from typing import Any

import pytest

from fencepost.stores.lease_rows import freed, kept
from fencepost.stores.postgres import dialect as postgres
from fencepost.stores.sqlite import dialect as sqlite
from tests.stores.effect_scene import EffectScene

# Of each statement, the tables whose fence it compares with the one that it is given, and with + what must agree with them.
SAME = {
    "start_leases": "lease",
    "renew_leases": "lease",
    "lose_leases": "lease",
    "forget_leases": "lease",
    "leave_leases": "lease",
    "adopt_leases": "lease",
    "forget_lost": "lease",
    "free_resources": "resource",
    "settle_places": "resource",
    "start_runs": "run",
    "start_attempts": "attempt",
    "attempt_of": "attempt",
    "put_checkpoint": "run+lease",
    "note_session": "attempt run+lease",
    "put_completion": "run",
    "begun_of_lease": "attempt",
    "settle_runs": "run",
    "end_attempts": "attempt",
    "settle_batch": "run",
    "end_batch": "attempt",
    "stops_asked": "run",
    "ledger_begin": "lease",
    "lock_ledger_lease": "lease",
    "ledger_asked": "lease",
    "ledger_complete": "ledger lease",
    "ledger_doubt": "ledger lease",
    "ledger_release": "ledger lease",
    "ledger_take_over": "lease",
    "ledger_settle_doubt": "lease",
    "move_tick_record": "guarded_tick",
    "note_command": "lease",
    "end_command": "guarded_command",
    "drop_command": "guarded_command",
}
ABOVE = ("take_resources", "lift_places")  # these may only lift it
# The verbs of a keeper: these compare the epoch of the lease as well, so that a worker whose run was adopted does nothing.
KEPT = (
    "start_leases",
    "renew_leases",
    "lose_leases",
    "forget_leases",
    "leave_leases",
    "adopt_leases",
    "put_checkpoint",
    "note_session",
    "ledger_begin",
    "lock_ledger_lease",
    "ledger_asked",
    "ledger_complete",
    "ledger_doubt",
    "ledger_release",
    "ledger_take_over",
    "ledger_settle_doubt",
)
BEFORE = {
    "forget_lost": "UPDATE $lease SET state = 'lost'",
    "stops_asked": "UPDATE $run SET stop = 'cancelled'",
    "adopt_leases": "UPDATE $lease SET keeper = 'worker'",
    "note_command": "DELETE FROM $guarded_command",
}
ENDED = {
    "state": "succeeded",
    "reason": None,
    "ready_us": None,
    "steps_back": False,
    "refund": 0,
    "resume": False,
    "exit_code": 0,
    "cost_micro": 5,
    "summary": "said",
    "log": "path",
    "outcome": "succeeded",
    "last_log": "the end",
    "session": None,
    "turns": 1,
    "usage": None,
    "never_began": False,
    "began": True,
}
NEEDED = {"ledger_begin": "another"}  # the key of an effect, where it must not be known yet


@pytest.mark.parametrize(
    ("name", "table"), [(name, table) for name, tables in SAME.items() for table in tables.split()]
)
def test_a_statement_touches_nothing_that_has_another_fence(scene: EffectScene, name: str, table: str) -> None:
    def act(tx: Any) -> None:  # noqa: ANN401  # of either dialect
        if name in BEFORE:
            scene.by_hand(tx, BEFORE[name])
        lift(scene, tx, table, "+ 1")
        before = scene.contents(tx)
        assert carried_out(scene, tx, name) == []
        assert scene.contents(tx) == before

        lift(scene, tx, table, "- 1")
        before = scene.contents(tx)
        assert carried_out(scene, tx, name) or scene.contents(tx) != before, "with its own fence it does its work"

    scene.play(act)


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("epoch", [1, -1])
def test_a_statement_touches_nothing_that_has_another_epoch(scene: EffectScene, name: str, epoch: int) -> None:
    def act(tx: Any) -> None:  # noqa: ANN401  # of either dialect
        if name in BEFORE:
            scene.by_hand(tx, BEFORE[name])
        scene.by_hand(tx, f"UPDATE $lease SET epoch = epoch + {epoch}")
        before = scene.contents(tx)
        assert carried_out(scene, tx, name) == []
        assert scene.contents(tx) == before

    scene.play(act)


@pytest.mark.parametrize("name", ABOVE)
def test_the_fence_of_a_resource_only_rises(scene: EffectScene, name: str) -> None:
    def act(tx: Any) -> None:  # noqa: ANN401  # of either dialect
        before = scene.contents(tx)
        assert carried_out(scene, tx, name) == []
        assert scene.contents(tx) == before
        assert carried_out(scene, tx, name, above=1)

    scene.play(act)


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_no_statement_that_names_a_fence_is_left_out_here(dialect: str) -> None:
    of_postgres = {name: text.decode() for name, text in postgres.STATEMENTS.complete().items()}
    texts = dict(sqlite.STATEMENTS.complete()) if dialect == "sqlite" else of_postgres
    found = {name: Counter(conditions(text)) for name, text in texts.items()}
    for name, tables in SAME.items():
        assert found.pop(name) == {"=": len(tables.split())}, name
    for name in ABOVE:
        assert found.pop(name) == {"<": 1}, name
    assert found.pop("ledger_unreplayed") == {"<": 1}, "what is asked again at a restart: see test_ledger.py"
    assert {name: some for name, some in found.items() if some} == {}
    assert {name for name, text in texts.items() if re.search(r"\bepoch\b(?! FROM)", text)} == {*KEPT}


def lift(scene: EffectScene, tx: Any, tables: str, by: str) -> None:  # noqa: ANN401  # of either dialect
    for table in tables.split("+"):
        scene.by_hand(tx, f"UPDATE ${table} SET fence = fence {by}")


def conditions(text: str) -> list[str]:
    """Return how a statement compares fences with the one it is given."""
    lines = [line for line in text.splitlines() if not line.startswith("--")]
    _, _, where = "\n".join(lines).partition("WHERE")
    given = r"(?::fence|%\(fence\)s|excluded\.fence|freed\.fence|one\.fence|\(given\.)(?!,)"
    listed = r"\(id, fence, epoch\) (?=IN \(SELECT)"
    return [found or "=" for found in re.findall(rf"fence (=|<|>|<=|>=|<>) {given}|{listed}", where)]


def carried_out(scene: EffectScene, tx: Any, name: str, *, above: int = 0) -> list[Any]:  # noqa: ANN401  # of either dialect
    lease, run = scene.leased.lease, scene.leased.run
    values = {
        "id": lease.id,
        "run_id": run.id,
        "ids": json.dumps([run.id]),
        "lease_id": lease.id,
        "fence": lease.fence + above,
        "epoch": lease.epoch,
        "adopt_keys": "{}",
        "outcome": "succeeded",
        "keeper": "another",
        "leave_us": 1,
        "tenant": lease.tenant,
        "starting": json.dumps({run.id: {"fence": lease.fence, "session": "abc"}}),
        "ended": json.dumps(
            {"ids": [[run.id]], "given": [{**ENDED, "lease_id": lease.id, "fence": lease.fence}]},
        ),
        "keys": json.dumps([[lease.tenant, resource] for resource in lease.resources]),
        "leases": kept([lease._replace(fence=lease.fence + above)]),
        "taken": json.dumps(freed(lease._replace(fence=lease.fence + above), ())),
        "freed": json.dumps(freed(lease._replace(fence=lease.fence + above), ())),
        "scope": "",
        "key": NEEDED.get(name, "invoice"),
        "call": "call-1",
        "seen": "call-1",
        "by": "probe",
        "answer": "17",
        "doubt": "who knows",
        "why": "because",
        "owed_gates": "[]",
        "session": "abc",
        "content": "{}",
        "state": "succeeded",
        "exit_code": 0,
        "resource": lease.resources[0],
        "job": "digest",
        "record": '{"state": "succeeded"}',
    }
    return list(tx.rows(name, **values))
