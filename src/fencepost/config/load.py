"""Turns a configuration file into checked definitions, or into everything that is wrong with it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from fencepost.config import sections
from fencepost.config.check_agents import check_agent
from fencepost.config.check_engines import check_definitions
from fencepost.config.check_rights import check_asked, refused_by
from fencepost.config.check_schedules import check_affordable, check_schedule
from fencepost.config.check_shape import Checker, NamedSection
from fencepost.config.check_targets import check_gate, check_notification
from fencepost.config.find import FILE, anchor_store, user_path
from fencepost.config.problems import InvalidConfig, Problem
from fencepost.config.read import Document, read_document
from fencepost.config.value_kinds import check_name, did_you_mean
from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.errors import Invalid
from fencepost.model.ownership import FileId
from fencepost.model.registry_plan import Wanted, want
from fencepost.model.secret_rights import Rights, rights_of


class Settings(NamedTuple):
    """What [fencepost] says; empty where it says nothing and there is no fixed default."""

    store: str = ""
    tenant: str = "default"
    timezone: str = ""
    drain_timeout: str = "60s"
    retention: str = "90d"
    audit_key: str = ""
    audit_heads: str = ""
    http_allow: tuple[str, ...] = ()
    web_url: str = ""
    name: str = ""
    stores: Mapping[str, str] = MappingProxyType({})  # of tenants that are kept elsewhere

    def store_of(self, tenant: str) -> str:
        """Return where a tenant is kept, as it was written."""
        return self.stores.get(tenant, self.store)


NOTHING_SAID = Settings()
HOOK_SECRETS, NOTICE_SECRETS = ("secret", "previous_secret"), ("url", "secret")


@dataclass(frozen=True, slots=True)
class Config:
    """A file that is in order."""

    path: str  # the real one: a file without a name owns its definitions by it
    settings: Settings
    projects: Mapping[str, Mapping[str, Any]]
    agents: Mapping[str, AgentDefinition]
    gates: Mapping[str, Mapping[str, Any]]
    schedules: Mapping[str, ScheduleDefinition]
    hooks: Mapping[str, Mapping[str, Any]]
    tenants: Mapping[str, Mapping[str, Any]]
    notifications: Mapping[str, Mapping[str, Any]]
    places: Mapping[str, str]  # of schedules whose agent another file must define
    engines: Mapping[str, Mapping[str, Any]]  # how CLIs are called, those shipped included

    @property
    def rights(self) -> Rights:
        """Which secrets a machine that works by this file hands to which tenant."""
        return rights_of(self.tenants)

    def wanted(self, tenant: str | None = None, file: FileId | None = None) -> Wanted:
        """Return what the registry shall hold for this file; `file` says where it lies, if it is one."""
        return want(
            tenant or self.settings.tenant,
            self.path,
            agents=self.agents,
            schedules=self.schedules,
            places=self.places,
            hooks=self.hooks,
            file=file,
        )


def load(path: str) -> Config:
    """Read a file and check all of it; raise InvalidConfig with every problem there is."""
    real = os.path.realpath(path)
    return check(read_document(path), real, defaults=load_settings(but=real))


def load_settings(*, but: str = "") -> Settings:
    """Return this user's own settings; `but` is a configuration that may be the same file, and then says it all."""
    path = user_path(os.environ)
    if path is None or os.path.realpath(path) == but:
        return Settings()
    document = read_document(path)
    checker = Checker(document)
    checker.check_sections()
    for name in document.table:
        if name in sections.BY_NAME and name != sections.FENCEPOST.name:
            message = f"only [{sections.FENCEPOST.name}] stands in a user's own file; write this in a project's {FILE}."
            checker.complain(message, name)
    if "name" in checker.single(sections.FENCEPOST).values:
        checker.complain("a name is one file's own; write it in a project's.", sections.FENCEPOST.name, "name")
    settings = _settings(checker, Settings())
    if checker.problems:
        raise InvalidConfig(document.path, checker.problems)
    return Settings(**anchor_store(settings._asdict(), path))


def check(
    document: Document,
    owner: str,
    *,
    whose: tuple[str, Rights] | None = None,
    defaults: Settings = NOTHING_SAID,
    alone: bool = False,
) -> Config:
    """Check definitions, wherever they were written; `owner` is the file that has them.

    `whose` says for which tenant they were sent, and what another file's [tenants] says; the document has no say in that.
    `defaults` stand in for general settings that the document leaves out. A definition that comes `alone` has its
    agent elsewhere, which is no news.
    """
    return _Loading(document, whose, alone=alone).config(owner, defaults)


def _settings(checker: Checker, defaults: Settings) -> Settings:
    entry = checker.single(sections.FENCEPOST)
    for key in ("tenant", "name"):
        try:
            check_name(entry.values.get(key, defaults.tenant))
        except Invalid as error:
            checker.complain(str(error), *entry.path, key)
    return defaults._replace(**entry.values)


class _Loading:
    """The sections of one file, in the order in which they refer to one another."""

    def __init__(self, document: Document, whose: tuple[str, Rights] | None = None, *, alone: bool = False) -> None:
        self._document = document
        self._alone = alone
        self._whose = whose
        self._checker = Checker(document)

    def config(self, real_path: str, defaults: Settings) -> Config:
        checker = self._checker
        checker.check_sections()
        settings = _settings(checker, defaults)
        projects = self._plain(sections.PROJECTS)
        self._check_projects(projects)
        gates = self._gates()
        tenants = self._plain(sections.TENANTS)
        notifications = self._notifications()
        engines = check_definitions(checker)
        known = {
            "projects": projects,
            "gates": gates,
            "engines": engines,
        }
        tenant, rights = self._whose or (settings.tenant, rights_of(tenants))
        refused = refused_by(rights, tenant)
        agents = {
            entry.name: agent
            for entry in checker.named(sections.AGENTS)
            if (agent := check_agent(checker, entry, known, refused)) is not None
        }
        schedules = self._schedules(settings)
        hooks = self._plain(sections.HOOKS)
        strangers = self._strangers()
        self._check_hooks(hooks)
        for section, named, keys in (("hooks", hooks, HOOK_SECRETS), ("notifications", notifications, NOTICE_SECRETS)):
            for name, values in named.items():
                check_asked(checker, (section, name), values, keys, refused)
        if checker.problems:
            also = [] if self._alone else strangers.values()
            raise InvalidConfig(self._document.path, [*checker.problems, *also])
        return Config(
            path=real_path,
            settings=settings,
            projects=projects,
            agents=agents,
            gates=gates,
            schedules=schedules,
            hooks=hooks,
            tenants=tenants,
            notifications=notifications,
            places={name: self._shown(problem) for name, problem in strangers.items()},
            engines=engines,
        )

    def _plain(self, section: sections.Section) -> dict[str, dict[str, Any]]:
        defaults = {key.name: key.default for key in section.keys if not key.required}
        return {entry.name: {**defaults, **entry.values} for entry in self._checker.named(section)}

    def _gates(self) -> dict[str, dict[str, Any]]:
        defaults = {key.name: key.default for key in sections.GATE.keys if not key.required}
        found = {}
        for entry in self._checker.named(sections.GATE):
            check_gate(self._checker, entry)
            found[entry.name] = {**defaults, **entry.values}
        return found

    def _notifications(self) -> dict[str, dict[str, Any]]:
        defaults = {key.name: key.default for key in sections.NOTIFICATIONS.keys if not key.required}
        found = {}
        for entry in self._checker.named(sections.NOTIFICATIONS):
            check_notification(self._checker, entry)
            found[entry.name] = {**defaults, **entry.values}
        return found

    def _check_projects(self, projects: Mapping[str, Mapping[str, Any]]) -> None:
        for name, values in projects.items():
            written = self._written("projects")[name]
            for key in sections.WORKTREE_KEYS:
                if key in written and values.get("isolation") == "none":
                    message = 'it has no meaning without isolation = "worktree"; add that, or remove it.'
                    self._checker.complain(message, "projects", name, key)

    def _schedules(self, settings: Settings) -> dict[str, ScheduleDefinition]:
        agents = self._written("agents")
        found = {}
        limits: dict[str, ScheduleDefinition] = {}
        for entry in self._checker.named(sections.SCHEDULES):
            if entry.name in agents:
                self._checker.complain(
                    f'an agent has this name too, and "fencepost run {entry.name}" could mean either; rename one.',
                    *entry.path,
                )
            schedule = check_schedule(self._checker, entry, settings.timezone)
            if schedule is not None:
                found[entry.name] = schedule
                self._agree(entry, schedule, limits)
                check_affordable(self._checker, entry, schedule, agents.get(schedule.agent))
        return found

    def _agree(self, entry: NamedSection, schedule: ScheduleDefinition, limits: dict[str, ScheduleDefinition]) -> None:
        """Refuse two limits for one concurrency key; other files' are compared by the registry."""
        key, limit = schedule.concurrency_key, schedule.concurrency or 1
        other = limits.setdefault(key, schedule) if key else schedule
        if (said := other.concurrency or 1) != limit:
            self._checker.complain(
                f'it lets {limit} runs with the key "{key}" go at once, and {other.name} {said}; write the same for both.',
                *entry.path,
                "concurrency" if entry.says("concurrency") else "concurrency_key",
            )

    def _strangers(self) -> dict[str, Problem]:
        """Return the schedules whose agent is not in this file: another one may define it, and the registry knows."""
        agents = self._written("agents")
        named = {name: one.get("agent") for name, one in self._written("schedules").items() if isinstance(one, dict)}
        return {
            name: self._stranger(name, agent)
            for name, agent in named.items()
            if isinstance(agent, str) and agent not in agents
        }

    def _stranger(self, name: str, agent: str) -> Problem:
        place = self._document.place("schedules", name, "agent")
        hint = did_you_mean(agent, self._written("agents"))
        return Problem(place, f'schedules.{name}.agent: there is no agent "{agent}" in this file.{hint}')

    def _check_hooks(self, hooks: Mapping[str, Mapping[str, Any]]) -> None:
        agents = self._written("agents")
        for name, hook in hooks.items():
            if "agent" in hook and agents and hook["agent"] not in agents:
                hint = did_you_mean(hook["agent"], agents)
                if hint:
                    message = f'there is no agent "{hook["agent"]}" in this file.{hint}'
                    self._checker.complain(message, "hooks", name, "agent")

    def _written(self, section: str) -> Mapping[str, Any]:
        table = self._document.table.get(section)
        return table if isinstance(table, dict) else {}

    def _shown(self, problem: Problem) -> str:
        return f"{self._document.path}:{problem.place.line}:{problem.place.column}"
