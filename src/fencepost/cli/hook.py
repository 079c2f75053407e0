"""`fencepost hook`: what agents' hooks call. `check` runs before every tool call and imports next to nothing."""

from __future__ import annotations

import os
import sys

from fencepost.model import fast_signal as signal
from fencepost.model.errors import FencepostError, StoreUnavailable
from fencepost.model.fast_typing import TYPE_CHECKING
from fencepost.model.lease_check import DENIED, PASSED, UNASKED, denial, is_in_a_run

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Mapping

INPUT_MAX = 16_777_216
INPUT_SECONDS = 0.5  # a caller that says nothing for so long is not waited for

COMMANDS = {
    "check": "may this run's agent still act? exit 0 yes, exit 2 no",
    "session-start": "let a person's agent session hold its project",
    "session-end": "give the project back",
    "turn-start": "let a session hold its project until the end of its turn",
    "turn-end": "give the project back until the next prompt",
    "turn-check": "let a session that came second wait its turn before it acts",
    "install": "add the hooks to the settings of agent CLIs",
    "uninstall": "take them out again",
}


def main(argv: list[str]) -> int:
    """Run one hook and return its exit code."""
    name, rest = (argv[0], argv[1:]) if argv else ("", [])
    if name == "check":
        return check(rest)
    if name in ("", "-h", "--help", "help"):
        print(overview())
        return 0 if name else 2
    from fencepost.cli import hook_commands

    if name not in hook_commands.COMMANDS:
        print(f"fencepost hook: there is no command {name!r}. See 'fencepost hook --help'.", file=sys.stderr)
        return 2
    return hook_commands.COMMANDS[name](rest)


def check(argv: list[str]) -> int:
    """Let the agent go on, or deny it in the one way that every CLI understands; all that goes wrong is a no."""
    if argv[:1] and argv[0] in ("-h", "--help"):
        print(overview())
        return PASSED
    try:
        signal.signal(signal.SIGTERM, lambda *_: deny(UNASKED, at_once=True))
        why = refusal(os.environ)
        drain()
    except BaseException:  # noqa: BLE001  # also a Ctrl-C, and what we did not think of: none of it is a yes
        return deny(UNASKED)
    return PASSED if why is None else deny(why)


def refusal(environ: Mapping[str, str]) -> str | None:
    """Return why the agent may not act, or None if it may."""
    if not is_in_a_run(environ):
        return None
    from fencepost.operations.supervisor_client import ask_in

    try:
        ask_in(environ, "check")
    except StoreUnavailable as error:
        return denial(environ, f"the store does not answer: {error}")
    except FencepostError as error:
        return denial(environ, str(error))
    return None


def deny(why: str, *, at_once: bool = False) -> int:
    """Say why, past every buffer, and return what to leave with."""
    try:
        os.write(2, f"{why}\n".encode(errors="replace"))
    finally:  # where the output is closed, the exit code says it all
        if at_once:
            os._exit(DENIED)
        return DENIED  # noqa: B012  # an error here must not become another exit code


def drain() -> None:
    """Take what the agent tells us about its call out of the pipe: it decides nothing, and its writer need not fail."""
    from select import select

    left = INPUT_MAX
    try:
        while left > 0 and not os.isatty(0) and select([0], [], [], INPUT_SECONDS)[0]:
            data = os.read(0, 65_536)
            if not data:
                return
            left -= len(data)
    except (OSError, ValueError):
        return  # standard input is closed, or nothing that can be read


def overview() -> str:
    """Say what there is."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items()]
    return "\n".join(
        [
            "usage: fencepost hook COMMAND ...",
            "",
            "Checks an agent's lease before it acts; lets a person's session hold a project.",
            "",
            "commands:",
            *lines,
            "",
            "'fencepost hook COMMAND --help' shows options and examples.",
        ]
    )
