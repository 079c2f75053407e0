"""How an agent's command line is put together and its output read, written down as data.

A definition is a table, shipped with Fencepost or written by a user under `[engines.NAME]`. It travels in the agent's
manifest, so that a run executes exactly what was applied, on whichever worker.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.model.duration import parse_duration
from fencepost.model.errors import Invalid
from fencepost.model.nearest_name import nearest
from fencepost.model.output_rules import OutputRules, rules_from
from fencepost.model.placeholders import FIELDS, check_placeholders, fill
from fencepost.model.version import Version, version_in

PROMPT_BY = ("stdin", "file", "argument")
ENDINGS = {"succeeded": 0, "failed": 1, "misconfigured": 78}  # what a code means -> the code that is recorded
SPLICED = ("{args}", "{model_args}")  # stand alone, and become any number of words
WORDS = ("prompt", "prompt_file", "session", "model", "folder")
RESUME_PROMPT = (
    "You were interrupted in the middle of this task by a restart. Look at what is already done, do not do it again, "
    "and go on from there to the end."
)
EXIT_CODE_MAX = 255


@dataclass(frozen=True, slots=True)
class CliDefinition:
    """One agent CLI."""

    argv: tuple[str, ...]
    resume_argv: tuple[str, ...] = ()  # empty: it cannot go on with a session
    prompt_by: str = "stdin"
    model_args: tuple[str, ...] = ()
    names_session: bool = False  # {session} in argv is ours to choose, known before the first event
    resume_prompt: str = RESUME_PROMPT
    env: dict[str, str] = field(default_factory=dict)
    exit_codes: dict[int, str] = field(default_factory=dict)
    interrupt: str = "0s"  # how long SIGINT may take to end a turn before SIGTERM; 0s: no SIGINT
    result_grace: str = "60s"
    output: OutputRules = field(default_factory=OutputRules)
    version_argv: tuple[str, ...] = ()  # how it is asked which version it is
    tried: tuple[str, ...] = ()  # the versions that the definition was run with

    @property
    def can_resume(self) -> bool:
        """Whether a session can be taken up again."""
        return bool(self.resume_argv)


def definition_from(table: Mapping[str, Any]) -> CliDefinition:
    """Read a definition as it is written, or raise Invalid with the place and what to do."""
    known = CliDefinition.__dataclass_fields__
    if unknown := sorted(table.keys() - known.keys()):
        near = nearest(unknown[0], known)
        hint = f" Did you mean {near}?" if near else f" There are {', '.join(known)}."
        raise Invalid(f"{unknown[0]}: there is no such key.{hint}")
    found = CliDefinition(
        argv=_words(table, "argv"),
        resume_argv=_words(table, "resume_argv"),
        prompt_by=_choice(table, "prompt_by", PROMPT_BY, "stdin"),
        model_args=_words(table, "model_args"),
        names_session=table.get("names_session", False) is True,
        resume_prompt=_text(table, "resume_prompt", RESUME_PROMPT),
        env={str(name): str(value) for name, value in _table(table, "env").items()},
        exit_codes=_exit_codes(_table(table, "exit_codes")),
        interrupt=_duration(table, "interrupt", "0s"),
        result_grace=_duration(table, "result_grace", "60s"),
        output=rules_from(_table(table, "output")),
        version_argv=_words(table, "version_argv"),
        tried=_words(table, "tried"),
    )
    _check(found)
    return found


def newer_than_tried(tried: Sequence[str], installed: str) -> Version | None:
    """Return the version in what a program says of itself, if it is newer than every one it was tried with."""
    known = [version for one in tried if (version := version_in(one)) is not None]
    found = version_in(installed)
    return found if known and found is not None and found > max(known) else None


def manifest_of(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run needs of a definition: with which versions it was tried makes no new version of a schedule."""
    return {name: value for name, value in table.items() if name not in ("version_argv", "tried")}


def command_line(
    template: Sequence[str], *, args: Sequence[str], model_args: Sequence[str], values: Mapping[str, str]
) -> tuple[str, ...]:
    """Put a command line together: each value stays within its word, whatever is in it."""
    words: list[str] = []
    for word in template:
        if word == "{args}":
            words += args
        elif word == "{model_args}":
            words += [fill(one, values) for one in model_args] if values.get("model") else []
        else:
            words.append(fill(word, values))
    return tuple(words)


def _check(found: CliDefinition) -> None:
    if not found.argv or not found.argv[0]:
        raise Invalid('argv: name the program and its arguments, such as ["mycli", "run", "{args}", "{prompt}"].')
    known = (*WORDS, *FIELDS)
    for name in ("argv", "resume_argv", "model_args"):
        for word in getattr(found, name):
            if word not in SPLICED:
                _check_word(name, word, known)
    if found.prompt_by == "argument" and not _mentions(found.argv, "{prompt}"):
        raise Invalid('argv: prompt_by = "argument" needs a word with {prompt}.')
    if found.prompt_by == "file" and not _mentions(found.argv, "{prompt_file}"):
        raise Invalid('argv: prompt_by = "file" needs a word with {prompt_file}.')
    if found.names_session and not _mentions(found.argv, "{session}"):
        raise Invalid("argv: names_session = true needs a word with {session}.")
    if found.resume_argv and not found.names_session and not found.output.session:
        raise Invalid("resume_argv: to go on with a session, output.session must say where its id is found.")


def _check_word(name: str, word: str, known: Collection[str]) -> None:
    try:
        check_placeholders(word, known)
    except Invalid as error:
        raise Invalid(f"{name}: {error}") from None


def _mentions(argv: Sequence[str], placeholder: str) -> bool:
    return any(placeholder in word for word in argv)


def _words(table: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = table.get(name, [])
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise Invalid(f'{name}: expected a list of texts, such as ["mycli", "{{prompt}}"].')
    return tuple(value)


def _choice(table: Mapping[str, Any], name: str, words: Sequence[str], default: str) -> str:
    value = table.get(name, default)
    if value not in words:
        raise Invalid(f"{name}: {value!r} is none of {', '.join(words)}.")
    return str(value)


def _text(table: Mapping[str, Any], name: str, default: str) -> str:
    value = table.get(name, default)
    if not isinstance(value, str):
        raise Invalid(f"{name}: expected text in quotes.")
    check_placeholders(value, FIELDS)
    return value


def _duration(table: Mapping[str, Any], name: str, default: str) -> str:
    value = table.get(name, default)
    if not isinstance(value, str):
        raise Invalid(f'{name}: a duration has a unit and stands in quotes, such as "10s".')
    parse_duration(value)
    return value


def _table(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = table.get(name, {})
    if not isinstance(value, dict):
        raise Invalid(f"{name}: expected a table.")
    return value


def _exit_codes(table: Mapping[str, Any]) -> dict[int, str]:
    found = {}
    for code, meaning in table.items():
        if not (str(code).isascii() and str(code).isdigit() and int(code) <= EXIT_CODE_MAX):
            raise Invalid(f"exit_codes: {code!r} is no exit code from 0 to {EXIT_CODE_MAX}.")
        if meaning not in ENDINGS:
            raise Invalid(f"exit_codes.{code}: {meaning!r} is none of {', '.join(ENDINGS)}.")
        found[int(code)] = str(meaning)
    return found
