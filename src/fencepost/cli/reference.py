"""Writes the reference page of the commands from their own help, so that it cannot say anything else.

Renew it with: python -m fencepost.cli.reference > docs/reference/commands.md
"""

import argparse
import contextlib
import io
import os
from collections.abc import Iterator
from importlib import import_module
from inspect import signature

from fencepost.cli.main import COMMANDS, load, overview

NOTE = "<!-- Written by fencepost.cli.reference from the commands' own help. -->"
WIDTH = "80"


def page() -> str:
    """Write the whole page."""
    with _width():
        parts = ["# Commands", NOTE, _block(overview())]
        for name in COMMANDS:
            parts.append(f"## fencepost {name}")
            parts += [_block(text) for text in help_of(name)]
        return "\n\n".join(parts) + "\n"


def help_of(name: str) -> Iterator[str]:
    """Yield the help of a command, and of each of its actions where its parser tells them."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):  # argparse leaves this way
        load(name)(["--help"])
    yield said.getvalue()
    module = import_module(f"fencepost.cli.{COMMANDS[name][0].partition(':')[0]}")
    parser = getattr(module, "parser", None)
    if parser is not None and not signature(parser).parameters:
        yield from (one.format_help() for one in _actions(parser()))


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in parser._actions:  # noqa: SLF001  # argparse has no public way to them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  # argparse tells its options in no other way
            yield from action.choices.values()


def _block(text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.strip().splitlines())
    return f"```text\n{lines}\n```"


@contextlib.contextmanager
def _width() -> Iterator[None]:
    """Let no terminal have a say in how wide the page is, nor in its colours."""
    before = {name: os.environ.get(name) for name in ("COLUMNS", "NO_COLOR")}
    os.environ.update(COLUMNS=WIDTH, NO_COLOR="1")
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


if __name__ == "__main__":
    print(page(), end="")
