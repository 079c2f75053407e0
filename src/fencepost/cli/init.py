"""`fencepost init`: a commented fencepost.toml that works at once."""

import argparse
import os
import sys

from fencepost.cli.new_file import write_new
from fencepost.config.find import FILE
from fencepost.config.template import TEMPLATE, guess_zone, name_for
from fencepost.model.errors import Invalid
from fencepost.model.zone import find_zone

EPILOG = """\
examples:
  fencepost init
  fencepost init --yes --timezone Europe/Berlin
"""


def main(argv: list[str]) -> int:
    """Write the file, and say what comes next."""
    args = parser().parse_args(argv)
    path = os.path.abspath(args.file)
    if os.path.lexists(path):
        raise Invalid(f"{args.file} is there already; nothing was written.")
    zone = find_zone(args.timezone).name if args.timezone else _asked(guess_zone(os.environ), quiet=args.yes)
    write_new(path, TEMPLATE.format(name=name_for(os.path.dirname(path)), timezone=zone))
    print(f"wrote {args.file}, time zone {zone}.\nnext: fencepost plan, then: fencepost up")
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    found = argparse.ArgumentParser(
        prog="fencepost init",
        description="Write a commented fencepost.toml with a sample agent that runs every minute.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("file", nargs="?", default=FILE, metavar="FILE")
    found.add_argument("--timezone", metavar="Z", help="default: this machine's")
    found.add_argument("--yes", action="store_true", help="ask nothing")
    return found


def _asked(guess: str, *, quiet: bool) -> str:
    """Ask a person, if there is one; an empty answer takes the guess."""
    if quiet or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return guess
    try:
        answer = input(f"time zone of your schedules [{guess}]: ").strip()
    except (KeyboardInterrupt, EOFError):
        print()  # the shell's prompt begins on a line of its own
        raise KeyboardInterrupt from None
    return find_zone(answer).name if answer else guess
