"""`fencepost mcp`: an agent looks after schedules and runs, over stdin and stdout, or over HTTP with a key."""

import argparse
import os
import subprocess
import sys

from fencepost import wiring
from fencepost.cli import options
from fencepost.cli.registry import actor
from fencepost.cli.web import MISSING as WEB_MISSING
from fencepost.cli.web import add_allow_host, is_installed
from fencepost.model.errors import Invalid, Misconfigured
from fencepost.model.lease_check import is_in_a_run
from fencepost.model.own_program import own_program
from fencepost.wiring import state_folders, store_choice, tenant_secrets

EXAMPLES = """\
  claude mcp add fencepost -- fencepost mcp
  fencepost mcp --read-only --tenant finance
  fencepost mcp --allow apply               may define schedules and agents
  fencepost mcp --drive                     sessions alone keep schedules going
  fencepost mcp --http 7422                 on 127.0.0.1, for holders of a key
"""


def main(argv: list[str]) -> int:
    """Serve until the other side leaves, or until asked to stop."""
    args = parser().parse_args(argv)
    try:
        from fencepost.mcp.caller import Counter, Seat
        from fencepost.mcp.server import build
    except ImportError:
        raise Misconfigured("the MCP door is not installed here; add it with: pip install 'fencepost[mcp]'") from None
    from fencepost.model.access import Role

    options.use_config(args)
    url = store_choice.existing_store(args.store, args.tenant)
    if args.http is not None:
        return _serve_http(args, url)
    if args.read_only and args.allow:
        raise Invalid("--read-only offers only what looks; leave it out, or --allow apply.")
    if args.allow_host:
        raise Invalid("--allow-host is for --http; a server on stdin and stdout has no host name.")
    role = Role.READ if args.read_only else Role.ADMIN
    seat = Seat(options.tenant_of(args), role, f"{actor()} by mcp")
    counter = Counter(
        lambda: seat,
        lambda: wiring.open_runtime(url),
        wiring.new_run_id,
        state_folders.log_folder(),
        tenant_secrets.own_rights,
    )
    with options.opened(args):  # a store or a tenant that is not there is told now, and not at the first call
        pass
    if args.drive:
        _drive(args)
    build(counter, acts=not args.read_only, defines=bool(args.allow), commands=args.allow_commands).run()
    return 0


def _drive(args: argparse.Namespace) -> None:
    """Schedule and work beside the session, as `up` does: of all sessions one drives, and its end hands over.

    Not inside a run of ours: a scheduled agent loads the same settings, and would keep its own schedule going.
    """
    if is_in_a_run(os.environ):
        sys.stderr.write("fencepost: this is a run, which drives no schedules.\n")
        return
    words = ["up", "--no-web", "--quiet", "--with-parent"]
    words += ["--config", args.config] if args.config else []
    words += ["--store", args.store] if args.store else []
    subprocess.Popen(
        [*own_program(), *words],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,  # stdout is the wire
        start_new_session=True,  # what ends the session's tree does not end its agents
    )


def _serve_http(args: argparse.Namespace, url: str) -> int:
    """Serve streamable HTTP through the web door's gatekeeper: a key says whose things, and what may be done."""
    if args.drive:
        raise Invalid("--drive is for a session, over stdin and stdout; beside a web server, start: fencepost up")
    if args.allow or args.allow_commands:
        raise Invalid(
            "--allow and --allow-commands are for stdin and stdout; over HTTP use PUT /api/v1/schedules/NAME."
        )
    if args.tenant:
        raise Invalid("--tenant is for stdin and stdout; over HTTP a key says whose things: key create --tenant NAME")
    if not is_installed():
        raise Misconfigured(WEB_MISSING)
    from fencepost.service.proxy import parse_listen
    from fencepost.web.server import WebAddress, serve_mcp

    host, port = parse_listen(args.http)
    address = WebAddress(host, port, tuple(args.allow_host), "--http HOST:PORT")
    return serve_mcp(url, address, acts=not args.read_only)


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser(
        "mcp",
        "Serve MCP: list and show runs, schedules and dead letters, ask why, run, cancel, pause, resume, skip, backfill, "
        "replay, discard. "
        "On stdin and stdout with the rights of this user in one tenant; with --http for holders of a key, within its "
        "role and tenant.",
        EXAMPLES,
    )
    made.add_argument("--read-only", action="store_true", help="offer only what looks")
    made.add_argument(
        "--allow", choices=["apply"], help="apply: offer to plan, apply, define and retire schedules and agents"
    )
    made.add_argument(
        "--allow-commands", action="store_true", help="with --allow apply: agents with commands of their own, too"
    )
    made.add_argument(
        "--drive", action="store_true", help="keep the schedules going while this session lives; of several, one does"
    )
    made.add_argument("--http", metavar="HOST:PORT", help="serve streamable HTTP at /mcp; PORT alone: on 127.0.0.1")
    add_allow_host(made)
    options.add_store(made)
    return made
