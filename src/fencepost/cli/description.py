"""Describes the commands: what each one takes, read from the parser or the help text that the command itself uses.

The man page and the completion of shells are made from this, so that neither can say anything that `--help` does not.
"""

import argparse
import contextlib
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fencepost.cli.main import COMMANDS, load

LISTED = re.compile(r"^  ([a-z][\w-]*)  +(\S.*)$", re.MULTILINE)
OPTION = re.compile(r"^  (--[\w-]+)(?:(\[=)?[ =]?([A-Z][A-Z:]*)\]?)?(?:  +(\S.*))?$", re.MULTILINE)
BRACKET = re.compile(r"\[(--[\w-]+)(?: ([A-Z]+))?\]")
WORD = re.compile(r"^[A-Z]+$", re.MULTILINE)


class Option(NamedTuple):
    """An option of a command."""

    names: tuple[str, ...]
    metavar: str = ""  # nothing: it takes no value
    choices: tuple[str, ...] = ()
    help: str = ""
    repeatable: bool = False
    value_after_equals_only: bool = False


class Positional(NamedTuple):
    """A word that a command takes by its place."""

    metavar: str
    choices: tuple[str, ...] = ()
    help: str = ""
    needed: bool = True
    many: bool = False
    is_a_command: bool = False  # this word and all after it belong to a program of the caller's


class Description(NamedTuple):
    """What a command, or one of its actions, takes."""

    name: str
    summary: str
    text: str = ""
    options: tuple[Option, ...] = ()
    positionals: tuple[Positional, ...] = ()
    actions: tuple[tuple[str, str], ...] = ()  # each with its summary
    examples: str = ""


class _Parsing(Exception):  # no error: it carries the parser out of the command
    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


def describe(command: str, action: str = "") -> Description:
    """Describe a command or one of its actions."""
    words = [action] if action else []
    found, text = _ask(command, [*words, "--help"])
    name = " ".join([command, *words])
    if found is None:
        return _from_text(name, text, is_action=bool(action), summary="" if action else COMMANDS[command][1])
    if action and found.prog != f"fencepost {name}":
        found = _actions(found)[action]
    return _from_parser(name, found, summary="" if action else COMMANDS[command][1])


def describe_all() -> Iterator[Description]:
    """Describe every command, each followed by its actions."""
    for command in COMMANDS:
        whole = describe(command)
        yield whole
        for action, summary in whole.actions:
            yield describe(command, action)._replace(summary=summary.partition("; see '")[0])


def _ask(command: str, words: Sequence[str]) -> tuple[argparse.ArgumentParser | None, str]:
    """Call a command for its help; return the parser with which it would read its words, or else the text it printed."""
    said = io.StringIO()
    try:
        with _handing_over_parsers(), contextlib.redirect_stdout(said):
            load(command)(list(words))
    except _Parsing as parsing:
        return parsing.parser, ""
    return None, said.getvalue()


@contextlib.contextmanager
def _handing_over_parsers() -> Iterator[None]:
    """Let a parser that is to read words be handed over instead: commands build theirs where they use them."""
    before = argparse.ArgumentParser.parse_args

    def hand_over(self: argparse.ArgumentParser, *_: object, **__: object) -> Any:  # noqa: ANN401  # never returns
        raise _Parsing(self)

    setattr(argparse.ArgumentParser, "parse_args", hand_over)  # noqa: B010  # a type checker knows it as a method
    try:
        yield
    finally:
        setattr(argparse.ArgumentParser, "parse_args", before)  # noqa: B010  # mypy refuses the plain assignment


def _from_parser(name: str, parser: argparse.ArgumentParser, summary: str) -> Description:
    plain = [one for one in parser._actions if not isinstance(one, argparse._SubParsersAction)]  # noqa: SLF001  # argparse tells its options in no other way
    shown = [one for one in plain if one.help != argparse.SUPPRESS]
    return Description(
        name,
        summary,
        " ".join((parser.description or "").split()),
        tuple(_option(one) for one in shown if one.option_strings),
        tuple(_positional(one) for one in shown if not one.option_strings),
        tuple(_summaries(parser)),
        _examples(parser.epilog or ""),
    )


def _option(action: argparse.Action) -> Option:
    choices = tuple(map(str, action.choices or ()))
    takes_value = action.nargs != 0
    metavar = str(action.metavar or "|".join(choices) or action.dest.upper()) if takes_value else ""
    repeatable = isinstance(action, argparse._AppendAction)  # noqa: SLF001  # argparse tells its options in no other way
    return Option(tuple(action.option_strings), metavar, choices, _help(action), repeatable)


def _positional(action: argparse.Action) -> Positional:
    choices = tuple(map(str, action.choices or ()))
    rest = action.nargs == argparse.REMAINDER
    metavar = str(action.metavar or "|".join(choices) or action.dest.upper())
    many = action.nargs in ("*", "+") or rest
    return Positional(metavar, choices, _help(action), action.nargs not in ("?", "*"), many, rest)


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%")


def _summaries(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:  # noqa: SLF001  # argparse has no public way to them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  # argparse tells its options in no other way
            yield from ((one.dest, one.help or "") for one in action._choices_actions)  # noqa: SLF001  # argparse tells its options in no other way


def _actions(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = (one.choices for one in parser._actions if isinstance(one, argparse._SubParsersAction))  # noqa: SLF001  # argparse tells its options in no other way
    return next(found, {})


def _examples(epilog: str) -> str:
    return epilog.partition(":\n")[2].rstrip() if epilog.startswith("example") else epilog.rstrip()


def _from_text(name: str, text: str, *, is_action: bool, summary: str) -> Description:
    """Read the help of a command that parses its words by hand."""
    usages = re.findall(rf"fencepost {name}(?= |$)(.*)", text.partition("\n\n")[0])
    parts = dict(
        zip(*[iter(re.split(r"^(commands|options|examples):\n", text, flags=re.MULTILINE)[1:])] * 2, strict=True)
    )
    verbs = [(found[1], "") for usage in usages if (found := re.match(r" ([a-z]+)\b", usage))]
    listed = LISTED.findall(parts.get("commands", "")) or verbs
    options = [
        Option((one,), metavar, help=words, repeatable="repeatable" in words, value_after_equals_only=bool(equals))
        for one, equals, metavar, words in OPTION.findall(parts.get("options", ""))
    ]
    brackets = [
        Option((one,), metavar) for usage in [*usages, *_common(text)] for one, metavar in BRACKET.findall(usage)
    ]
    return Description(
        name,
        summary,
        "" if is_action else " ".join(text.split("\n\n")[1].split()),
        (*options, *brackets),
        tuple(_words(usages[0])) if usages and not listed else (),
        () if is_action else tuple(listed),
        "" if is_action else parts.get("examples", "").rstrip(),
    )


def _common(text: str) -> list[str]:
    return re.findall(r"^each with: (.*)$", text, re.MULTILINE)


def _words(usage: str) -> Iterator[Positional]:
    if " -- " in usage:
        yield Positional("COMMAND", many=True, is_a_command=True)
        return
    for word in re.sub(r"\[.*?\]", "", usage).split():
        if WORD.match(word):
            yield Positional(word)
