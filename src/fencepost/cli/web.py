"""`fencepost web`: the web door alone; `up` starts one beside itself."""

import argparse
import os
import subprocess
from collections.abc import Callable, Sequence
from importlib.util import find_spec

from fencepost.cli import options
from fencepost.model.errors import Misconfigured
from fencepost.model.own_program import own_program
from fencepost.wiring import store_choice

EXAMPLES = """\
  fencepost web                             on 127.0.0.1:7420, or the next port
  fencepost web --port 8080 --allow-host fencepost.example.com
"""
NEEDED = ("fastapi", "httptools", "jinja2", "uvicorn", "prometheus_client")
MISSING = "the web door is not installed; install it with: pip install 'fencepost[web]'"
PORT_MAX = 65_535
END_SECONDS = 10
AGAIN_SECONDS, AGAIN_MAX_SECONDS = 1.0, 60.0
LOOK_SECONDS = 1.0
HOPELESS = (2, 78)  # what it was told cannot work


def main(argv: list[str]) -> int:
    """Serve until asked to stop."""
    args = parser().parse_args(argv)
    if not is_installed():
        raise Misconfigured(MISSING)
    from fencepost.web.server import WebAddress, serve

    options.use_config(args)
    # The parent may be about to make the store; a person who names a file that is not there is mistaken.
    find = store_choice.existing_store if args.parent is None else store_choice.store_url
    url = find(args.store, args.tenant)
    address = WebAddress(args.host, args.port, tuple(args.allow_host))
    return serve(url, options.tenant_of(args), address, parent=args.parent)


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser(
        "web",
        "Serve the dashboard, the HTTP API and webhooks, and print a login link. Reached from this machine only.",
        EXAMPLES,
    )
    made.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (127.0.0.1)")
    add_port(made)
    add_allow_host(made)
    made.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    options.add_store(made)
    return made


def add_port(to: argparse.ArgumentParser) -> None:
    """Say which port."""
    to.add_argument("--port", type=port, metavar="P", help="the port (7420, or the next that is free)")


def add_allow_host(to: argparse.ArgumentParser) -> None:
    """Say by which other names it is reached."""
    to.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="one more name by which it is reached, as browsers write it: name or name:port",
    )


def port(text: str) -> int:
    """Read a port."""
    if not (text.isascii() and text.isdigit() and int(text[:6]) <= PORT_MAX):
        raise argparse.ArgumentTypeError(f"{text!r} is no port from 0 to {PORT_MAX}")
    return int(text)


def is_installed() -> bool:
    """Tell whether what the web door is made of is there."""
    return all(find_spec(name) is not None for name in NEEDED)


class Beside:
    """The web door as a program of its own: it shares nothing with us, is started again when it dies, ends with us.

    No thread watches it, because `up` forks: it is looked at now and then, as one of the station's chores.
    """

    def __init__(self, words: Sequence[str], *, store: str, say: Callable[[str], None]) -> None:
        self._argv = [*own_program(), "web", *words, "--parent", str(os.getpid())]
        self._environment = {**os.environ, "FENCEPOST_STORE": store}  # not an argument: others can read those
        self._say = say
        self._pause = AGAIN_SECONDS
        self._process: subprocess.Popen[bytes] | None = None

    def keep(self) -> float:
        """Start it if it is not there; again if it has died, later each time. Return in how many seconds to look again.

        It is left alone when it has said that it cannot work with what it was told.
        """
        if self._process is None:
            self._process = self._start()
            return LOOK_SECONDS
        code = self._process.poll()
        if code is None or code in HOPELESS:
            return LOOK_SECONDS
        pause, self._pause = self._pause, min(self._pause * 2, AGAIN_MAX_SECONDS)
        self._say(f"web: it ended with code {code}; it is started again in {pause:g} s.")
        self._process = None
        return pause

    def stop(self) -> None:
        """End it, and wait for that."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._argv, stdin=subprocess.DEVNULL, env=self._environment, start_new_session=True)
