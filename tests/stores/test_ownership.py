"""To whom a file's definitions belong, on both stores: the same file on two machines is one file."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import count

import pytest

from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.errors import Invalid, Rollback
from fencepost.model.ownership import FileId
from fencepost.model.registry_plan import ChangeKind, Plan, want
from fencepost.stores import owners
from fencepost.stores.registry import SqlRegistry
from tests.stores.rig import Rig, everything

ECHO = AgentDefinition("echo", command=("echo", "hi"))
HOURLY = ScheduleDefinition("hourly", "echo", cron="0 * * * *", timezone="UTC")
LATER = replace(HOURLY, cron="30 * * * *")
EXTRA = replace(HOURLY, name="extra")
OTHER = AgentDefinition("other", command=("true",))
HOOK = {"github": {"agent": "echo", "scheme": "github"}}

STUDIO = FileId("/Users/ann/site/fencepost.toml", "site", "m1" * 16, "studio")
MINI = FileId("/srv/site/fencepost.toml", "site", "m2" * 16, "mini")

_tenants = count(1)


class Registry:
    """A tenant of its own in a registry."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.tenant = f"owners-{next(_tenants)}"
        self.verbs = SqlRegistry(rig.store.dialect)

    def apply(
        self,
        file: FileId | str,
        *things: AgentDefinition | ScheduleDefinition,
        hooks: Mapping[str, Mapping[str, object]] | None = None,
        take_over: bool = False,
        rollback: bool = False,
    ) -> Plan:
        agents = {one.name: one for one in things if isinstance(one, AgentDefinition)}
        schedules = {one.name: one for one in things if isinstance(one, ScheduleDefinition)}
        path, lies = (file, None) if isinstance(file, str) else (file.path, file)
        wanted = want(self.tenant, path, agents=agents, schedules=schedules, hooks=hooks, file=lies)
        return self.verbs.apply(wanted, actor="me", take_over=take_over, rollback=rollback).plan

    def sources(self) -> dict[str, str]:
        rows = self.verbs.schedules(self.tenant, limit=100).schedules
        return {row.name: row.source for row in rows}

    def cron(self, name: str = "hourly") -> str:
        return self.verbs.schedule(self.tenant, name).schedules[0].definition


@pytest.fixture
def registry(rig: Rig) -> Registry:
    return Registry(rig)


def unnamed(file: FileId) -> FileId:
    return file._replace(name="")


def kinds(planned: Plan) -> set[ChangeKind]:
    return {one.kind for one in planned.agents} | {one.kind for one in planned.schedules}


def test_the_same_named_file_on_two_machines_is_one_file(registry: Registry) -> None:
    registry.apply(STUDIO, ECHO, HOURLY, hooks=HOOK)
    assert kinds(registry.apply(MINI, ECHO, HOURLY, hooks=HOOK)) == {ChangeKind.UNCHANGED}
    registry.apply(MINI, ECHO, LATER, EXTRA, hooks=HOOK)
    assert registry.sources() == {"hourly": "name:site", "extra": "name:site"}
    assert kinds(registry.apply(STUDIO, ECHO, LATER, hooks=HOOK)) == {ChangeKind.UNCHANGED, ChangeKind.RETIRED}


def test_the_same_file_without_a_name_joins_by_its_content_and_stays(registry: Registry) -> None:
    registry.apply(unnamed(STUDIO), ECHO, HOURLY)
    assert kinds(registry.apply(unnamed(MINI), ECHO, HOURLY)) == {ChangeKind.UNCHANGED}
    assert kinds(registry.apply(unnamed(MINI), ECHO, LATER)) == {ChangeKind.UNCHANGED, ChangeKind.CHANGED}
    assert registry.sources() == {"hourly": STUDIO.path}


@pytest.mark.parametrize(
    "content", [(ECHO, LATER), (ECHO,), (ECHO, HOURLY, EXTRA), ()], ids=["edited", "less", "more", "none"]
)
def test_another_content_without_a_name_is_another_file(
    registry: Registry, content: tuple[AgentDefinition | ScheduleDefinition, ...]
) -> None:
    registry.apply(unnamed(STUDIO), ECHO, HOURLY)
    if content:
        with pytest.raises(Invalid, match=r"is defined by /Users/ann/site/fencepost.toml too"):
            registry.apply(unnamed(MINI), *content)
    else:
        registry.apply(unnamed(MINI))
    assert registry.sources() == {"hourly": STUDIO.path}


def test_two_machines_with_different_files_of_one_path_do_not_retire_each_others(registry: Registry) -> None:
    registry.apply(unnamed(STUDIO), ECHO, HOURLY)
    there = unnamed(MINI)._replace(path=STUDIO.path)
    registry.apply(there, OTHER, replace(EXTRA, agent="other"))
    assert registry.sources() == {"hourly": STUDIO.path, "extra": f"mini-m2m2m2m2:{STUDIO.path}"}
    registry.apply(there)
    assert registry.sources() == {"hourly": STUDIO.path}


def test_a_container_has_only_its_path_as_before(registry: Registry) -> None:
    boxed = FileId("/app/fencepost.toml")
    registry.apply(boxed, ECHO, HOURLY)
    registry.apply(boxed, ECHO, LATER)
    assert registry.sources() == {"hourly": "/app/fencepost.toml"}
    registry.apply(boxed._replace(name="a"), ECHO, LATER)
    with pytest.raises(Invalid, match=r"is defined by name:a too"):
        registry.apply(boxed, ECHO, HOURLY)


def test_the_first_name_of_a_file_is_given_to_all_that_it_owns(registry: Registry) -> None:
    registry.apply(unnamed(STUDIO), ECHO, HOURLY, EXTRA, hooks=HOOK)
    registry.apply(unnamed(MINI), ECHO, HOURLY, EXTRA, hooks=HOOK)
    planned = registry.apply(STUDIO, ECHO, HOURLY, hooks=HOOK)
    assert kinds(planned) == {ChangeKind.UNCHANGED, ChangeKind.RETIRED}
    assert registry.sources() == {"hourly": "name:site"}
    assert kinds(registry.apply(MINI, ECHO, HOURLY, hooks=HOOK)) == {ChangeKind.UNCHANGED}
    with pytest.raises(Rollback):  # what the file was before it had a name is remembered too
        registry.apply(STUDIO, ECHO, HOURLY, EXTRA, hooks=HOOK)


def test_what_an_older_program_applied_is_its_files_by_the_path(registry: Registry) -> None:
    registry.apply(STUDIO.path, ECHO, HOURLY)  # it knows of no machines and names
    registry.apply(unnamed(STUDIO), ECHO, LATER)
    registry.apply(STUDIO.path, ECHO, HOURLY)  # and goes on after the upgrade
    assert registry.sources() == {"hourly": STUDIO.path}
    registry.apply(STUDIO, ECHO, EXTRA)
    assert registry.sources() == {"extra": "name:site"}


def test_a_name_with_nothing_in_common_asks_before_it_takes_over(registry: Registry) -> None:
    registry.apply(STUDIO, ECHO, HOURLY)
    mine = (OTHER, replace(EXTRA, agent="other"))
    with pytest.raises(Invalid, match=r'named "site" too, .* it defines agent "echo".*--take-over'):
        registry.apply(MINI, *mine)
    registry.apply(MINI, *mine, take_over=True)
    assert registry.sources() == {"extra": "name:site"}


def test_a_file_that_was_seen_under_its_name_may_change_altogether(registry: Registry) -> None:
    registry.apply(STUDIO, ECHO, HOURLY)
    registry.apply(STUDIO, OTHER)
    assert registry.sources() == {}


def test_an_earlier_version_is_not_applied_unless_a_rollback_is_named(registry: Registry) -> None:
    registry.apply(STUDIO, ECHO, HOURLY)
    registry.apply(STUDIO, ECHO, LATER)
    before = everything(registry.rig.store)
    with pytest.raises(
        Rollback,
        match=r"is what me applied at .* a later version has replaced it.*apply --rollback'\. Nothing was changed\.$",
    ):
        registry.apply(MINI, ECHO, HOURLY)
    assert everything(registry.rig.store) == before
    registry.apply(MINI, ECHO, HOURLY, rollback=True)
    assert "0 * * * *" in registry.cron()
    with pytest.raises(Rollback):  # now this one is the past
        registry.apply(STUDIO, ECHO, LATER)


def test_the_version_that_was_there_before_all_notes_counts_as_earlier(registry: Registry) -> None:
    registry.apply(STUDIO.path, ECHO, HOURLY)
    registry.apply(unnamed(STUDIO), ECHO, LATER)
    with pytest.raises(Rollback):
        registry.apply(unnamed(STUDIO), ECHO, HOURLY)


def test_what_another_file_took_away_is_a_conflict_and_no_rollback(registry: Registry) -> None:
    registry.apply(STUDIO, ECHO, HOURLY)
    registry.apply("/elsewhere.toml", HOURLY, take_over=True)
    with pytest.raises(Invalid, match=r"is defined by /elsewhere.toml too") as refused:
        registry.apply(STUDIO, ECHO, HOURLY)
    assert not isinstance(refused.value, Rollback)


def test_the_same_file_again_writes_nothing(registry: Registry) -> None:
    registry.apply(STUDIO, ECHO, HOURLY)
    registry.apply(MINI, ECHO, HOURLY)
    before = everything(registry.rig.store)
    registry.rig.pass_time(1000)
    registry.apply(STUDIO, ECHO, HOURLY)
    registry.apply(MINI, ECHO, HOURLY)
    assert everything(registry.rig.store) == before


def test_only_so_many_contents_of_a_file_are_kept(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "CONTENTS_KEPT", 2)
    versions = [replace(HOURLY, cron=f"{minute} * * * *") for minute in range(4)]
    for one in versions:
        registry.apply(STUDIO, ECHO, one)
    with pytest.raises(Rollback):
        registry.apply(STUDIO, ECHO, versions[2])
    registry.apply(STUDIO, ECHO, versions[0])
