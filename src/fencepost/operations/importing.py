"""Turns other schedulers' files into ours: what they mean is kept where it can be, and told where it cannot.

Nothing is guessed silently. What has no counterpart is left out with a warning that says so, and every
expression goes through the same check as one that was written by hand.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.model.errors import Invalid
from fencepost.model.lease_check import printable
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
    hooks: dict[str, dict[str, Any]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def add(self, name: str, agent: dict[str, Any], schedule: dict[str, Any]) -> str:
        """Add a schedule with an agent of its own, under a name that is free."""
        found = self._free(name)
        self.agents[f"{found}-agent"] = agent
        self.schedules[found] = {"agent": f"{found}-agent", **schedule}
        return found

    def add_hook(self, name: str, agent: dict[str, Any], hook: dict[str, Any]) -> str:
        """Add a webhook with an agent of its own, under a name that is free."""
        found = self._free(name)
        self.agents[f"{found}-agent"] = agent
        self.hooks[found] = {"agent": f"{found}-agent", **hook}
        return found

    def warn(self, where: str, what: str) -> None:
        """Tell a person, once."""
        warning = f"{where}: {what}"
        if warning not in self.warnings:
            self.warnings.append(warning)

    def _free(self, wanted: str) -> str:
        base = re.sub(r"[^a-z0-9]+", "-", wanted.lower()).strip("-")[:NAME_MAX].strip("-") or "job"
        taken = {*self.schedules, *self.hooks, *self.agents}
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
        agent = {"engine": "claude", "prompt": literal(task["prompt"]), "project": "here"}
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
        found.warn(
            "all", "no person is there to be asked: say with permission_mode or tools what a run may do by itself"
        )
    return found


def toml_of(found: Imported) -> str:
    """Write the definitions as a fencepost.toml, with the warnings on top."""
    lines = [*(f"# {printable(warning)}" for warning in found.warnings), *([""] if found.warnings else [])]
    lines += ["[fencepost]", f"timezone = {_quoted(found.timezone)}"]
    for section in ("projects", "agents", "schedules", "hooks"):
        for name, values in getattr(found, section).items():
            lines += ["", f"[{section}.{name}]", *_assignments(values)]
    return "\n".join(lines) + "\n"


def _assignments(values: Mapping[str, Any]) -> Iterator[str]:
    return (f"{key} = {_value(value)}" for key, value in values.items())


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
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


def zone_unless(found: Imported, zone: str) -> dict[str, str]:
    """Return what a schedule has to say about its zone, where it is not the file's."""
    return {} if zone == found.timezone else {"timezone": zone}


def literal(prompt: str) -> str:
    """Keep names in braces as they are: in our prompts they would be placeholders."""
    return PLACEHOLDER.sub(r"{{\1}}", prompt)


def _json(text: str) -> Any:  # noqa: ANN401  # whatever the file holds
    try:
        return json.loads(text)
    except ValueError as error:
        raise Invalid(f"this is no JSON: {error}.") from None
