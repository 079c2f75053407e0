"""`fencepost mcp-gate`: stand between an agent and an MCP server."""

import argparse
import os
import sys

from fencepost.cli import options
from fencepost.model.errors import Invalid
from fencepost.model.fast_typing import Callable
from fencepost.model.mcp import server_name
from fencepost.model.terminal_text import tame
from fencepost.service.tool_gate import rules_of
from fencepost.wiring import fencing

EXAMPLES = """\
  fencepost mcp-gate -- uvx mcp-server-git --repository .
  fencepost mcp-gate --name mail --write send_mail \\
      --key-args send_mail=to,subject -- ./mail-server
  fencepost mcp-gate --url https://example.com/mcp \\
      --header Authorization=env:MCP_AUTHORIZATION
"""


def main(argv: list[str]) -> int:
    """Pass messages until one side is gone."""
    args = parser().parse_args(argv)
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if bool(command) == bool(args.url):
        raise Invalid("name one server: fencepost mcp-gate [options] -- COMMAND, or --url URL.")
    rules = rules_of(
        args.name or server_name([args.url] if args.url else command),
        writes=args.write,
        reads=args.read,
        key_args=args.key_args,
        resumed=os.environ.get("FENCEPOST_RESUME") == "1",
    )
    say = say_for(rules.server)
    if args.url:
        return fencing.gate_mcp_url(rules, args.url, args.header, outside=args.allow_outside, say=say)
    if args.header:
        raise Invalid("--header goes with --url; a server that is started here gets its settings by its environment.")
    return fencing.gate_mcp_command(rules, command, outside=args.allow_outside, say=say)


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser(
        "mcp-gate",
        "Stand between an agent and an MCP server: everything passes with its meaning, except that a tool is called only "
        "while the run holds its lease, and that each call of a tool that writes is recorded in the ledger and made once.",
        EXAMPLES,
    )
    made.add_argument(
        "--name", metavar="NAME", default="", help="the server's name in the ledger (default: its command)"
    )
    _repeated(made, "--write", "TOOL", "this tool writes, whatever the server says")
    _repeated(made, "--read", "TOOL", "this tool only reads, whatever the server says")
    _repeated(made, "--key-args", "TOOL=ARG,ARG", "what makes two calls the same one (default: all arguments)")
    made.add_argument("--url", metavar="URL", default="", help="a server that is reached over streamable HTTP")
    _repeated(made, "--header", "NAME=VALUE", "send this header to --url; env:NAME takes it from the environment")
    made.add_argument(
        "--allow-outside", action="store_true", help="outside of any run pass everything, for people's own sessions"
    )
    made.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the server to start")
    return made


def say_for(server: str) -> Callable[[str], None]:
    """Return a way to tell people, on standard error: standard output is the wire."""

    def say(text: str) -> None:
        print(f"fencepost mcp-gate {tame(server)}: {tame(text)}", file=sys.stderr, flush=True)

    return say


def _repeated(made: argparse.ArgumentParser, name: str, metavar: str, text: str) -> None:
    made.add_argument(name, action="append", default=[], metavar=metavar, help=f"{text} (repeatable)")
