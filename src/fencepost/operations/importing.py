"""Turns other schedulers' files into ours: what they mean is kept where it can be, and told where it cannot.

Nothing is guessed silently. What has no counterpart is left out with a warning that says so, and every
expression goes through the same check as one that was written by hand.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.config.presets import shipped_names
from fencepost.config.schema import PERMISSION_MODES
from fencepost.model.errors import Invalid
from fencepost.model.trigger import cron_trigger
from fencepost.model.zone import find_zone

NAME_MAX = 40
MINUTE_FIELDS = 5
PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


@dataclass
class Imported:
    """What becomes of a file: definitions to write, and what a person should know about them."""

    timezone: str
    projects: dict[str, dict[str, Any]] = field(default_factory=dict)
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    schedules: dict[str, dict[str, Any]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def add(self, name: str, agent: dict[str, Any], schedule: dict[str, Any]) -> str:
        """Add a schedule with an agent of its own, under a name that is free."""
        found = self._free(name)
        self.agents[f"{found}-agent"] = agent
        self.schedules[found] = {"agent": f"{found}-agent", **schedule}
        return found

    def warn(self, where: str, what: str) -> None:
        """Tell a person, once."""
        warning = f"{where}: {what}"
        if warning not in self.warnings:
            self.warnings.append(warning)

    def _free(self, wanted: str) -> str:
        base = re.sub(r"[^a-z0-9]+", "-", wanted.lower()).strip("-")[:NAME_MAX].strip("-") or "job"
        taken = {*self.schedules, *self.agents}
        numbered = (base if number == 1 else f"{base}-{number}" for number in range(1, len(taken) + 2))
        return next(name for name in numbered if name not in taken and f"{name}-agent" not in taken)


def import_claude(text: str, *, timezone: str, project: str = ".") -> Imported:
    """Read the durable tasks of Claude Code, `.claude/scheduled_tasks.json`."""
    found = Imported(find_zone(timezone).name)
    content = _json(text)
    tasks = content.get("tasks", []) if isinstance(content, dict) else content
    if not isinstance(tasks, list):
        raise Invalid("this is no scheduled_tasks.json: it has no list of tasks.")
    found.projects["here"] = {"path": project}
    for number, task in enumerate(tasks, 1):
        where = f"task {task.get('id', number) if isinstance(task, dict) else number}"
        if not isinstance(task, dict) or not all(isinstance(task.get(key), str) for key in ("cron", "prompt")):
            found.warn(where, "left out: it has no cron and prompt")
            continue
        if not checked(found, where, task["cron"], found.timezone):
            continue
        agent = {"engine": "claude", "prompt": _literal(task["prompt"]), "project": "here"}
        schedule: dict[str, Any] = {"cron": task["cron"]}
        if task.get("recurring") is False:
            schedule["once"] = True
        name = found.add(task["prompt"][:NAME_MAX], agent, schedule)
        if "once" not in schedule:
            found.warn(where, f"it would have expired seven days after it was made; {name} goes on until you remove it")
    if found.schedules:
        found.warn(
            "all",
            "Claude Code starts them in the open session, up to 30 minutes late; here each run is a new one, on time",
        )
        found.warn("all", "nobody is there to be asked: say with permission_mode or tools what a run may do by itself")
    return found


def import_untether(text: str, *, timezone: str) -> Imported:
    """Read the crons of an untether.toml."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"this is no untether.toml: {error}.") from None
    triggers = _table(content, "triggers")
    found = Imported(_default_zone(triggers, timezone))
    engines = {"": content.get("default_engine", "claude")}
    for alias, project in _table(content, "projects").items():
        if isinstance(project, dict) and isinstance(project.get("path"), str):
            found.projects[_slug(alias)] = {"path": project["path"]}  # its triggers never used worktrees
            engines[_slug(alias)] = project.get("default_engine", engines[""])
    for number, cron in enumerate(triggers.get("crons", []), 1):
        _untether_cron(found, number, cron, engines)
    if triggers.get("webhooks"):
        found.warn("webhooks", "left out: write [hooks.NAME] with a scheme and a secret by reference")
    if triggers.get("enabled") is False:
        found.warn("all", "its triggers were switched off there; here they count as soon as the file is applied")
    if any("project" in agent for agent in found.agents.values()):
        found.warn(
            "all", "runs of one project went side by side there; here they wait for each other (concurrency = 1)"
        )
    return found


def _untether_cron(found: Imported, number: int, cron: object, engines: Mapping[str, object]) -> None:
    where = f"cron {cron.get('id', number) if isinstance(cron, dict) else number}"
    if not isinstance(cron, dict) or not isinstance(cron.get("schedule"), str):
        found.warn(where, "left out: it has no schedule")
        return
    if not isinstance(cron.get("prompt"), str):
        found.warn(where, "left out: prompts made by a fetch step have no counterpart; let the agent fetch")
        return
    zone = zone_of(found, where, str(cron["timezone"])) if "timezone" in cron else found.timezone
    if zone is None or not checked(found, where, cron["schedule"], zone):
        return
    engine = str(cron.get("engine") or engines.get(_slug(str(cron.get("project", ""))), engines[""]))
    if engine not in ("claude", *shipped_names()):
        found.warn(where, f"left out: there is no preset {engine}; describe it under [engines.{engine}]")
        return
    agent = _untether_agent(found, where, cron, engine)
    schedule: dict[str, Any] = {"cron": cron["schedule"], **zone_unless(found, zone)}
    fields = cron["schedule"].split()
    if len(fields) == MINUTE_FIELDS and "*" not in (fields[2], fields[4]):
        schedule["enabled"] = False
        found.warn(
            where,
            "day of month and day of week had both to match there; here one is enough, as in cron, so that it would run "
            "more often: it is written with enabled = false",
        )
    if cron.get("run_once") is True:
        schedule["once"] = True
        found.warn(where, "it runs once from now on, also if it had run there already")
    found.add(str(cron.get("id", "cron")), agent, schedule)


def _untether_agent(found: Imported, where: str, cron: Mapping[str, Any], engine: str) -> dict[str, Any]:
    agent: dict[str, Any] = {"engine": "claude"} if engine == "claude" else {"engine": "cli", "preset": engine}
    agent["prompt"] = _literal(cron["prompt"])
    if isinstance(cron.get("project"), str):
        project = _slug(cron["project"])
        if project in found.projects:
            agent["project"] = project
        else:
            found.warn(where, f"its project {cron['project']} is not in the file; the agent gets none")
    if cron.get("permission_mode") in PERMISSION_MODES and engine == "claude":
        agent["permission_mode"] = cron["permission_mode"]
    if "chat_id" in cron:
        found.warn(where, "its chat is left out; add [notifications] to hear of it")
    return agent


def toml_of(found: Imported) -> str:
    """Write the definitions as a fencepost.toml, with the warnings on top."""
    lines = [*(f"# {warning}" for warning in found.warnings), *([""] if found.warnings else [])]
    lines += ["[fencepost]", f"timezone = {_quoted(found.timezone)}"]
    for section in ("projects", "agents", "schedules"):
        for name, values in getattr(found, section).items():
            lines += ["", f"[{section}.{name}]", *_assignments(values)]
    return "\n".join(lines) + "\n"


def _assignments(values: Mapping[str, Any]) -> Iterator[str]:
    return (f"{key} = {_value(value)}" for key, value in values.items())


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(one)}" for key, one in value.items()) + " }"
    return _quoted(str(value))


def _quoted(text: str) -> str:
    """Spell a TOML basic string; JSON's escapes are TOML's too, except for DEL, which TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def checked(found: Imported, where: str, expression: str, zone: str) -> bool:
    """Tell whether an expression is one of ours; if not, it is left out with the reason."""
    try:
        cron_trigger(expression, zone)
    except Invalid as error:
        found.warn(where, f"left out: {expression!r}: {str(error).rstrip('.')}")
        return False
    return True


def zone_of(found: Imported, where: str, name: str) -> str | None:
    """Return a zone by its name, or None after having warned."""
    try:
        return find_zone(name).name
    except Invalid as error:
        found.warn(where, str(error).rstrip("."))
        return None


def _default_zone(triggers: Mapping[str, Any], timezone: str) -> str:
    named = triggers.get("default_timezone")
    return find_zone(named if isinstance(named, str) else timezone).name


def zone_unless(found: Imported, zone: str) -> dict[str, str]:
    """Return what a schedule has to say about its zone, where it is not the file's."""
    return {} if zone == found.timezone else {"timezone": zone}


def _literal(prompt: str) -> str:
    """Keep names in braces as they are: in our prompts they would be placeholders."""
    return PLACEHOLDER.sub(r"{{\1}}", prompt)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-") or "project"


def _json(text: str) -> Any:  # noqa: ANN401  # whatever the file holds
    try:
        return json.loads(text)
    except ValueError as error:
        raise Invalid(f"this is no JSON: {error}.") from None


def _table(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = content.get(name, {})
    if not isinstance(found, dict):
        raise Invalid(f"[{name}] is not a table.")
    return found
