"""`fencepost progress`: tell the supervisor, from inside a run, that the work goes on."""

import argparse

from fencepost.cli import options
from fencepost.model.errors import Invalid
from fencepost.operations.supervisor_client import ask, is_inside

EXAMPLES = """\
  fencepost progress "read 400 of 900 files"
"""
CONTENT_MAX = 2_000


def main(argv: list[str]) -> int:
    """Report progress."""
    args = parser().parse_args(argv)
    if not is_inside():
        raise Invalid("progress is reported from inside a run, where FENCEPOST_SOCKET is set; there is none here.")
    ask("progress", content=" ".join(args.text)[:CONTENT_MAX])
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser(
        "progress",
        "Tell the supervisor of this run that the work goes on, so that stall_timeout begins anew.",
        EXAMPLES,
    )
    made.add_argument("text", nargs="*", metavar="TEXT", help="what was reached, for people")
    return made
