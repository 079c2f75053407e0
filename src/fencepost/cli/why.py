"""`fencepost why NAME`: say why it ran, or did not."""

import argparse
from contextlib import suppress

from fencepost.cli import options
from fencepost.model.errors import Unknown
from fencepost.operations.command_history import why_lock, why_named
from fencepost.operations.records.tick_record import answer_record
from fencepost.operations.why import Explanation, WhyQuestion

EXAMPLES = """\
  fencepost why nightly                            the last tick, and the next
  fencepost why nightly --at 2026-03-29T02:30      wall time of the schedule
  fencepost why nightly --at 2026-03-29T01:30:00Z --json
  fencepost why lock:digest                        what exec ran under a lock
"""


def main(argv: list[str]) -> int:
    """Answer one question."""
    args = parser().parse_args(argv)
    asked, answers = answered(args)
    if args.json:
        options.print_json(answer_record(asked, answer) for answer in answers)
        return 0
    for answer in answers:
        for sentence in answer.sentences:
            print(options.wrapped(sentence))
    return 0


def answered(args: argparse.Namespace) -> tuple[WhyQuestion, list[Explanation]]:
    """Ask about a schedule of that name, else about a lock, here and in this machine's own store."""
    tenant = options.tenant_of(args)
    with options.opened(args) as store:
        try:
            return why_named(store, tenant, args.name, args.at)
        except Unknown as neither:
            unknown = neither
    with suppress(Unknown):
        for own in options.machine_store(args):
            return why_lock(own, options.DEFAULT_TENANT, args.name, args.at)
    raise unknown


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser(
        "why",
        "Say why a schedule ran, or did not, at an instant, or what ran under a lock\nof 'exec': from recorded facts, never a guess.",
        EXAMPLES,
    )
    made.add_argument("name", metavar="SCHEDULE", help="the schedule, or the lock of a guarded command")
    made.add_argument("--at", metavar="T", help="an instant, or wall time of the schedule (default: its last tick)")
    options.add_json(made)
    options.add_store(made)
    return made
