"""What the looking and acting commands have in common: their options, the store, and lines for people or scripts."""

import argparse
import json
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager

from fencepost import wiring
from fencepost.cli import render
from fencepost.operations.phrases import COLOUR
from fencepost.operations.records import as_json
from fencepost.operations.run_queries import Store
from fencepost.wiring import store_choice

WIDTH = 80
DEFAULT_TENANT = "default"
LIMIT_MAX = 1_000_000
RED, GREEN, YELLOW, FAINT, PLAIN = "\033[31m", "\033[32m", "\033[33m", "\033[2m", "\033[0m"


def parser(name: str, description: str, examples: str) -> argparse.ArgumentParser:
    """Begin a command's parser: the same width everywhere, so that the reference page does not depend on a terminal."""
    return argparse.ArgumentParser(
        prog=f"fencepost {name}",
        description=textwrap.fill(description, WIDTH),
        epilog=f"examples:\n{examples}" if examples else None,
        formatter_class=formatter,
        allow_abbrev=False,
    )


def action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, summary: str, examples: str = ""
) -> argparse.ArgumentParser:
    """Begin one of a command's actions; its summary is its description too."""
    return actions.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"examples:\n{examples}" if examples else None,
        allow_abbrev=False,
        formatter_class=formatter,
    )


def share_examples(
    made: argparse.ArgumentParser, actions: "argparse._SubParsersAction[argparse.ArgumentParser]"
) -> argparse.ArgumentParser:
    """Give each action its part of the command's examples, unless it has its own."""
    lines = (made.epilog or "").splitlines()
    for name, one in actions.choices.items():
        own = [line for line in lines if f"{line} ".startswith(f"  {made.prog} {name} ")]
        if own and not one.epilog:
            one.epilog = "\n".join(["examples:", *own])
            one.formatter_class = formatter
    return made


def formatter(prog: str) -> argparse.HelpFormatter:
    """Lay help out for 80 columns, whatever the terminal."""
    return argparse.RawDescriptionHelpFormatter(prog, width=WIDTH)


def add_store(to: argparse.ArgumentParser) -> None:
    """Say which store, which tenant, which file."""
    to.add_argument("--store", metavar="URL", help="sqlite:/path or postgresql://host/db")
    to.add_argument("--tenant", metavar="NAME", help="whose runs and schedules")
    to.add_argument("--config", metavar="FILE", help="the fencepost.toml to go by")


def add_json(to: argparse.ArgumentParser) -> None:
    """Offer lines for scripts."""
    to.add_argument("--json", action="store_true", help="one JSON object per line")


def add_listing(to: argparse.ArgumentParser, *, limit: int) -> None:
    """Offer what every listing has."""
    add_json(to)
    to.add_argument("--limit", type=positive, default=limit, metavar="N", help=f"how many (default {limit})")
    add_store(to)


def positive(text: str) -> int:
    """Read a number from 1 on."""
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) <= LIMIT_MAX):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {LIMIT_MAX}")
    return int(text)


@contextmanager
def opened(args: argparse.Namespace, *, make: bool = False) -> Iterator[Store]:
    """Open the store that the command line means, and say what a person should know about it.

    A file that is named and not there is an error, unless the command may `make` it; so is a tenant that the
    store does not know.
    """
    use_config(args)
    find = store_choice.store_url if make else store_choice.existing_store
    store = wiring.open_runtime(find(args.store, args.tenant))
    try:
        for notice in store.facts().notices:
            render.tell(notice)
        if args.tenant and not make:
            from fencepost.operations.tenants import check_tenant

            check_tenant(store, args.tenant)
        yield store
    finally:
        store.close()


def machine_store(args: argparse.Namespace) -> Iterator[Store]:
    """Yield this machine's own store, that of bare `exec`, where a configuration's was meant and no tenant was named."""
    for url in () if args.tenant else store_choice.machine_store(args.store):
        with closing(wiring.open_runtime(url)) as own:
            yield own


def url_of(args: argparse.Namespace) -> str:
    """Return the store that the command line means."""
    use_config(args)
    return store_choice.store_url(args.store, args.tenant)


def tenant_of(args: argparse.Namespace) -> str:
    """Return whose things are meant: named, or the configuration's."""
    use_config(args)
    return store_choice.tenant_name(args.tenant)


def use_config(args: argparse.Namespace) -> None:
    """Let --config be another way to spell FENCEPOST_CONFIG."""
    if args.config:
        os.environ["FENCEPOST_CONFIG"] = args.config


def print_json(rows: Iterable[object]) -> None:
    """Print records, or what else makes one object, one per line."""
    for row in rows:
        print(json_line(row))


def json_line(row: object) -> str:
    """Spell a record on one line."""
    return json.dumps(as_json(row))


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], colours: Sequence[str] = ()) -> None:
    """Print a table that fits; colour says nothing that the words do not."""
    lines = render.table(head, [[render.plain(cell) for cell in row] for row in rows]).split("\n")
    print(paint(lines[0], FAINT))
    for number, line in enumerate(lines[1:]):
        print(paint(line, colours[number] if number < len(colours) else ""))


def wrapped(text: str, *, indent: str = "") -> str:
    """Break a paragraph into lines that fit."""
    return textwrap.fill(
        render.plain(text),
        width=WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


def folded(line: str, *, hang: str) -> str:
    """Break a line that is too long for the terminal, the rest of it indented; in a pipe it stays one line."""
    if not sys.stdout.isatty():
        return line
    return textwrap.fill(
        line,
        width=render.width(),
        subsequent_indent=hang,
        break_on_hyphens=False,
        break_long_words=False,
        drop_whitespace=True,
    )


def homely(text: str) -> str:
    """Write the home folder as ~, which people know and which leaves room on the line."""
    home = os.path.expanduser("~")
    return text.replace(f"{home}/", "~/") if len(home) > 1 else text


def paint(text: str, colour: str) -> str:
    """Colour a line on a terminal that likes it."""
    return f"{colour}{text}{PLAIN}" if colour and coloured() else text


def coloured() -> bool:
    """Tell whether the reader sees colours."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def harmless(text: str) -> str:
    """Let an agent's output keep its lines and colours, and nothing else that would steer a terminal."""
    kept: list[str] = []
    end = 0
    for match in COLOUR.finditer(text):
        kept += [_printable(text[end : match.start()]), match[0]]
        end = match.end()
    return "".join([*kept, _printable(text[end:])])


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() or character in "\n\t" else "�" for character in text)
