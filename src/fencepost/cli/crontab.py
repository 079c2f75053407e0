"""`fencepost crontab`: print a crontab line that works under cron, which has hardly any PATH."""

import argparse
import os
import shlex
import shutil

from fencepost.cli import options, render
from fencepost.config.find import without_password
from fencepost.model.cron_warnings import cron_warnings
from fencepost.model.errors import Invalid
from fencepost.model.lease import resource
from fencepost.model.own_program import own_folder
from fencepost.model.trigger import cron_trigger

EXAMPLES = """\
  fencepost crontab --tick '*/15 * * * *' --timezone Europe/Berlin \\
      --lock digest -- claude -p "write the digest"
  (crontab -l; fencepost crontab …) | crontab -
"""


def main(argv: list[str]) -> int:
    """Print the line, and what to know about it."""
    args = parser().parse_args(argv)
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise Invalid("there is no command; write: fencepost crontab --tick … --lock NAME -- COMMAND")
    resource("lock", args.lock)
    if args.timezone:
        cron_trigger(args.cron, args.timezone)  # or it is refused
    for warning in cron_warnings(args.cron, args.timezone or ""):
        render.tell(f"warning: {warning}")
    line = line_of(args, command)
    store = args.store or os.environ.get("FENCEPOST_STORE")
    if store:
        if without_password(store) != store:
            raise Invalid(
                "the store's URL holds a password, which a crontab shows; let it come from ~/.pgpass or the like."
            )
        print(f"FENCEPOST_STORE={store}")
    print(line)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser("crontab", "Print a guarded crontab line, with absolute paths.", EXAMPLES)
    made.add_argument("--tick", "--cron", dest="cron", required=True, metavar="EXPR", help="when, as in a crontab")
    made.add_argument("--timezone", metavar="Z", help="run each tick once across machines, in this zone")
    made.add_argument("--lock", required=True, metavar="NAME", help="what is guarded")
    made.add_argument(
        "--store", metavar="URL", help="where the lease is kept (default: FENCEPOST_STORE, or this machine)"
    )
    made.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="after --: what to run")
    return made


def line_of(args: argparse.Namespace, command: list[str]) -> str:
    """Spell the line: cron takes % for a line's end, and knows neither our folder nor the command's."""
    ours = os.path.join(own_folder() or "", "fencepost")
    found = shutil.which(command[0])
    if found is None:
        missing = "is no program here" if "/" in command[0] else "was not found on PATH; name it with its folder"
        raise Invalid(f"{command[0]!r} {missing}.")
    tick = ["--tick", args.cron, "--timezone", args.timezone] if args.timezone else []
    words = [ours, "exec", *tick, "--lock", args.lock, "--", os.path.abspath(found), *command[1:]]
    text = f"cd {shlex.quote(os.getcwd())} && {shlex.join(words)}"
    return f"{args.cron}  {text}".replace("%", "\\%")
