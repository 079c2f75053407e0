"""The registry on both stores: what an apply leaves behind, and what operators may say about it."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.errors import Invalid
from fencepost.model.instants import FOREVER_US, from_us, to_us
from fencepost.model.registry_plan import Wanted, want
from fencepost.ports.registry import Applied, ScheduleRow
from fencepost.stores import applying
from fencepost.stores.registry import SqlRegistry
from tests.stores.rig import Rig, everything

HERE, THERE = "/here/fencepost.toml", "/there/fencepost.toml"
ECHO = AgentDefinition("echo", command=("echo", "hi"))
HOURLY = ScheduleDefinition("hourly", "echo", cron="0 * * * *", timezone="UTC")
HOUR_US = 3600 * 1_000_000

_tenants = count(1)


class Registry:
    """A tenant of its own in a registry, with the words that these tests use."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.tenant = f"tenant-{next(_tenants)}"
        self.verbs = SqlRegistry(rig.store.dialect)

    def wanted(self, *things: AgentDefinition | ScheduleDefinition, source: str = HERE) -> Wanted:
        agents = {one.name: one for one in things if isinstance(one, AgentDefinition)}
        schedules = {one.name: one for one in things if isinstance(one, ScheduleDefinition)}
        return want(self.tenant, source, agents=agents, schedules=schedules)

    def apply(
        self, *things: AgentDefinition | ScheduleDefinition, source: str = HERE, take_over: bool = False
    ) -> Applied:
        return self.verbs.apply(self.wanted(*things, source=source), actor="me", take_over=take_over)

    def row(self, name: str = "hourly") -> ScheduleRow:
        return self.verbs.schedule(self.tenant, name).schedules[0]

    def names(self) -> list[str]:
        return [row.name for row in self.verbs.schedules(self.tenant, limit=100).schedules]

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return what a table holds of this tenant."""
        found = self.rig.store.care().export(lambda snapshot: list(snapshot.rows))
        return [dict(row) for name, row in found if name == table and row["tenant"] == self.tenant]

    def audit(self) -> list[tuple[str, str]]:
        return [(row["verb"], row["subject"]) for row in self.rows("audit")]

    def set(self, name: str, **values: int | None) -> None:
        """Put a schedule where a ticker would have left it."""
        self.rig.store.dialect.write(lambda tx: _poke(tx, self.tenant, name, values))


def _poke(tx: Any, tenant: str, name: str, values: dict[str, int | None]) -> None:  # noqa: ANN401
    prefix, mark = ("", "?") if type(tx).__name__.startswith("Sqlite") else ("fencepost.", "%s")
    for column, value in values.items():
        statement = f"UPDATE {prefix}schedule SET {column} = {mark} WHERE tenant = {mark} AND name = {mark}"
        tx._connection.execute(statement, (value, tenant, name))


@pytest.fixture
def registry(rig: Rig) -> Registry:
    return Registry(rig)


def now_us(registry: Registry) -> int:
    return registry.rig.now_us()


def test_a_first_apply_keeps_agents_schedules_and_versions(registry: Registry) -> None:
    registry.apply(ECHO, HOURLY)
    row = registry.row()
    assert (row.version, row.agent, row.source, row.trigger) == (1, "echo", HERE, "cron")
    assert row.cursor_us == now_us(registry)
    assert row.due_us == (now_us(registry) // HOUR_US + 1) * HOUR_US
    assert json.loads(row.manifest) == {"command": ["echo", "hi"], "name": "echo"}
    (version,) = registry.verbs.versions(registry.tenant, "hourly", limit=9)
    assert (version.version, version.after_us, version.until_us) == (1, row.cursor_us, None)
    assert (version.hash, version.manifest_hash) == (row.hash, row.manifest_hash)
    assert registry.audit() == [("apply", f"file:{HERE}")]


def test_every_version_says_who_made_it_and_when_and_its_schedule_which_file_owns_it(registry: Registry) -> None:
    first = now_us(registry)
    registry.apply(ECHO, HOURLY)
    registry.rig.pass_time(60)
    registry.apply(ECHO, replace(HOURLY, cron="30 * * * *"))
    newest, oldest = registry.verbs.versions(registry.tenant, "hourly", limit=9)
    assert (oldest.applied_by, oldest.applied_us) == ("me", first)
    assert (newest.applied_by, newest.applied_us) == ("me", first + 60_000_000)
    assert registry.row().source == HERE


def test_the_same_file_again_writes_nothing(registry: Registry) -> None:
    registry.apply(ECHO, HOURLY)
    before = everything(registry.rig.store)
    registry.rig.pass_time(1000)
    assert not registry.apply(ECHO, HOURLY).plan.changes_anything
    assert everything(registry.rig.store) == before


def test_an_edit_ends_the_old_version_where_the_new_one_begins(registry: Registry) -> None:
    registry.apply(ECHO, HOURLY)
    registry.rig.pass_time(60)
    registry.apply(ECHO, replace(HOURLY, cron="30 * * * *"))
    newest, oldest = registry.verbs.versions(registry.tenant, "hourly", limit=9)
    assert (newest.version, oldest.version) == (2, 1)
    assert oldest.until_us == newest.after_us == now_us(registry)
    assert newest.until_us is None


def test_an_edit_keeps_owed_ticks_for_the_new_version(registry: Registry) -> None:
    registry.apply(ECHO, HOURLY)
    first = registry.row()
    registry.rig.pass_time(2 * 3600)
    registry.apply(ECHO, replace(HOURLY, overlap="queue"))
    assert (registry.row().cursor_us, registry.row().due_us) == (first.cursor_us, first.due_us)


def test_the_cursor_never_goes_back(registry: Registry) -> None:
    registry.apply(ECHO, HOURLY)
    ahead = now_us(registry) + 10 * HOUR_US
    registry.set("hourly", cursor_us=ahead, due_us=ahead + HOUR_US)
    registry.apply(ECHO, replace(HOURLY, overlap="queue"))
    assert registry.row().cursor_us == ahead


def test_what_counts_the_past_is_kept_over_an_edit(registry: Registry) -> None:
    registry.apply(ECHO, HOURLY)
    registry.set("hourly", failures=3, last_success_us=7)
    registry.verbs.skip_next(registry.tenant, "hourly", 2, actor="me")
    registry.apply(ECHO, replace(HOURLY, overlap="queue"))
    row = registry.row()
    assert (row.failures, row.last_success_us) == (3, 7)
    assert row.skip_next is not None


def test_a_changed_agent_gives_each_of_its_schedules_a_version_with_the_new_manifest(registry: Registry) -> None:
    other = replace(HOURLY, name="other")
    registry.apply(ECHO, HOURLY, other)
    registry.apply(replace(ECHO, command=("echo", "ho")), HOURLY, other)
    for name in ("hourly", "other"):
        assert registry.row(name).version == 2
        assert json.loads(registry.row(name).manifest)["command"] == ["echo", "ho"]
    first = registry.verbs.versions(registry.tenant, "other", limit=9)[1]
    assert json.loads(first.manifest)["command"] == ["echo", "hi"]


def test_what_the_file_no_longer_defines_is_retired_and_comes_back_without_firing_again(registry: Registry) -> None:
    registry.apply(ECHO, HOURLY)
    registry.rig.pass_time(60)
    registry.apply(ECHO)
    retired = registry.row()
    assert (retired.retired_us, retired.due_us) == (now_us(registry), None)
    assert registry.names() == []
    registry.rig.pass_time(100 * 3600)
    registry.apply(ECHO, HOURLY)
    back = registry.row()
    assert (back.version, back.retired_us) == (2, None)
    assert back.cursor_us == now_us(registry)
    assert back.due_us is not None
    assert back.due_us > now_us(registry)
    newest, oldest = registry.verbs.versions(registry.tenant, "hourly", limit=9)
    assert oldest.until_us is not None
    assert oldest.until_us < newest.after_us


def test_two_files_may_not_define_one_name_and_nothing_of_the_second_is_kept(registry: Registry) -> None:
    registry.apply(ECHO, HOURLY)
    before = everything(registry.rig.store)
    with pytest.raises(Invalid, match="2 conflicts; nothing was changed") as refused:
        registry.apply(ECHO, HOURLY, replace(HOURLY, name="new"), source=THERE)
    assert HERE in str(refused.value)
    assert THERE in str(refused.value)
    assert everything(registry.rig.store) == before


def test_taking_over_moves_ownership_without_a_new_version(registry: Registry) -> None:
    registry.apply(ECHO, HOURLY)
    registry.apply(ECHO, HOURLY, source=THERE, take_over=True)
    assert (registry.row().source, registry.row().version) == (THERE, 1)
    registry.apply(source=HERE)
    assert registry.names() == ["hourly"]


def test_an_agent_that_another_file_runs_may_change_but_not_go(registry: Registry) -> None:
    registry.apply(ECHO)
    registry.apply(HOURLY, source=THERE)
    with pytest.raises(Invalid, match='agent "echo" is gone'):
        registry.apply()
    registry.apply(replace(ECHO, timeout="2h"))
    assert (registry.row().version, registry.row().source) == (2, THERE)


def test_tenants_do_not_see_one_another(rig: Rig) -> None:
    mine, theirs = Registry(rig), Registry(rig)
    mine.apply(ECHO, HOURLY)
    theirs.apply(replace(ECHO, timeout="2h"), replace(HOURLY, name="secret"), source=THERE)
    assert mine.names() == ["hourly"]
    assert theirs.names() == ["secret"]
    assert mine.verbs.schedule(mine.tenant, "secret").schedules == []
    theirs.verbs.halt(theirs.tenant, note="", actor="me")
    assert mine.verbs.schedules(mine.tenant, limit=9).pauses == []
    with pytest.raises(Invalid, match="no schedule"):
        mine.verbs.pause(mine.tenant, "secret", until=None, note="", actor="me")
    mine.apply()
    assert theirs.names() == ["secret"]


def test_a_tenant_is_known_from_its_first_definition_on(registry: Registry) -> None:
    assert not registry.verbs.has_tenant(registry.tenant)
    registry.apply(ECHO)
    assert registry.verbs.has_tenant(registry.tenant)
    assert not registry.verbs.has_tenant(f"{registry.tenant}-x")
    assert registry.tenant in registry.verbs.tenants()


def test_a_disabled_schedule_has_no_ticks_and_owes_none_for_that_time(registry: Registry) -> None:
    registry.apply(ECHO, replace(HOURLY, enabled=False))
    assert registry.row().due_us is None
    registry.rig.pass_time(50 * 3600)
    registry.apply(ECHO, HOURLY)
    assert registry.row().cursor_us == now_us(registry)


def test_the_first_every_is_due_at_apply_and_a_changed_one_is_looked_at_once(registry: Registry) -> None:
    often = ScheduleDefinition("often", "echo", every="15m")
    registry.apply(ECHO, often)
    assert registry.row("often").due_us == now_us(registry)
    registry.set("often", due_us=None)
    registry.rig.pass_time(60)
    registry.apply(ECHO, replace(often, every="1h"))
    assert registry.row("often").due_us == now_us(registry)


def test_once_stays_done_until_its_trigger_changes(registry: Registry) -> None:
    once = replace(HOURLY, once=True)
    registry.apply(ECHO, once)
    registry.set("hourly", due_us=None, once_done=True)
    registry.apply(ECHO, replace(once, overlap="queue"))
    assert (registry.row().once_done, registry.row().due_us) == (True, None)
    registry.apply(ECHO, replace(once, cron="30 * * * *"))
    assert registry.row().once_done is False
    assert registry.row().due_us is not None


def test_a_pause_leaves_the_next_tick_where_it_is(registry: Registry) -> None:
    registry.apply(ECHO, HOURLY)
    due = registry.row().due_us
    paused = registry.verbs.pause(registry.tenant, "hourly", until=None, note="a\0b", actor="me")
    assert (paused.until_us, paused.note) == (FOREVER_US, "a?b")
    assert registry.row().due_us == due
    (shown,) = registry.verbs.schedule(registry.tenant, "hourly").pauses
    assert shown == paused


def test_a_resumed_pause_is_kept_with_its_end(registry: Registry) -> None:
    registry.apply(ECHO, HOURLY)
    paused = registry.verbs.pause(registry.tenant, "hourly", until=None, note="", actor="me")
    registry.rig.pass_time(60)
    (ended,) = registry.verbs.resume(registry.tenant, "hourly", actor="me")
    assert ended == paused._replace(until_us=now_us(registry))
    assert registry.verbs.schedule(registry.tenant, "hourly").pauses == []
    assert registry.verbs.pauses(registry.tenant, "hourly", limit=9) == [ended]
    assert registry.verbs.resume(registry.tenant, "hourly", actor="me") == []
    assert registry.audit()[1:] == [("pause", "schedule:hourly"), ("resume", "schedule:hourly")]


def test_a_second_pause_takes_the_place_of_the_first_without_a_gap(registry: Registry) -> None:
    registry.apply(ECHO, HOURLY)
    registry.verbs.pause(registry.tenant, "hourly", until=None, note="one", actor="me")
    registry.rig.pass_time(60)
    until = from_us(now_us(registry)) + timedelta(hours=1)
    registry.verbs.pause(registry.tenant, "hourly", until=until, note="two", actor="me")
    second, first = registry.verbs.pauses(registry.tenant, "hourly", limit=9)
    assert first.until_us == second.since_us
    assert second.until_us == to_us(until)
    registry.rig.pass_time(3600)
    assert registry.verbs.schedule(registry.tenant, "hourly").pauses == []


def test_a_pause_into_the_past_is_refused(registry: Registry) -> None:
    registry.apply(ECHO, HOURLY)
    with pytest.raises(Invalid, match="not in the future"):
        registry.verbs.pause(registry.tenant, "hourly", until=datetime(2020, 1, 1, tzinfo=UTC), note="", actor="me")
    assert registry.verbs.pauses(registry.tenant, "hourly", limit=9) == []


def test_a_halt_is_a_pause_of_everything(registry: Registry) -> None:
    registry.apply(ECHO, HOURLY)
    halted = registry.verbs.halt(registry.tenant, note="stop", actor="me")
    assert halted.schedule == ""
    assert registry.verbs.schedules(registry.tenant, limit=9).pauses == [halted]
    assert len(registry.verbs.unhalt(registry.tenant, actor="me")) == 1
    assert registry.verbs.unhalt(registry.tenant, actor="me") == []
    assert registry.audit()[1:] == [("halt", "everything"), ("unhalt", "everything")]


def test_skip_next_is_kept_until_the_ticker_uses_it_and_0_takes_it_back(registry: Registry) -> None:
    registry.apply(ECHO, HOURLY)
    registry.verbs.skip_next(registry.tenant, "hourly", 2, actor="me")
    assert json.loads(registry.row().skip_next or "") == {"asked_us": now_us(registry), "left": 2}
    registry.verbs.skip_next(registry.tenant, "hourly", 0, actor="me")
    assert registry.row().skip_next is None


def test_every_has_no_next_tick_to_skip(registry: Registry) -> None:
    registry.apply(ECHO, ScheduleDefinition("often", "echo", every="15m"))
    with pytest.raises(Invalid, match="no next tick to skip"):
        registry.verbs.skip_next(registry.tenant, "often", 1, actor="me")


@pytest.mark.parametrize(
    "verb",
    [
        lambda verbs, tenant, name: verbs.pause(tenant, name, until=None, note="", actor="me"),
        lambda verbs, tenant, name: verbs.resume(tenant, name, actor="me"),
        lambda verbs, tenant, name: verbs.skip_next(tenant, name, 1, actor="me"),
    ],
)
def test_nothing_is_said_about_a_schedule_that_is_gone(
    registry: Registry, verb: Callable[[SqlRegistry, str, str], object]
) -> None:
    registry.apply(ECHO, HOURLY)
    registry.apply(ECHO)
    audited = len(registry.audit())
    for name in ("hourly", "never-was"):
        with pytest.raises(Invalid, match=f'no schedule "{name}"'):
            verb(registry.verbs, registry.tenant, name)
    assert len(registry.audit()) == audited


def test_many_rows_go_in_chunk_by_chunk(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "ROWS_AT_ONCE", 7)
    many = [replace(HOURLY, name=f"s{number}") for number in range(50)]
    registry.apply(ECHO, *many)
    assert len(registry.names()) == 50
    registry.apply(replace(ECHO, timeout="2h"), *many)
    assert {registry.row(one.name).version for one in many} == {2}
    registry.apply(ECHO)
    assert registry.names() == []


def test_applies_at_the_same_time_follow_one_another(registry: Registry) -> None:
    """Each of them re-plans on what the one before has left, so versions count every change exactly once."""
    registry.apply(ECHO, HOURLY)
    stores = [registry.rig.open_another() for _ in range(4)]
    failures: list[BaseException] = []

    def edit(number: int) -> None:
        try:
            for step in range(5):
                minute = 10 * number + step + 1
                wanted = registry.wanted(ECHO, replace(HOURLY, cron=f"{minute} * * * *"))
                SqlRegistry(stores[number].dialect).apply(wanted, actor=f"me {number}")
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    threads = [threading.Thread(target=edit, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    versions = registry.verbs.versions(registry.tenant, "hourly", limit=99)
    assert [one.version for one in versions] == list(range(21, 0, -1))
    assert [one.version for one in versions if one.until_us is None] == [21]


def test_a_survey_sees_what_an_apply_would_meet(registry: Registry) -> None:
    registry.apply(ECHO, HOURLY)
    survey = registry.verbs.survey(registry.wanted(ECHO, HOURLY))
    assert set(survey.known.agents) == {"echo"}
    assert set(survey.known.schedules) == {"hourly"}
    assert to_us(survey.now) == now_us(registry)


def test_the_schedules_of_an_agent_are_looked_at_only_if_it_changes_or_goes(registry: Registry) -> None:
    """A million of them may run one agent, whose file is applied at every start of a daemon."""
    registry.apply(ECHO)
    registry.apply(HOURLY, source=THERE)

    def met(*agents: AgentDefinition) -> list[str]:
        return list(registry.verbs.survey(registry.wanted(*agents)).known.schedules)

    assert met(ECHO) == []
    assert met(replace(ECHO, timeout="5m")) == ["hourly"]
    assert met() == ["hourly"]
