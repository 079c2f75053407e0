"""`fencepost import`: other schedulers' files as a fencepost.toml."""

import argparse
import os
import subprocess
import sys

from fencepost.cli import options
from fencepost.cli.new_file import write_new
from fencepost.cli.render import tell
from fencepost.config.find import FILE
from fencepost.config.template import guess_zone
from fencepost.model.errors import Invalid
from fencepost.operations.crontab import import_crontab
from fencepost.operations.importing import Imported, import_claude, toml_of
from fencepost.operations.phrases import counted
from fencepost.operations.untether import import_untether

EXAMPLES = """\
  fencepost import crontab                      this user's crontab, to stdout
  fencepost import crontab --file /etc/crontab --system
  fencepost import claude --write fencepost.toml
  fencepost import untether --file ~/.untether/untether.toml
"""
CLAUDE = ".claude/scheduled_tasks.json"
UNTETHER = "~/.untether/untether.toml"
SIZE_MAX = 10_000_000


def main(argv: list[str]) -> int:
    """Read, convert, and print or write; tell what differs."""
    args = parser().parse_args(argv)
    zone = args.timezone or guess_zone(os.environ)
    found = convert(args, zone)
    for warning in found.warnings:
        tell(f"warning: {warning.rstrip('.')}.")
    if args.write:
        write_new(args.write, toml_of(found))
        print(f"wrote {args.write}: {counted(len(found.schedules), 'schedule')}. next: fencepost plan")
    else:
        print(toml_of(found), end="")
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser(
        "import",
        "Turn another scheduler's file into a fencepost.toml. Where the meaning differs you are warned; "
        "nothing of the other scheduler is changed.",
        EXAMPLES,
    )
    made.add_argument("kind", choices=["crontab", "claude", "untether"])
    made.add_argument("--file", metavar="FILE", help="what to read; - is standard input")
    made.add_argument("--system", action="store_true", help="crontab: each line names a user, as in /etc/crontab")
    made.add_argument("--timezone", metavar="Z", help="the zone it was meant in (default: this machine's)")
    made.add_argument("--write", metavar="FILE", help=f"write it there, such as {FILE}; never over another file")
    return made


def convert(args: argparse.Namespace, zone: str) -> Imported:
    """Read what is to be imported and convert it."""
    if args.kind == "crontab":
        text = _read(args.file) if args.file else _own_crontab()
        return import_crontab(text, timezone=zone, system=args.system)
    if args.kind == "claude":
        path = args.file or CLAUDE
        folder = os.path.dirname(os.path.dirname(os.path.abspath(path))) if path != "-" else os.getcwd()
        return import_claude(_read(path), timezone=zone, project=folder)
    path = args.file or os.path.expanduser(UNTETHER)
    folder = os.path.dirname(os.path.abspath(path)) if path != "-" else ""
    return import_untether(_read(path), timezone=zone, folder=folder)


def _own_crontab() -> str:
    try:
        done = subprocess.run(["crontab", "-l"], capture_output=True, text=True, timeout=30, check=False)
    except FileNotFoundError:
        raise Invalid("there is no crontab command here; name a file with --file.") from None
    except subprocess.TimeoutExpired:
        raise Invalid("crontab -l does not answer; name a file with --file.") from None
    if done.returncode:
        raise Invalid(f"crontab -l says: {done.stderr.strip() or done.returncode}")
    return done.stdout


def _read(path: str) -> str:
    try:
        if path == "-":
            return sys.stdin.read(SIZE_MAX)
        with open(path, encoding="utf-8") as file:
            return file.read(SIZE_MAX)
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}; name another with --file.") from None
    except UnicodeDecodeError:
        raise Invalid(f"{path} is no text in UTF-8.") from None
