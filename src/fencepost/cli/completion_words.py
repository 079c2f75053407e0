"""Finds the words that may stand where a person has pressed Tab, from what the commands say of themselves."""

import os
import re
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

from fencepost import wiring
from fencepost.cli.description import Description, Option, Positional, describe
from fencepost.cli.main import COMMANDS
from fencepost.config.find import config_path, gates_of
from fencepost.operations.known_names import STORED, KnownName, project_names, stored_names
from fencepost.wiring import store_choice

# A shell knows these better than we do, so it is told to look by itself.
FILES, FOLDERS, PROGRAMS = KnownName("", "files"), KnownName("", "folders"), KnownName("", "programs")
BY_SHELL = {"file": FILES, "path": FILES, "folder": FOLDERS, "source": FOLDERS, "dest": FILES, "repository": FOLDERS}


PATIENCE_SECONDS = 5  # a person waits at the prompt; a store that is away has nothing to say


class Typed(NamedTuple):
    """What stands before the cursor, after the command and its action."""

    values: dict[str, str]  # of options
    used: frozenset[str]
    plain: tuple[str, ...]
    waiting: Option | None  # for its value, which is being typed
    is_theirs: bool  # all that follows belongs to the caller's own program


def split_line(line: str) -> list[str]:
    """Split a line as a shell does; the last word is the one that is being typed, and a quote may still be open."""
    for end in ("", "'", '"'):
        try:
            words = shlex.split(line + end)
        except ValueError:
            continue
        return [*words, ""] if not end and line[-1:].isspace() else words
    return line.split(" ")


def candidates(words: Sequence[str]) -> Iterator[KnownName]:
    """Yield what may stand in the place of the last word; the first one is the first after `fencepost`."""
    *before, current = words or [""]
    if not before:
        yield from _beginning(current, ((name, summary) for name, (_, summary) in COMMANDS.items()))
        return
    if before[0] not in COMMANDS:
        return
    whole = describe(before[0])
    if not whole.actions:
        yield from _inside(whole, before[1:], current)
    elif len(before) == 1:
        yield from _beginning(current, whole.actions)
        yield from _beginning(current, _option_names(whole, frozenset())) if current.startswith("-") else ()
    elif before[1] in dict(whole.actions):
        yield from _inside(describe(before[0], before[1]), before[2:], current)


def _inside(command: Description, before: Sequence[str], current: str) -> Iterator[KnownName]:
    typed = _read(command, before)
    name, equals, value = current.partition("=")
    option = _option(command, name) if equals else None
    if typed.is_theirs:
        yield PROGRAMS if not typed.plain else FILES
    elif typed.waiting:
        yield from _values(typed.waiting, typed, current)
    elif option:
        yield from (one._replace(name=f"{name}={one.name}") for one in _values(option, typed, value) if one.name)
    elif current.startswith("-"):
        yield from _beginning(current, _option_names(command, typed.used))
    else:
        place = _place(command, len(typed.plain))
        yield from _values(place, typed, current) if place else ()


def _read(command: Description, before: Sequence[str]) -> Typed:
    values: dict[str, str] = {}
    used: set[str] = set()
    plain: list[str] = []
    waiting: Option | None = None
    ends = any(one.is_a_command for one in command.positionals)
    for number, word in enumerate(before):
        name, equals, value = word.partition("=")
        option = _option(command, name)
        if waiting:
            values[waiting.names[-1]] = word
            waiting = None
        elif word == "--" or (ends and not word.startswith("-")):
            rest = before[number + (word == "--") :]
            return Typed(values, frozenset(used), tuple(rest), None, is_theirs=True)
        elif option:
            used |= set(option.names) if not option.repeatable else set()
            values |= {option.names[-1]: value} if equals else {}
            waiting = option if option.metavar and not equals and not option.value_after_equals_only else None
        elif not word.startswith("-"):
            plain.append(word)
    return Typed(values, frozenset(used), tuple(plain), waiting, is_theirs=False)


def _option(command: Description, name: str) -> Option | None:
    return next((one for one in command.options if name in one.names), None)


def _option_names(command: Description, used: frozenset[str]) -> Iterator[tuple[str, str]]:
    for option in command.options:
        if not used & set(option.names):
            yield from ((name, option.help) for name in option.names if name != "-h")


def _place(command: Description, number: int) -> Positional | None:
    known = command.positionals
    if number < len(known):
        return known[number]
    return known[-1] if known and known[-1].many else None


def _values(place: Option | Positional, typed: Typed, current: str) -> Iterator[KnownName]:
    """Yield what a value may be: one of the choices, or of the kinds of things that its name in the help names."""
    if isinstance(place, Positional) and place.is_a_command:
        yield PROGRAMS
    elif place.choices:
        yield from _beginning(current, ((choice, "") for choice in place.choices))
    else:
        for kind in _kinds(place):
            yield from _of_kind(kind, typed, current)


def _kinds(place: Option | Positional) -> Iterator[str]:
    names = place.names if isinstance(place, Option) else ()
    yield from dict.fromkeys(re.findall(r"[a-z]+", " ".join([*names, place.metavar]).lower()))


def _of_kind(kind: str, typed: Typed, current: str) -> Iterator[KnownName]:
    if kind in BY_SHELL:
        yield BY_SHELL[kind]
    elif kind == "project":
        yield from project_names(os.environ, os.getcwd(), current)
        yield FOLDERS
    elif kind == "target":
        path = config_path(os.environ, os.getcwd())
        yield from _beginning(current, ((name, "gate") for name in (gates_of(path) if path else ())))
    elif kind == "timezone":
        from zoneinfo import available_timezones

        yield from _beginning(current, ((zone, "") for zone in sorted(available_timezones())))
    elif kind in STORED:
        yield from _stored(kind, typed, current)


def _stored(kind: str, typed: Typed, current: str) -> Iterator[KnownName]:
    """Ask the store that the line means; one that is not there yet is not made."""
    if typed.values.get("--config"):
        os.environ["FENCEPOST_CONFIG"] = typed.values["--config"]
    url = store_choice.store_url(typed.values.get("--store"), typed.values.get("--tenant"))
    if not store_choice.may_be_there(url):
        return
    signal.alarm(PATIENCE_SECONDS)  # which ends this process; how long a busy machine took to get here does not count
    try:
        with closing(wiring.open_runtime(url)) as store:
            found = list(stored_names(store, store_choice.tenant_name(typed.values.get("--tenant")), kind, current))
    finally:
        signal.alarm(0)
    yield from found


def _beginning(current: str, known: Iterator[tuple[str, str]] | Sequence[tuple[str, str]]) -> Iterator[KnownName]:
    return (KnownName(name, note) for name, note in known if name.startswith(current))
