"""`fencepost mcp`: an agent looks after schedules and runs, over stdin and stdout."""

import argparse

from fencepost import wiring
from fencepost.cli import options
from fencepost.cli.registry import actor
from fencepost.model.errors import Misconfigured

EXAMPLES = """\
  claude mcp add fencepost -- fencepost mcp
  fencepost mcp --read-only --tenant finance
"""


def main(argv: list[str]) -> int:
    """Serve until the other side leaves."""
    args = parser().parse_args(argv)
    try:
        from fencepost.mcp.seat import Counter, Seat
        from fencepost.mcp.server import build
    except ImportError:
        raise Misconfigured("the MCP door is not installed here; add it with: pip install 'fencepost[mcp]'") from None
    from fencepost.model.access import Role

    url = options.url_of(args)
    role = Role.READ if args.read_only else Role.ADMIN
    seat = Seat(options.tenant_of(args), role, f"{actor()} by mcp")
    counter = Counter(lambda: seat, lambda: wiring.open_runtime(url), options.new_run_id, wiring.log_folder())
    wiring.open_runtime(url).close()  # a store that is not there is told now, and not at the first call
    build(counter, acts=not args.read_only).run()
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser(
        "mcp",
        "Serve MCP on stdin and stdout, with the rights of this user in one tenant: list and show runs, schedules and dead "
        "letters, ask why, run, cancel, pause, resume, replay, discard.",
        EXAMPLES,
    )
    made.add_argument("--read-only", action="store_true", help="offer only what looks")
    options.add_store(made)
    return made
