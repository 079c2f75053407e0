"""The cli engine: any agent with a command line, by a definition that says how it is called and read."""

from collections.abc import Mapping
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from fencepost.engines.run_facts import facts_of
from fencepost.model.cli_definition import ENDINGS, CliDefinition, command_line, definition_from
from fencepost.model.definition import AgentDefinition
from fencepost.model.duration import parse_duration
from fencepost.model.errors import Invalid, Misconfigured
from fencepost.model.placeholders import fill
from fencepost.ports.engine import Launch, Manner, Setting
from fencepost.ports.runs import RunRow

PROMPT_FILE = "prompt.txt"


class CliEngine:
    """Starts an agent CLI by its definition, which the manifest carries."""

    __slots__ = ()

    def launch(self, agent: AgentDefinition, run: RunRow, setting: Setting) -> Launch:
        """Put the command line together; whatever a value holds, it stays within its word."""
        try:
            return launch_by(definition_of(agent), agent, run, setting)
        except Invalid as error:
            raise Misconfigured(f"agent {agent.name}: {error}") from None


def definition_of(agent: AgentDefinition) -> CliDefinition:
    """Return how the agent's CLI is called: the definition it was applied with, or its own `argv`."""
    options = agent.options
    return definition_from(options.get("definition") or {"argv": options.get("argv", [])})


def launch_by(
    definition: CliDefinition,
    agent: AgentDefinition,
    run: RunRow,
    setting: Setting,
    *,
    more: tuple[str, ...] = (),
    files: tuple[tuple[str, str], ...] = (),
) -> Launch:
    """Return what to start; with a session to go on with, that is resumed."""
    options = agent.options
    resumes = setting.session if run.resume and definition.can_resume else None
    named = _session_name(run) if definition.names_session and resumes is None else None
    facts = facts_of(run)
    prompt = fill(_prompt(definition, agent, resumes=resumes), facts)
    template = definition.resume_argv if resumes else definition.argv
    argv = command_line(
        template,
        args=(*more, *options.get("args", [])),
        model_args=definition.model_args,
        values={
            **facts,
            "prompt": prompt,
            "prompt_file": f"{setting.folder}/{PROMPT_FILE}",
            "session": resumes or named or "",
            "model": str(options.get("model", "")),
            "folder": setting.folder,
        },
    )
    by_file = ((PROMPT_FILE, prompt),) if definition.prompt_by == "file" else ()
    return Launch(
        argv,
        dict(definition.env),
        stdin=prompt if definition.prompt_by == "stdin" else "",
        files=(*by_file, *files),
        session=resumes or named,
        manner=manner_of(definition, options, resumes=resumes),
    )


def manner_of(definition: CliDefinition, options: Mapping[str, Any], *, resumes: str | None) -> Manner:
    """Return how to read and end the agent."""
    return Manner(
        definition.output,
        resumes=resumes,
        can_resume=definition.can_resume,
        exit_codes=tuple((code, ENDINGS[meaning]) for code, meaning in definition.exit_codes.items()),
        interrupt_seconds=parse_duration(definition.interrupt),
        result_grace_seconds=parse_duration(options.get("result_grace") or definition.result_grace),
    )


def _prompt(definition: CliDefinition, agent: AgentDefinition, *, resumes: str | None) -> str:
    if resumes is None:
        return agent.prompt
    return str(agent.options.get("resume_prompt") or definition.resume_prompt)


def _session_name(run: RunRow) -> str:
    """Name a conversation of this very attempt: no other attempt can have it, and it is known before the first event."""
    return str(uuid5(NAMESPACE_URL, f"fencepost:{run.id}:{run.fence}"))
