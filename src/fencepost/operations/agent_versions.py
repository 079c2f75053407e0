"""Which versions of agent CLIs are installed here, beside those that their definitions were tried with."""

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fencepost.config.load import Config
from fencepost.model.cli_definition import newer_than_tried
from fencepost.model.definition import AgentDefinition
from fencepost.model.version import show_version, version_in
from fencepost.operations.doctor_finding import CheckFinding, Status

AskVersion = Callable[[Sequence[str], Mapping[str, str]], str]
LOOK = "look at its first runs: how they end, what they cost, whether they resume; or install a version that was tried"
ANSWER_SECONDS = 20.0  # a Python program that imports much takes several


def ask_version(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """Start a program that tells its version, and return what it says; nothing if it says nothing in time."""
    program = shutil.which(argv[0], path=environ.get("PATH"))
    if program is None:
        return ""
    try:
        ran = subprocess.run(
            [program, *argv[1:]],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.decode("utf-8", "replace")


def untried(config: Config, environ: Mapping[str, str], ask: AskVersion) -> Iterator[CheckFinding]:
    """Yield a finding for each CLI of the configured agents that can tell its version."""
    for name, definition in _used(config).items():
        said = ask(definition["version_argv"], environ)
        found, tried = version_in(said), definition.get("tried", [])
        if found is None:
            continue  # it is not here, which is told with its agent, or does not say
        newer = newer_than_tried(tried, said)
        if tried and newer is None:
            words = f"{show_version(found)}; its definition was tried with {', '.join(tried)}"
            yield CheckFinding(f"{name} version", Status.OK, words)
            continue
        words = (
            f"{show_version(found)} is newer than what its definition was tried with ({', '.join(tried)})"
            if tried
            else f"{show_version(found)}; its definition follows its documentation, and was never run with a real one"
        )
        yield CheckFinding(f"{name} version", Status.WARN, words, LOOK)


def _used(config: Config) -> dict[str, Mapping[str, Any]]:
    """Return the definitions that agents are run by, as far as they can be asked."""
    names = {_preset(agent) for agent in config.agents.values()}
    known = {name: config.engines[name] for name in sorted(names) if name in config.engines}
    return {name: one for name, one in known.items() if one.get("version_argv") and "tried" in one}


def _preset(agent: AgentDefinition) -> str:
    return "claude" if agent.engine == "claude" else str(agent.options.get("preset", ""))
