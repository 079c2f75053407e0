"""Definitions as they are kept: one form, one hash, and back again."""

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.model.definition import (
    AgentDefinition,
    ScheduleDefinition,
    agent_from_json,
    hash_of,
    jitter_of,
    policies_of,
    retry_of,
    schedule_from_json,
    timeouts_of,
    to_json,
    trigger_of,
)
from fencepost.model.errors import Invalid, Misconfigured
from fencepost.model.overlap import OverlapRule
from fencepost.model.retry import OnLost
from fencepost.model.run import TriggerKind
from fencepost.model.trigger import AtTrigger, CronTrigger, EveryTrigger

texts = st.text(max_size=20)
agents = st.builds(
    AgentDefinition,
    name=texts,
    command=st.lists(texts, max_size=3).map(tuple),
    shell=st.booleans(),
    env=st.dictionaries(texts, texts, max_size=3),
    retry_exit_codes=st.lists(st.integers(1, 255), max_size=3).map(tuple),
    gates=st.lists(texts, max_size=2).map(tuple),
    gate_definitions=st.dictionaries(texts, st.dictionaries(texts, texts, max_size=2), max_size=2),
    options=st.dictionaries(texts, st.lists(st.integers(), max_size=2), max_size=2),
)
schedules = st.builds(
    ScheduleDefinition,
    name=texts,
    agent=texts,
    cron=texts,
    queue_max=st.none() | st.integers(1, 9),
    calendar=st.lists(texts, max_size=2).map(tuple),
    payload=st.dictionaries(texts, st.none() | st.booleans() | st.floats(allow_nan=False) | texts, max_size=3),
    enabled=st.booleans(),
)


@given(agents)
def test_an_agent_comes_back_as_it_was_kept(agent: AgentDefinition) -> None:
    assert agent_from_json(to_json(agent)) == agent


@given(schedules)
def test_a_schedule_comes_back_as_it_was_kept(schedule: ScheduleDefinition) -> None:
    assert schedule_from_json(to_json(schedule)) == schedule


@given(schedules)
def test_the_kept_form_is_the_same_whenever_it_is_written(schedule: ScheduleDefinition) -> None:
    assert to_json(schedule_from_json(to_json(schedule))) == to_json(schedule)


@given(agents | schedules)
def test_the_kept_form_is_json_without_spaces_by_name(one: AgentDefinition | ScheduleDefinition) -> None:
    text = to_json(one)
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))


def test_defaults_are_left_out_so_that_writing_one_down_changes_nothing() -> None:
    assert json.loads(to_json(AgentDefinition("a", timeout="1h"))) == {"name": "a"}
    assert to_json(AgentDefinition("a")) == to_json(AgentDefinition("a", timeout="1h"))


def test_the_hash_tells_two_definitions_apart_from_their_concatenation() -> None:
    assert hash_of("a", "b") != hash_of("a\nb", "") != hash_of("ab")


@pytest.mark.parametrize("read", [agent_from_json, schedule_from_json])
def test_a_field_of_a_newer_version_is_refused_and_not_ignored(read: object) -> None:
    assert callable(read)
    with pytest.raises(Misconfigured, match="newer Fencepost, which knows quantum; upgrade"):
        read('{"name":"x","agent":"y","quantum":1}' if read is schedule_from_json else '{"name":"x","quantum":1}')


@pytest.mark.parametrize(
    ("schedule", "kind", "trigger"),
    [
        (ScheduleDefinition("s", "a", cron="0 9 * * *", timezone="UTC"), TriggerKind.CRON, CronTrigger),
        (ScheduleDefinition("s", "a", every="15m"), TriggerKind.EVERY, EveryTrigger),
        (ScheduleDefinition("s", "a", at="2030-01-01T00:00:00Z"), TriggerKind.AT, AtTrigger),
    ],
)
def test_what_asks_for_runs_follows_from_what_was_written(
    schedule: ScheduleDefinition, kind: TriggerKind, trigger: type
) -> None:
    assert schedule.kind is kind
    assert isinstance(trigger_of(schedule), trigger)


def test_cron_without_a_zone_is_refused() -> None:
    with pytest.raises(Invalid, match="needs a timezone"):
        trigger_of(ScheduleDefinition("s", "a", cron="0 9 * * *"))


def test_policies_and_limits_are_built_from_the_words() -> None:
    agent = AgentDefinition("a", on_lost="resume", max_attempts=3, timeout="10m", stall_timeout="1m", budget_usd="0.5")
    schedule = ScheduleDefinition("s", "a", cron="* * * * *", overlap="BufferAll", jitter="5s", grace="2m")
    policies = policies_of(schedule, agent)
    assert policies.overlap.rule is OverlapRule.QUEUE
    assert policies.missed.grace == timedelta(minutes=2)
    assert policies.budget.per_run == 500_000
    assert retry_of(agent).on_lost is OnLost.RESUME
    assert timeouts_of(agent).stall_timeout == timedelta(minutes=1)
    assert jitter_of(schedule) == timedelta(seconds=5)
