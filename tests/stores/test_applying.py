"""A large apply on both stores: it holds others up for a step at most, and is all there or not at all, whoever is killed."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.ports.ticks import Around, DueSchedule, TickPlan
from fencepost.stores import applying
from fencepost.stores.registry import SqlRegistry
from fencepost.stores.ticks import SqlTicks
from fencepost.stores.transaction import Dialect, Transaction
from tests.stores.rig import Rig
from tests.stores.test_registry import ECHO, HOURLY, Registry

AT_ONCE = 7
OLD = [replace(HOURLY, name=f"old-{number:02}") for number in range(20)]
NEW = [replace(HOURLY, name=f"new-{number:02}") for number in range(30)]
LATER = replace(ECHO, timeout="2h")
HOUR = 3600
Things = AgentDefinition | ScheduleDefinition


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


class Watched:
    """A dialect that notes what each writing transaction does, and dies at one of them, before or after its commit."""

    def __init__(self, real: Dialect, *, dies_at: int = -1, after: bool = False) -> None:
        self._real = real
        self._dies_at, self._after = dies_at, after
        self.rows_written: list[int] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever else a dialect has
        return getattr(self._real, name)

    def write(self, work: Callable[[Transaction], Any], /, **how: bool) -> Any:  # noqa: ANN401  # what work returns
        number = len(self.rows_written)
        if number > self._dies_at >= 0 or (number == self._dies_at and not self._after):
            raise Killed
        self.rows_written.append(0)
        answer = self._real.write(lambda tx: work(_Noting(tx, self.rows_written)), **how)
        if number == self._dies_at:
            raise Killed
        return answer


class _Noting:
    def __init__(self, tx: Transaction, rows: list[int]) -> None:
        self._tx, self._rows = tx, rows

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # the transaction's own
        return getattr(self._tx, name)

    def rows(self, name: str, /, **values: object) -> Any:  # noqa: ANN401  # as the transaction returns them
        return self.later(name, **values)()

    def later(self, name: str, /, **values: object) -> Any:  # noqa: ANN401  # likewise
        if name in ("stage_step", "put_schedules", "put_agents", "retire_schedules", "move_schedules"):
            self._rows[-1] += len(json.loads(str(values.get("rows") or values.get("names"))))
        return self._tx.later(name, **values)


@pytest.fixture
def registry(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setattr(applying, "ROWS_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(applying, "STAGED_AT_ONCE", 1)
    monkeypatch.setattr(applying, "HOLD_US", 0)  # as on a machine on which every step is slow
    found = Registry(rig)
    found.apply(ECHO, *OLD)
    yield found
    applying.finish(rig.store.dialect, found.tenant)  # what a test has left undone would hold up the next one's ticks


def apply_by(registry: Registry, watched: Watched, *things: Things) -> None:
    SqlRegistry(watched).apply(registry.wanted(*things), actor="me")


def test_no_transaction_of_a_large_apply_writes_more_than_a_step(registry: Registry) -> None:
    watched = Watched(registry.rig.store.dialect)
    apply_by(registry, watched, LATER, *OLD[:5], *NEW)
    assert registry.names() == sorted(one.name for one in (*OLD[:5], *NEW))
    assert max(watched.rows_written) == AT_ONCE
    assert len(watched.rows_written) > 2 * 50 / AT_ONCE


def test_quick_steps_share_a_transaction(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "STAGED_AT_ONCE", 3)
    monkeypatch.setattr(applying, "WRITTEN_AT_ONCE", 2)
    monkeypatch.setattr(applying, "HOLD_US", 3600 * 1_000_000)
    watched = Watched(registry.rig.store.dialect)
    apply_by(registry, watched, LATER, *NEW)
    assert registry.names() == sorted(one.name for one in NEW)
    # Steps of 1, 7, 7, 6, 7, 7, 7, 7 and 2: staged three by three, decided, and written down two by two.
    assert watched.rows_written == [15, 20, 16, 0, 8, 13, 14, 14, 2]


def test_a_file_that_changes_little_of_much_writes_little(registry: Registry) -> None:
    watched = Watched(registry.rig.store.dialect)
    apply_by(registry, watched, ECHO, replace(OLD[0], cron="1 * * * *"), *OLD[1:])
    apply_by(registry, watched, ECHO, replace(OLD[0], cron="1 * * * *"), *OLD[1:])
    assert watched.rows_written == [1]


@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "after it"])
def test_an_apply_that_is_killed_anywhere_is_all_there_or_not_at_all(registry: Registry, *, after: bool) -> None:
    old, new = [one.name for one in OLD], [one.name for one in NEW]
    seen = set()
    for dies_at in range(100):
        registry.apply(ECHO, *OLD)
        watched = Watched(registry.rig.store.dialect, dies_at=dies_at, after=after)
        with suppress(Killed):
            apply_by(registry, watched, ECHO, *NEW)
            break
        decided = bool(registry.rows("applying"))
        found = registry.names()
        assert decided or found in (old, new)

        applying.finish(registry.rig.store.dialect, registry.tenant)

        assert registry.names() == (new if decided else found)
        assert registry.rows("applying") == []
        seen.add(decided)
    assert seen == {True, False}
    assert registry.names() == new


def test_no_tick_is_decided_while_half_of_an_apply_is_old_and_the_ticker_brings_it_to_its_end(
    registry: Registry,
) -> None:
    with pytest.raises(Killed):
        apply_by(registry, Watched(registry.rig.store.dialect, dies_at=10), ECHO, *NEW)
    assert len(registry.rows("applying")) == 1
    before = set(registry.names())
    assert before.intersection(one.name for one in OLD)
    registry.rig.pass_time(HOUR)
    due: list[str] = []

    def decide(found: Sequence[DueSchedule], _: Around) -> list[TickPlan]:
        due.extend(one.name for one in found if one.tenant == registry.tenant)
        return []

    while registry.rows("applying"):
        assert due == []
        SqlTicks(registry.rig.store.dialect, "any").tick(10_000, decide)
    SqlTicks(registry.rig.store.dialect, "any").tick(10_000, decide)

    assert registry.names() == [one.name for one in NEW]
    assert sorted(due) == registry.names()


def test_what_was_staged_for_nothing_is_thrown_away_by_the_next_apply_after_an_hour(registry: Registry) -> None:
    with pytest.raises(Killed):
        apply_by(registry, Watched(registry.rig.store.dialect, dies_at=3), ECHO, *NEW)
    assert len(registry.rows("apply_step")) == 3
    registry.apply(ECHO, *OLD)
    assert len(registry.rows("apply_step")) == 3  # its process may only be slow
    registry.rig.pass_time(HOUR + 1)

    registry.apply(ECHO, *OLD)

    assert registry.rows("apply_step") == []


def test_an_apply_whose_staged_steps_were_thrown_away_starts_over(registry: Registry) -> None:
    real = registry.rig.store.dialect

    class Slow(Watched):
        def write(self, work: Callable[[Transaction], Any], /, **how: bool) -> Any:  # noqa: ANN401  # as above
            if len(self.rows_written) == 3:
                registry.rig.pass_time(HOUR + 1)
                registry.apply(ECHO, *OLD)
            return super().write(work, **how)

    apply_by(registry, Slow(real), ECHO, *NEW)
    assert registry.names() == [one.name for one in NEW]
    assert registry.rows("apply_step") == []
