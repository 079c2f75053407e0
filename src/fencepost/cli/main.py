"""Find the command, load only its module, and turn errors into a sentence and an exit code.

`exec`, `gate` and `hook` run from crontabs and on every tool call, so nothing is imported here
that the command itself does not use.
"""

import os
import sys

from fencepost.model.errors import FencepostError

# command -> (module under fencepost.cli, what it does); the module has main(argv) -> exit code.
COMMANDS = {
    "exec": ("exec", "guard one command: lease, fence, renew, kill on loss"),
    "lease": ("lease", "list leases, or break one"),
    "gate": ("gate", "check, raise and write through a gate"),
    "ticks": ("ticks", "preview the ticks of a cron expression, DST days in words"),
    "store": ("store", "migrate, back up, restore or bump the store"),
    "version": ("version", "print the version"),
}


def run() -> None:
    """Run as the console script."""
    sys.exit(main(sys.argv[1:]))


def main(argv: list[str]) -> int:
    """Run one command line and return its exit code."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    name, rest = argv[0], argv[1:]
    if name in ("-V", "--version"):
        name = "version"
    if name not in COMMANDS:
        print(f"fencepost: there is no command {name!r}.{suggestion(name)} See 'fencepost --help'.", file=sys.stderr)
        return 2
    try:
        return int(load(name)(rest))
    except FencepostError as error:
        print(f"fencepost: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader (head, a pager) left; point stdout at nothing so that the interpreter's own flush stays quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def load(name: str):  # type: ignore[no-untyped-def]  # noqa: ANN201  # naming the type would import typing
    """Return the command's main function."""
    module = __import__(f"fencepost.cli.{COMMANDS[name][0]}", fromlist=["main"])
    return module.main


def overview() -> str:
    """Say what there is."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {summary}" for name, (_, summary) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: fencepost COMMAND ...",
            "",
            "Runs scheduled AI agents: no tick twice, no overlap, no zombie writes.",
            "",
            "commands:",
            *lines,
            "",
            "'fencepost COMMAND --help' shows options and examples.",
        ]
    )


def suggestion(name: str) -> str:
    """Offer the nearest command, if there is one."""
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
