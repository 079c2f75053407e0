"""`fencepost apply`: put the definitions of a file into the registry, all of them or none."""

import argparse
import os
from collections.abc import Iterator
from itertools import chain, islice

from fencepost.cli import options
from fencepost.cli.plan import block, json_lines, summary
from fencepost.cli.registry import common_options, desk, file_of, this_file
from fencepost.config.load import load
from fencepost.model.registry_plan import ChangeKind
from fencepost.operations.agent_probe import probing_of
from fencepost.operations.schedule_registry import Planned, apply_config

NAMES_MAX = 3
SHOWN_MAX = 100
EPILOG = """\
examples:
  fencepost apply
  fencepost apply ops/fencepost.toml --take-over
"""


def main(argv: list[str]) -> int:
    """Apply a file."""
    args = parser().parse_args(argv)
    config = load(file_of(args))
    with desk(args, config) as at:
        done = apply_config(
            at.store.registry(),
            config,
            tenant=at.tenant,
            actor=at.actor,
            take_over=args.take_over,
            rollback=args.rollback,
            probing=probing_of(config, os.environ),
            file=this_file(config),
        )
    for line in json_lines(done, config) if args.json else page(done):
        print(line)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    found = argparse.ArgumentParser(
        prog="fencepost apply",
        description="Put the definitions of a file into the registry, atomically; what it no\nlonger defines is retired.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common_options()],
    )
    found.add_argument("file", nargs="?", metavar="FILE")
    found.add_argument("--take-over", action="store_true", help="move definitions of other files to this one")
    found.add_argument("--rollback", action="store_true", help="go back to this earlier version of the file")
    return found


def page(done: Planned) -> Iterator[str]:
    """Yield a line for each change, warnings, and the counts."""
    agents = (block("agent", one) for one in done.plan.agents if one.kind is not ChangeKind.UNCHANGED)
    schedules = (block("schedule", one) for one in done.plan.schedules if one.kind is not ChangeKind.UNCHANGED)
    changes = chain(agents, schedules)
    for change in islice(changes, SHOWN_MAX):
        yield from change
    if more := sum(1 for _ in changes):
        yield f"… and {more} more"
    for what, names, message in islice(_alike(done), SHOWN_MAX):
        yield options.folded(f"warning: {what} {names}: {message}", hang="  ")
    yield summary(done)


def _alike(done: Planned) -> Iterator[tuple[str, str, str]]:
    """Yield each warning once, with all that it is about."""
    about: dict[tuple[str, str], list[str]] = {}
    for one in done.warnings:
        about.setdefault((one.what, one.message), []).append(one.name)
    for (what, message), names in about.items():
        more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
        yield what if len(names) == 1 else f"{what}s", f"{', '.join(names[:NAMES_MAX])}{more}", message
