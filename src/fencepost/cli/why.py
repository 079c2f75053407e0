"""`fencepost why NAME`: say why it ran, or did not."""

import argparse

from fencepost.cli import options
from fencepost.operations.why import answer_fields, why

EXAMPLES = """\
  fencepost why nightly                            the last tick, and the next
  fencepost why nightly --at 2026-03-29T02:30      wall time of the schedule
  fencepost why nightly --at 2026-03-29T01:30:00Z --json
"""


def main(argv: list[str]) -> int:
    """Answer one question."""
    args = parser().parse_args(argv)
    with options.opened(args) as store:
        asked, answers = why(store, options.tenant_of(args), args.name, args.at)
    if args.json:
        options.print_json(answer_fields(asked, answer) for answer in answers)
        return 0
    for answer in answers:
        for sentence in answer.sentences:
            print(options.wrapped(sentence))
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser(
        "why", "Say why a schedule ran, or did not, at an instant: from recorded facts, never a guess.", EXAMPLES
    )
    made.add_argument("name", metavar="SCHEDULE", help="the schedule")
    made.add_argument("--at", metavar="T", help="an instant, or wall time of the schedule (default: its last tick)")
    options.add_json(made)
    options.add_store(made)
    return made
