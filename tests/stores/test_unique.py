"""What must not be there twice is refused by the store itself, whoever writes it and whatever was looked at before."""

from typing import Any

import pytest

from tests.stores.effect_scene import EffectScene

# For each key: its table, what is set beforehand, and what differs in the second row.
KEYS: dict[str, tuple[str, str, dict[str, str]]] = {
    "a tick": ("tick", "", {"run_id": "'another'"}),
    "a run of a tick": ("run", "", {"id": "'another'"}),
    "a run of a request": ("run", "UPDATE $run SET request_key = 'k', trigger = 'manual'", {"id": "'another'"}),
    "a run": ("run", "UPDATE $run SET trigger = 'manual'", {"agent": "'another'"}),
    "an attempt": ("attempt", "", {"number": "number + 1"}),
    "a lease": ("lease", "", {"run_id": "'another'"}),
    "a resource": ("resource", "", {"fence": "fence + 1"}),
    "an effect": ("ledger", "", {"call": "'another'"}),
    "a version of a schedule": ("schedule_version", "", {"until_us": "1"}),
}


@pytest.mark.parametrize("name", KEYS)
def test_the_store_refuses_a_second_one_of(scene: EffectScene, name: str) -> None:
    table, first, differs = KEYS[name]

    def act(tx: Any) -> None:  # noqa: ANN401  # of either dialect
        if first:
            scene.by_hand(tx, first)
        columns = scene.columns(tx, table)
        assert columns
        assert len(scene.by_hand(tx, f"SELECT * FROM ${table}")) == 1
        values = ", ".join(differs.get(column, column) for column in columns)
        scene.by_hand(tx, f"INSERT INTO ${table} ({', '.join(columns)}) SELECT {values} FROM ${table}")

    with pytest.raises(Exception, match=r"UNIQUE|duplicate|unique"):
        scene.play(act)
