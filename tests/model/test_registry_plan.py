"""What an apply would change, decided from two lists alone."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.registry_plan import (
    ChangeKind,
    KnownAgent,
    KnownDefinitions,
    KnownSchedule,
    Plan,
    Wanted,
    plan,
    spell,
    want,
)

HERE, THERE = "/here/fencepost.toml", "/there/fencepost.toml"
ECHO = AgentDefinition("echo", command=("echo", "hi"))
DAILY = ScheduleDefinition("daily", "echo", cron="0 9 * * *", timezone="UTC")
NOTHING = KnownDefinitions({}, {})


def wanted(*things: AgentDefinition | ScheduleDefinition, source: str = HERE) -> Wanted:
    agents = {one.name: one for one in things if isinstance(one, AgentDefinition)}
    schedules = {one.name: one for one in things if isinstance(one, ScheduleDefinition)}
    return want("t", source, agents=agents, schedules=schedules)


def after(planned: Plan, known: KnownDefinitions = NOTHING) -> KnownDefinitions:
    """Return what the registry holds once a plan was carried out."""
    agents, schedules = dict(known.agents), dict(known.schedules)
    source = planned.wanted.source
    for agent in planned.agents:
        retired = agent.kind is ChangeKind.RETIRED
        agents[agent.name] = KnownAgent(agent.name, agent.spelled.hash, agent.spelled.text, source, retired)
    for one in planned.schedules:
        schedules[one.name] = KnownSchedule(
            name=one.name,
            version=one.version,
            hash=one.spelled.hash,
            agent=one.agent,
            definition=one.spelled.text,
            manifest_hash=agents[one.agent].hash,
            source=one.source,
            retired=one.kind is ChangeKind.RETIRED,
        )
    return KnownDefinitions(agents, schedules)


def kinds(planned: Plan) -> dict[str, ChangeKind]:
    return {one.name: one.kind for one in planned.agents} | {one.name: one.kind for one in planned.schedules}


def versions(planned: Plan) -> dict[str, int]:
    return {one.name: one.version for one in planned.schedules}


def test_a_first_apply_adds_everything_as_version_1() -> None:
    planned = plan(NOTHING, wanted(ECHO, DAILY))
    assert kinds(planned) == {"echo": ChangeKind.ADDED, "daily": ChangeKind.ADDED}
    assert versions(planned) == {"daily": 1}


def test_the_same_file_again_changes_nothing() -> None:
    known = after(plan(NOTHING, wanted(ECHO, DAILY)))
    again = plan(known, wanted(ECHO, DAILY))
    assert set(kinds(again).values()) == {ChangeKind.UNCHANGED}
    assert not again.changes_anything


def test_an_edit_makes_the_next_version_and_says_what_is_different() -> None:
    known = after(plan(NOTHING, wanted(ECHO, DAILY)))
    edited = plan(known, wanted(ECHO, replace(DAILY, cron="0 10 * * *", overlap="queue")))
    assert versions(edited) == {"daily": 2}
    assert [tuple(one) for one in edited.schedules[0].fields] == [
        ("cron", "0 9 * * *", "0 10 * * *"),
        ("overlap", None, "queue"),
    ]


def test_a_changed_agent_bumps_every_schedule_that_runs_it() -> None:
    other = replace(DAILY, name="other")
    known = after(plan(NOTHING, wanted(ECHO, DAILY, other)))
    changed = plan(known, wanted(replace(ECHO, command=("echo", "ho")), DAILY, other))
    assert versions(changed) == {"daily": 2, "other": 2}
    assert all(one.agent_changed for one in changed.schedules)


def test_a_changed_agent_bumps_schedules_of_other_files_too_and_leaves_them_theirs() -> None:
    known = after(plan(NOTHING, wanted(ECHO)))
    known = after(plan(known, wanted(DAILY, source=THERE)), known)
    changed = plan(known, wanted(replace(ECHO, timeout="2h")))
    (kin,) = changed.schedules
    assert (kin.name, kin.kind, kin.version, kin.source) == ("daily", ChangeKind.CHANGED, 2, THERE)


def test_what_the_file_no_longer_defines_is_retired() -> None:
    known = after(plan(NOTHING, wanted(ECHO, DAILY)))
    assert kinds(plan(known, wanted())) == {"echo": ChangeKind.RETIRED, "daily": ChangeKind.RETIRED}


def test_another_files_definitions_are_left_alone() -> None:
    known = after(plan(NOTHING, wanted(ECHO, DAILY)))
    assert kinds(plan(known, wanted(source=THERE))) == {}


def test_what_comes_back_goes_on_with_the_next_version() -> None:
    known = after(plan(NOTHING, wanted(ECHO, DAILY)))
    known = after(plan(known, wanted(ECHO)), known)
    revived = plan(known, wanted(ECHO, DAILY))
    assert kinds(revived)["daily"] is ChangeKind.REVIVED
    assert versions(revived) == {"daily": 2}


def test_two_files_with_one_name_are_a_conflict_that_names_both() -> None:
    known = after(plan(NOTHING, wanted(ECHO, DAILY)))
    planned = plan(known, wanted(ECHO, DAILY, source=THERE))
    assert len(planned.conflicts) == 2
    assert all(HERE in text and THERE in text and "--take-over" in text for text in planned.conflicts)
    assert not planned.schedules


def test_taking_over_moves_what_is_the_same_without_a_new_version() -> None:
    known = after(plan(NOTHING, wanted(ECHO, DAILY)))
    planned = plan(known, wanted(ECHO, DAILY, source=THERE), take_over=True)
    assert not planned.conflicts
    assert kinds(planned) == {"echo": ChangeKind.MOVED, "daily": ChangeKind.MOVED}
    assert versions(planned) == {"daily": 1}


def test_an_agent_that_another_file_runs_cannot_be_removed() -> None:
    known = after(plan(NOTHING, wanted(ECHO)))
    known = after(plan(known, wanted(DAILY, source=THERE)), known)
    (conflict,) = plan(known, wanted()).conflicts
    assert 'schedule "daily"' in conflict
    assert THERE in conflict


def test_an_unknown_agent_is_a_conflict_with_a_suggestion() -> None:
    planned = plan(NOTHING, wanted(ECHO, replace(DAILY, agent="ehco")))
    assert planned.conflicts == ('schedule "daily" runs the unknown agent "ehco"; did you mean "echo"?',)


def test_a_schedule_may_not_have_the_name_of_another_files_agent() -> None:
    known = after(plan(NOTHING, wanted(ECHO)))
    (conflict,) = plan(known, wanted(replace(DAILY, name="echo"), source=THERE)).conflicts[:1]
    assert "has the name of an agent" in conflict


def test_a_retired_agent_is_no_agent() -> None:
    known = KnownDefinitions({"echo": KnownAgent("echo", spell(ECHO).hash, spell(ECHO).text, THERE, retired=True)}, {})
    assert len(plan(known, wanted(DAILY)).conflicts) == 1


@given(st.lists(st.sets(st.sampled_from("abcdef")), max_size=8), st.integers(0, 5))
def test_versions_only_rise_and_every_wanted_schedule_is_active(rounds: list[set[str]], salt: int) -> None:
    known = NOTHING
    for number, names in enumerate(rounds):
        flavour = "queue" if (number + salt) % 3 else "forbid"
        things = [replace(DAILY, name=name, overlap=flavour) for name in sorted(names)]
        planned = plan(known, wanted(ECHO, *things))
        before, known = known, after(planned, known)
        assert {one.name for one in known.schedules.values() if not one.retired} == names
        for name, one in before.schedules.items():
            assert known.schedules[name].version >= one.version
        assert not plan(known, wanted(ECHO, *things)).changes_anything
