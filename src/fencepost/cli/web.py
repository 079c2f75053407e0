"""`fencepost web`: the web door alone; `up` starts one beside itself."""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from fencepost.cli import options
from fencepost.model.errors import Misconfigured

EXAMPLES = """\
  fencepost web                             on 127.0.0.1:7420, or the next port
  fencepost web --port 8080 --allow-host fencepost.example.com
"""
NEEDED = ("fastapi", "jinja2", "uvicorn", "prometheus_client")
MISSING = "the web door is not installed; install it with: pip install 'fencepost[web]'"
PORT_MAX = 65_535
END_SECONDS = 10


def main(argv: list[str]) -> int:
    """Serve until asked to stop."""
    args = parser().parse_args(argv)
    if not is_installed():
        raise Misconfigured(MISSING)
    from fencepost.web.server import Address, serve

    address = Address(args.host, args.port, tuple(args.allow_host))
    return serve(options.url_of(args), options.tenant_of(args), address, parent=args.parent)


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser(
        "web",
        "Serve the dashboard, the HTTP API and webhooks, and print a login link. Reached from this machine only.",
        EXAMPLES,
    )
    made.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (127.0.0.1)")
    add_port(made)
    made.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="one more name by which it is reached, as browsers write it: name or name:port",
    )
    made.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    options.add_store(made)
    return made


def add_port(to: argparse.ArgumentParser) -> None:
    """Say which port."""
    to.add_argument("--port", type=port, metavar="P", help="the port (7420, or the next that is free)")


def port(text: str) -> int:
    """Read a port."""
    if not (text.isascii() and text.isdigit() and int(text[:6]) <= PORT_MAX):
        raise argparse.ArgumentTypeError(f"{text!r} is no port from 0 to {PORT_MAX}")
    return int(text)


def is_installed() -> bool:
    """Tell whether what the web door is made of is there."""
    return all(find_spec(name) is not None for name in NEEDED)


def start_beside(words: Sequence[str], *, store: str) -> subprocess.Popen[bytes]:
    """Start the web door as a program of its own: it shares nothing with us, and ends when we are gone."""
    argv = [sys.executable, "-m", "fencepost", "web", *words, "--parent", str(os.getpid())]
    environment = {**os.environ, "FENCEPOST_STORE": store}  # not an argument: others can read those
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, env=environment, start_new_session=True)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End it, and wait for that."""
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
