"""Find the command, load only its module, and turn errors into a sentence and an exit code.

`exec`, `gate` and `hook` run from crontabs and on every tool call, so nothing is imported here
that the command itself does not use.
"""

from __future__ import annotations

import gc
import os
import sys

from fencepost.model.errors import FencepostError

# command -> (module under fencepost.cli and, if not main, its function(argv) -> exit code; what it does)
COMMANDS = {
    "init": ("init", "write a commented fencepost.toml"),
    "demo": ("demo", "the zombie, shown in ten seconds"),
    "up": ("up", "schedule, work and serve the web door, on this machine"),
    "plan": ("plan", "show what applying the file would change, and the next ticks"),
    "apply": ("apply", "put the file's definitions into the registry"),
    "run": ("run", "run an agent or a schedule now"),
    "ps": ("ps", "what runs and what waits"),
    "top": ("top", "live: what runs, waits, comes next and spends"),
    "timeline": ("timeline", "what ran, waited and was left out, drawn in letters"),
    "runs": ("runs", "the runs, newest first"),
    "show": ("show", "everything about one run"),
    "logs": ("logs", "what a run printed; -f follows it"),
    "cancel": ("cancel", "take a run out of the queue, or stop it"),
    "why": ("why", "why did it (not) run?"),
    "schedule": ("schedule", "list, show, pause, resume, skip-next, backfill, history, ticks"),
    "queue": ("queue", "what waits, and behind what"),
    "dead": ("dead", "runs that need a person: list, show, replay, discard"),
    "halt": ("halt", "stop making and starting runs, all of them"),
    "unhalt": ("halt:unhalt", "go on"),
    "exec": ("exec", "guard one command: lease, fence, renew, kill on loss"),
    "crontab": ("crontab", "print a guarded crontab line, with absolute paths"),
    "lease": ("lease", "list leases, break one, or forget a gate"),
    "gate": ("gate", "check, raise and write through a gate"),
    "worktree": ("worktree", "list the worktrees of runs, or clean up what crashes left"),
    "hook": ("hook", "agents' hooks: check, session-start, -end, install, uninstall"),
    "mcp": ("mcp", "let an agent look after schedules and runs, over MCP"),
    "mcp-gate": ("mcp_gate", "stand between an agent and an MCP server"),
    "ledger": ("ledger", "effects that happen once, by key: list, once, resolve"),
    "checkpoint": ("checkpoint", "inside a run: keep JSON for a resumed attempt"),
    "progress": ("progress", "inside a run: say that work is being done"),
    "ticks": ("ticks", "preview a schedule or a cron expression, DST days in words"),
    "dst-check": ("dst_check", "what the coming clock changes do to the schedules"),
    "simulate": ("simulate", "what your schedules would do in a year, in seconds"),
    "prove": ("prove", "derive the owed ticks again and compare"),
    "doctor": ("doctor", "look for what is weak or wrong here"),
    "audit": ("audit", "who did what, what was decided, and whether the record is whole"),
    "key": ("key", "keys of the web door: create, list, revoke, link"),
    "store": ("store", "migrate, back up, restore, prune or bump the store"),
    "import": ("import_", "turn a crontab or another scheduler's file into a fencepost.toml"),
    "service": ("service", "keep up running as a user's service: install, uninstall, status"),
    "notice": ("notice", "what was told by [notifications]: list, retry, test"),
    "drain": ("drain", "stop this machine's workers for good; agents finish"),
    "scheduler": ("up:scheduler", "only schedule"),
    "worker": ("up:worker", "only work"),
    "web": ("web", "only the web door: HTTP API, webhooks, metrics"),
    "completion": ("completion", "let bash, zsh or fish complete commands, options and names"),
    "version": ("version", "print the version"),
}

# what a person wants -> the commands for it; every command stands in one of them
GROUPS = {
    "begin": ("demo", "init", "up", "import", "completion", "version"),
    "guard a command": ("exec", "lease", "crontab"),
    "schedule": ("plan", "apply", "schedule", "ticks", "dst-check", "simulate"),
    "look": ("top", "timeline", "ps", "runs", "show", "logs", "why", "queue", "audit", "prove"),
    "act and mend": ("run", "cancel", "dead", "halt", "unhalt", "doctor", "worktree", "notice"),
    "gates and checks": ("gate", "hook", "mcp-gate", "ledger"),
    "inside a run": ("checkpoint", "progress"),
    "look after it": ("store", "key", "service", "drain", "web", "mcp", "scheduler", "worker"),
}

HELP = ("-h", "--help", "help")
QUICK = ("exec", "lease", "gate", "hook", "progress", "checkpoint", "ps", "queue", "runs", "show", "why", "dead")


def run() -> None:
    """Run as the console script, and leave without tearing the interpreter down: that takes longer than some commands.

    Neither does the quick ones any good to look for garbage: they end before there is any.
    """
    if sys.argv[1:2] and sys.argv[1] in QUICK:
        gc.disable()
    try:
        code = main(sys.argv[1:])
    except BaseException:
        if sys.argv[1:3] != ["hook", "check"]:
            raise
        code = _unchecked()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # its descriptor was closed, as in: >&-
                stream.flush()
    except (BrokenPipeError, ValueError):
        pass  # the reader is gone
    os._exit(code)


def _unchecked() -> int:
    """Deny a tool call if the check itself cannot be loaded: agents take any other end for a yes."""
    os.write(2, b"fencepost: the check of the lease could not be loaded, so this is refused. Stop now.\n")
    return 2


def main(argv: list[str]) -> int:
    """Run one command line and return its exit code."""
    name, rest = (argv[0], argv[1:]) if argv else ("help", [])
    if name in ("-V", "--version"):
        name = "version"
    if name not in (*COMMANDS, *HELP):
        print(f"fencepost: there is no command {name!r}.{suggestion(name)} See 'fencepost --help'.", file=sys.stderr)
        return 2
    try:
        if name in HELP:
            print(overview(), flush=True)
            return 0
        return int(load(name)(rest))
    except FencepostError as error:
        complain(error)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader (head, a pager) left; point stdout at nothing so that the interpreter's own flush stays quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def complain(error: FencepostError) -> None:
    """Say what went wrong, whatever hostile text it quotes."""
    from fencepost.model.terminal_text import tame

    print(f"fencepost: {tame(str(error))}", file=sys.stderr)


def load(name: str):  # type: ignore[no-untyped-def]  # noqa: ANN201  # naming the type would import typing
    """Return the command's main function."""
    module, _, function = COMMANDS[name][0].partition(":")
    return getattr(__import__(f"fencepost.cli.{module}", fromlist=["main"]), function or "main")


def overview() -> str:
    """Say what there is, by what a person wants."""
    width = max(map(len, COMMANDS))
    lines = []
    for group, names in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {name:<{width}}  {COMMANDS[name][1]}" for name in names)]
    return "\n".join(
        [
            "usage: fencepost COMMAND ...",
            "",
            "Runs scheduled AI agents: no tick twice, no overlap, no zombie writes.",
            *lines,
            "",
            "'fencepost COMMAND --help' shows options and examples.",
        ]
    )


def suggestion(name: str) -> str:
    """Offer the nearest command, if there is one."""
    from fencepost.model.nearest_name import nearest

    near = nearest(name, COMMANDS)
    return f" Did you mean {near!r}?" if near else ""
