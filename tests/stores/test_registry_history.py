"""Edits between ticks, in any order: each version answers for exactly the ticks of its own stretch of time."""

from collections import Counter
from dataclasses import replace
from itertools import count, pairwise
from random import Random  # noqa: TID251  # seeded, to be repeated

import pytest

from fencepost.flow.ticker import Ticker
from fencepost.model.definition import AgentDefinition, ScheduleDefinition, schedule_from_json, trigger_of
from fencepost.model.instants import from_us
from fencepost.model.missed import INSTANT
from fencepost.model.registry_plan import want
from fencepost.model.trigger import EveryTrigger
from fencepost.ports.registry import VersionRow
from fencepost.stores.registry import SqlRegistry
from fencepost.stores.runtime import RuntimeStore
from tests.stores.rig import Rig

ECHO = AgentDefinition("echo", command=("echo",))
BASE = ScheduleDefinition("edited", "echo", cron="*/7 * * * *", timezone="Europe/Berlin", overlap="allow_parallel")
CRONS = ("*/7 * * * *", "*/20 * * * *", "13 * * * *", "* * * * *", "0 */2 * * *", "59 23 * * *")
STEPS = 60

_numbers = count(1)


class History:
    """One schedule that is edited, retired, revived and ticked as a dice says."""

    def __init__(self, rig: Rig, seed: int) -> None:
        self.rig, self.dice = rig, Random(seed)
        self.tenant = f"history-{next(_numbers)}"
        self.store = RuntimeStore(rig.store)
        self.registry = SqlRegistry(rig.store.dialect)
        self.schedule = BASE

    def apply(self, *schedules: ScheduleDefinition) -> None:
        named = {one.name: one for one in schedules}
        self.registry.apply(want(self.tenant, "/f.toml", agents={"echo": ECHO}, schedules=named), actor="me")

    def step(self) -> None:
        match self.dice.choice(["tick", "tick", "wait", "wait", "edit", "agent", "retire", "disable"]):
            case "tick":
                while Ticker(self.store, lambda: f"{self.tenant}-{next(_numbers)}").step():
                    pass
            case "wait":
                self.rig.pass_time(self.dice.choice([1, 59, 60, 600, 3599, 86_400]))
            case "edit":
                self.schedule = replace(self.schedule, cron=self.dice.choice(CRONS), enabled=True)
                self.apply(self.schedule)
            case "agent":
                self.schedule = replace(self.schedule, priority=self.dice.randrange(100))
                self.apply(self.schedule)
            case "retire":
                self.apply()
            case "disable":
                self.apply(replace(self.schedule, enabled=False))

    def recorded(self) -> Counter[int]:
        """Return how many ticks each version has answered for."""
        rows = self.rig.store.care().export(lambda snapshot: list(snapshot.rows))
        found: Counter[int] = Counter()
        for table, row in rows:
            if table == "tick" and row["tenant"] == self.tenant:
                found[row["version"]] += row["count"]
        return found

    def owed(self, version: VersionRow, cursor_us: int) -> int:
        """Count the ticks of a version by its own definition and stretch of time alone."""
        definition = schedule_from_json(version.definition)
        until_us = cursor_us if version.until_us is None else version.until_us
        if not definition.enabled or until_us <= version.after_us:
            return 0
        trigger = trigger_of(definition)
        assert not isinstance(trigger, EveryTrigger)
        return trigger.count_between(from_us(version.after_us) + INSTANT, from_us(until_us) + INSTANT)


@pytest.mark.parametrize("seed", range(6))
def test_every_version_answers_for_its_own_ticks_and_no_others(rig: Rig, seed: int) -> None:
    history = History(rig, seed)
    history.apply(history.schedule)
    for _ in range(STEPS):
        history.step()

    (row,) = history.registry.schedule(history.tenant, "edited").schedules
    versions = history.registry.versions(history.tenant, "edited", limit=999)[::-1]
    assert [one.version for one in versions] == list(range(1, len(versions) + 1))
    for earlier, later in pairwise(versions):
        assert earlier.until_us is not None
        assert earlier.after_us <= earlier.until_us <= later.after_us
    recorded = history.recorded()
    assert {one.version: history.owed(one, row.cursor_us) for one in versions} == {
        one.version: recorded[one.version] for one in versions
    }
