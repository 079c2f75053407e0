"""The hooks of `fencepost hook` that are not called on every tool call: sessions, and the settings of agents."""

import argparse
import difflib
import os
import sys
from collections.abc import Callable

from fencepost.cli import options
from fencepost.model.agent_hook_settings import SessionHold
from fencepost.model.duration import parse_duration
from fencepost.model.errors import Invalid
from fencepost.model.lease_check import DENIED
from fencepost.operations import agent_hooks
from fencepost.operations.agent_hooks import Change
from fencepost.operations.agent_sessions import INPUT_MAX
from fencepost.wiring import sessions

INSTALL_EXAMPLES = """\
  fencepost hook install                  # for every agent CLI of this user
  fencepost hook install claude --project --dry-run
"""
HOLD_EXAMPLES = """\
  fencepost hook install --hold session   # for as long as a session lives
  fencepost hook install --strict         # who comes second waits, or is refused
"""
SESSION_EXAMPLES = """\
  echo '{"session_id": "s1", "cwd": "/srv/site"}' | fencepost hook session-start
"""


def session_start(argv: list[str]) -> int:
    """Let a person's session hold its project."""
    session_parser(
        "session-start", "Let the agent session that calls this hook hold its project, in its turn."
    ).parse_args(argv)
    waits = sessions.start_session(_input())
    if waits:
        print(f"fencepost: another agent or command is at work in this project: {waits}")
    return 0


def session_end(argv: list[str]) -> int:
    """Give the project back."""
    session_parser("session-end", "Give back the project that the agent session holds.").parse_args(argv)
    sessions.end_session(_input())
    return 0


def turn_start(argv: list[str]) -> int:
    """Let a person's session hold its project for one turn."""
    session_parser(
        "turn-start", "Let the agent session that calls this hook hold its project until the end of its turn."
    ).parse_args(argv)
    waits = sessions.start_session(_input(), turn=True)
    if waits:
        print(f"fencepost: another agent or command is at work in this project: {waits}")
    return 0


def turn_end(argv: list[str]) -> int:
    """Give the project back at the end of a turn."""
    session_parser("turn-end", "Give back the project that the agent session holds for a turn.").parse_args(argv)
    sessions.end_session(_input())
    return 0


def turn_check(argv: list[str]) -> int:
    """Let a session that came second wait its turn before it acts, or refuse."""
    made = session_parser("turn-check", "Wait until the session holds its project; exit 2 if it is not its turn.")
    made.add_argument("--wait", metavar="D", default="60s", help="for at most so long (60s)")
    args = made.parse_args(argv)
    why = sessions.may_act(_input(), seconds=parse_duration(args.wait))
    if not why:
        return 0
    print(f"fencepost: this session has not the turn in its project: {why}. Nothing was done.", file=sys.stderr)
    return DENIED


def keep(argv: list[str]) -> int:
    """Be the process that holds a session's project; started by session-start and turn-start."""
    try:
        name, pid, started, folder, label, *transcript = argv
    except ValueError:
        raise Invalid("keep is started by session-start only.") from None
    sessions.keep_session(name, int(pid), started, folder=folder, label=label, transcript="".join(transcript[:1]))
    return 0


def install(argv: list[str]) -> int:
    """Add the hooks to agents' settings."""
    return change_settings(install_parser("install").parse_args(argv), removing=False)


def uninstall(argv: list[str]) -> int:
    """Take the hooks out of agents' settings."""
    return change_settings(install_parser("uninstall").parse_args(argv), removing=True)


def change_settings(args: argparse.Namespace, *, removing: bool) -> int:
    """Work everything out first, so that a file that cannot be read leaves all others as they are."""
    project = os.getcwd() if args.project else None
    clis = agent_hooks.named_clis(args.cli, os.environ, in_project=args.project)
    hold = SessionHold(turn=getattr(args, "hold", "turn") == "turn", strict=getattr(args, "strict", False))
    for change in agent_hooks.changes(clis, project, os.environ, removing=removing, hold=hold):
        print_change(change, dry_run=args.dry_run)
        kept = agent_hooks.carry_out(change) if change.is_one and not args.dry_run else None
        if kept:
            print(f"  as it was: {options.homely(kept)}")
        if change.cli.name == "codex" and not removing:
            print("  Codex runs a hook only when you have trusted it: look at /hooks in codex.")
    return 0


def print_change(change: Change, *, dry_run: bool) -> None:
    """Say what becomes of a file; a dry run shows each line."""
    what = "unchanged" if not change.is_one else "removed" if change.after is None else "changed"
    what = "created" if change.is_one and change.before is None else what
    print(f"{change.cli.name}: {options.homely(change.path)}: {f'would be {what}' if dry_run else what}")
    if dry_run and change.is_one:
        before, after = (change.before or "").splitlines(), (change.after or "").splitlines()
        for line in list(difflib.unified_diff(before, after, lineterm=""))[2:]:
            print(f"  {line}")


def session_parser(name: str, description: str) -> argparse.ArgumentParser:
    """Describe a session's hook."""
    return options.parser(
        f"hook {name}", f"{description} Reads the hook's JSON from stdin: session_id and cwd.", SESSION_EXAMPLES
    )


def install_parser(name: str) -> argparse.ArgumentParser:
    """Describe `install` and `uninstall`."""
    does = "Add our hooks to" if name == "install" else "Take our hooks out of"
    made = options.parser(
        f"hook {name}",
        f"{does} the settings of agent CLIs. Everything else in them stays as it is.",
        INSTALL_EXAMPLES.replace("install", name) + (HOLD_EXAMPLES if name == "install" else ""),
    )
    made.add_argument(
        "cli", nargs="*", metavar="CLI", help="claude, codex, gemini, qwen, copilot, cline (default: those here)"
    )
    where = made.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="in this user's own settings (default)")
    where.add_argument("--project", action="store_true", help="in the settings of the project in this folder")
    if name == "install":
        made.add_argument(
            "--hold", choices=("turn", "session"), default="turn",
            help="how long a session holds its project: from a prompt to the end of that turn (default), or as long as it lives",
        )  # fmt: skip
        made.add_argument(
            "--strict", action="store_true", help="a session that came second waits before its tools act, or is refused"
        )
    made.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
    return made


def _input() -> bytes:
    return b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read(INPUT_MAX)


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "session-start": session_start,
    "session-end": session_end,
    "turn-start": turn_start,
    "turn-end": turn_end,
    "turn-check": turn_check,
    "keep": keep,
    "install": install,
    "uninstall": uninstall,
}
