"""Checks what an agent's keys mean together, and builds its definition."""

import shlex
from collections.abc import Mapping
from typing import Any

from fencepost.config.check_engines import check_engine_options
from fencepost.config.check_rights import Refused, check_asked_by_agent
from fencepost.config.check_shape import Checker, NamedSection
from fencepost.config.sections import AGENTS, GATES, OPTIONS
from fencepost.config.value_kinds import did_you_mean
from fencepost.model.definition import AgentDefinition, retry_of, timeouts_of
from fencepost.model.errors import Invalid
from fencepost.model.target import is_target, parse_target

# What an engine cannot do without: one of these.
NEEDS = {
    "command": ("command",),
    "python": ("function",),
    "http": ("url",),
    "claude": ("prompt", "prompt_file"),
    "cli": ("preset", "argv"),
}
RETRY_KEYS = ("max_attempts", "backoff", "backoff_max", "retry_exit_codes", "on_lost")
TIMEOUT_KEYS = ("timeout", "stall_timeout", "queue_timeout")
ENGINES_OF = {key.name: key.engines for key in AGENTS.keys if key.engines}

Known = Mapping[str, Mapping[str, Any]]


def check_agent(checker: Checker, entry: NamedSection, known: Known, refused: Refused) -> AgentDefinition | None:
    """Return the agent, or None after having complained."""
    before = len(checker.problems)
    if "engine" not in entry.bad:
        _check_engine(checker, entry)
    _check_command(checker, entry)
    check_engine_options(checker, entry, known["engines"])
    _check_references(checker, entry, known)
    check_asked_by_agent(checker, entry, known["gates"], refused)
    _check_lane(checker, entry)
    agent = _definition(entry, known.get("gates", {}))
    for build, keys in ((retry_of, RETRY_KEYS), (timeouts_of, TIMEOUT_KEYS)):
        if not entry.bad.intersection(keys):
            try:
                build(agent)
            except Invalid as error:
                checker.complain(str(error), *entry.path, *entry.says(*keys)[:1])
    return None if entry.bad or len(checker.problems) > before else agent


def _check_engine(checker: Checker, entry: NamedSection) -> None:
    engine = entry.values.get("engine", "command")
    for name in entry.says(*ENGINES_OF):
        if engine not in ENGINES_OF[name]:
            theirs = " and ".join(f'"{one}"' for one in ENGINES_OF[name])
            checker.complain(
                f'it has no meaning with engine = "{engine}"; it is for {theirs}. Remove it, or set the engine.',
                *entry.path,
                name,
            )
    if not entry.says(*NEEDS[engine]):
        checker.complain(f'engine = "{engine}" needs {" or ".join(NEEDS[engine])}.', *entry.path)


def _check_command(checker: Checker, entry: NamedSection) -> None:
    command = entry.values.get("command")
    if command is None:
        return
    path = (*entry.path, "command")
    written_as_text = checker.is_text(*path)
    if not command or not command[0].strip():
        checker.complain("it is empty; name a program.", *path)
    elif entry.values.get("shell") and not written_as_text:
        checker.complain('with shell = true it is one text, as in command = "make report | mail me".', *path)
    elif written_as_text and not entry.values.get("shell") and "shell" not in entry.bad:
        checker.complain(f"it is a list of words, so that no shell reads it: {_as_list(command[0])}. "
                         "For a shell, add shell = true.", *path)  # fmt: skip


def _as_list(text: str) -> str:
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    quoted = ", ".join('"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"' for word in words)
    return f"command = [{quoted}]"


def _check_lane(checker: Checker, entry: NamedSection) -> None:
    """Refuse settings that a function cannot have while it shares its process."""
    if not entry.values.get("in_process"):
        return
    for name in ("env", "pass_env", "secrets", "project", "model_gate"):
        if entry.values.get(name):
            checker.complain(
                f"with in_process = true, runs share one process: drop {name}, or in_process.", *entry.path, name
            )


def _check_references(checker: Checker, entry: NamedSection, known: Known) -> None:
    project = entry.values.get("project")
    if project and project not in known["projects"]:
        hint = did_you_mean(project, known["projects"]) or f" Define it as [projects.{project}]."
        checker.complain(f'there is no project "{project}".{hint}', *entry.path, "project")
    for index, gate in enumerate(entry.values.get("gates", ())):
        if is_target(gate) and gate.partition(":")[0] in GATES:
            try:
                parse_target(gate)
            except Invalid as error:
                checker.complain(str(error), *entry.path, "gates", index)
        elif gate not in known["gates"]:
            hint = did_you_mean(gate, known["gates"]) or f" Define it as [gates.{gate}]."
            checker.complain(f'there is no gate "{gate}".{hint}', *entry.path, "gates", index)


def _definition(entry: NamedSection, gates: Mapping[str, Any]) -> AgentDefinition:
    values = {name: value for name, value in entry.values.items() if name not in OPTIONS}
    options = {name: value for name, value in entry.values.items() if name in OPTIONS}
    described = {name: _said(gates[name]) for name in entry.values.get("gates", ()) if name in gates}
    values["options"] = {**_listed(options), **values.get("options", {})}
    return AgentDefinition(name=entry.name, gate_definitions=described, **values)


def _said(gate: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in gate.items() if value}


def _listed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Spell lists as JSON gives them back, so that what is kept and what is read are equal."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in options.items()}
