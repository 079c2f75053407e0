"""Writes the man page from what the commands say of themselves, so that it cannot say anything else.

Renew it with: make man
"""

from collections.abc import Iterator

from fencepost.cli.description import Description, Option, Positional, describe_all

INTRODUCTION = (
    "Fencepost runs scheduled AI agents so that no tick runs twice, no run overlaps where it must not, and a zombie can "
    "never write. Each lease carries a fence, a number that only rises, and the write target compares it."
)
EXIT_CODES = (
    ("0", "done"),
    ("1", "something went wrong, or was found"),
    ("2", "the command line or the input is not in order"),
    ("69", "the store is unavailable"),
    ("75", "busy: another holder has the lease"),
    ("76", "the lease was lost"),
    ("77", "a gate refused the write: a newer run has started"),
    ("78", "the configuration or a gate is not usable"),
    ("124", "timed out"),
    ("126", "the command to guard cannot be run"),
    ("127", "the command to guard was not found"),
)
FILES = (
    ("fencepost.toml", "the configuration, looked for from the current folder upwards"),
    ("~/.config/fencepost/fencepost.toml", "a person's own"),
    ("~/.local/state/fencepost/", "the store of a machine without a configuration, logs, and notes on projects"),
)


def page() -> str:
    """Write the whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield ".\\\" Written by fencepost.cli.man_page from the commands' own help."
    yield '.TH FENCEPOST 1 "" Fencepost "User Commands"'
    yield from (".SH NAME", "fencepost \\- run scheduled AI agents behind leases and fences")
    yield from (".SH SYNOPSIS", ".B fencepost", ".I COMMAND", "\\&...")
    yield from (".SH DESCRIPTION", _plain(INTRODUCTION))
    yield ".SH COMMANDS"
    for command in describe_all():
        yield from _command(command)
    yield from _table("EXIT STATUS", EXIT_CODES)
    yield from _table("FILES", FILES)


def _command(command: Description) -> Iterator[str]:
    words = [_word(one) for one in command.positionals] or (["\\fIACTION\\fR"] if command.actions else [])
    options = ["[\\fIoption\\fR ...]"] if command.options else []
    yield f".SS {' '.join(['fencepost', _plain(command.name), *options, *words])}"
    yield _plain(command.text or _sentence(command.summary))
    for place in command.positionals:
        if place.help:
            yield from (".TP", f"\\fI{_plain(place.metavar)}\\fR", _plain(place.help))
    for option in command.options:
        if "--help" not in option.names:
            yield from (".TP", _option(option), _plain(option.help) or "\\&")
    if command.examples and " " not in command.name:
        yield from (".PP", "Examples:", ".PP", ".nf", *map(_plain, command.examples.splitlines()), ".fi")


def _option(option: Option) -> str:
    names = ", ".join(f"\\fB{_plain(name)}\\fR" for name in option.names)
    value = f"\\fI{_plain(option.metavar)}\\fR"
    if not option.metavar:
        return names
    return f"{names}[={value}]" if option.value_after_equals_only else f"{names} {value}"


def _word(place: Positional) -> str:
    shown = f"\\fI{_plain(place.metavar)}\\fR{' ...' if place.many else ''}"
    return shown if place.needed else f"[{shown}]"


def _sentence(summary: str) -> str:
    return f"{summary[:1].upper()}{summary[1:]}." if summary else "\\&"


def _table(title: str, rows: tuple[tuple[str, str], ...]) -> Iterator[str]:
    yield f".SH {title}"
    for name, words in rows:
        yield from (".TP", f".B {_plain(name)}", _plain(words))


def _plain(text: str) -> str:
    """Spell text so that roff takes none of it for a command of its own."""
    spelled = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return f"\\&{spelled}" if spelled[:1] in (".", "'") else spelled


if __name__ == "__main__":
    print(page(), end="")
