"""Looks whether an agent could start here: its program, its script and its folder, found as a worker would find them."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fencepost.config.load import Config
from fencepost.config.presets import shipped
from fencepost.engines.cli import definition_of
from fencepost.host.synced_folders import is_synced_folder
from fencepost.model.cli_definition import definition_from
from fencepost.model.definition import AgentDefinition, gate_targets
from fencepost.model.errors import Invalid
from fencepost.model.target import PATHS, parse_target
from fencepost.operations.gate_probe import gate_problems, ways_around

INTERPRETERS = ("python", "python3", "sh", "bash", "zsh", "node", "deno", "ruby", "perl", "php", "Rscript")
NO_PATH = os.defpath


def missing_parts(
    agent: AgentDefinition, *, environ: Mapping[str, str], folder: str, projects: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Yield what a run of this agent would not find on this machine; paths are relative to the configuration's folder."""
    place = place_of(agent, folder, projects)
    if not os.path.isdir(place):
        yield f"its folder {place} is not there."
        return
    argv = _argv(agent)
    if not argv or "{" in argv[0]:
        return
    path = agent.env.get("PATH") or environ.get("PATH") or NO_PATH
    if not _is_program(argv[0], place, path):
        where = place if "/" in argv[0] else f"the PATH of this machine ({path})"
        yield f"its program {argv[0]!r} is not in {where}, or may not be run."
        return
    script = _script(argv)
    if script and not os.path.exists(os.path.join(place, script)):
        yield f"its script {script!r} is not in {place}."


def probing_of(config: Config, environ: Mapping[str, str]) -> Callable[[AgentDefinition], Iterator[str]]:
    """Return what `plan` and `apply` ask about each agent of a file: whether it could start here, and its gates."""
    folder = os.path.dirname(config.path)

    def problems(agent: AgentDefinition) -> Iterator[str]:
        found = missing_parts(agent, environ=environ, folder=folder, projects=config.projects)
        yield from (f"{one} Its runs would not start on this machine." for one in found)
        yield from gate_problems(agent)
        place = place_of(agent, folder, config.projects)
        yield from ways_around(agent, place, environ)
        yield from _synced(agent, place)

    return problems


def _synced(agent: AgentDefinition, place: str) -> Iterator[str]:
    """Yield where an agent writes into a folder that a service copies to other machines, past every gate and lease."""
    if service := is_synced_folder(place):
        yield (
            f"{service} copies its folder {place} to other machines, where this machine's leases and gates guard nothing; "
            "run it in a folder that is not copied."
        )
        return
    for name, target in zip(agent.gates, gate_targets(agent), strict=True):
        found = parse_target(target)
        if found.kind in PATHS and (service := is_synced_folder(os.path.join(place, os.path.expanduser(found.where)))):
            yield f"gate {name}: {service} copies its folder to other machines, where the gate guards nothing."


def place_of(agent: AgentDefinition, folder: str, projects: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the folder that an agent works in."""
    path = projects.get(agent.project, {}).get("path", "") if agent.project else ""
    return os.path.normpath(os.path.join(folder, os.path.expanduser(str(path)))) if path else folder


def _argv(agent: AgentDefinition) -> tuple[str, ...]:
    """Return the words that are started; none where only a shell, Python or a server can tell."""
    if agent.engine == "command":
        return () if agent.shell else agent.command
    try:
        if agent.engine == "claude":
            return tuple(definition_from(shipped("claude")).argv)
        return tuple(definition_of(agent).argv) if agent.engine == "cli" else ()
    except Invalid:
        return ()  # told when it is checked


def _is_program(word: str, place: str, path: str) -> bool:
    if "/" in word:
        file = os.path.join(place, word)
        return os.path.isfile(file) and os.access(file, os.X_OK)
    return shutil.which(word, path=path) is not None


def _script(argv: tuple[str, ...]) -> str:
    """Return the file that an interpreter is to run, if its first word is one: after an option it may be anything."""
    name = os.path.basename(argv[0])
    if name not in INTERPRETERS or len(argv) < 2 or argv[1].startswith("-") or "{" in argv[1]:  # noqa: PLR2004  # words
        return ""
    return argv[1] if "." in os.path.basename(argv[1]) or "/" in argv[1] else ""
