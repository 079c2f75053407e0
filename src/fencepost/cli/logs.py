"""`fencepost logs RUN`: what a run printed, or prints."""

import argparse
import os
import sys
from collections.abc import Callable

from fencepost.cli import options, render
from fencepost.model.budget import money
from fencepost.model.conversation import Conversation, ConversationTurn, TurnKind
from fencepost.model.run import RunState
from fencepost.operations.attempt_logs import Log, content, log_of
from fencepost.operations.phrases import readable
from fencepost.operations.run_conversation import talk_of
from fencepost.operations.run_queries import SeenRun, Store, ending_words, find_run, show
from fencepost.ports.runs import RunRow
from fencepost.service.following import Ears, follow
from fencepost.wiring import state_folders

EXAMPLES = """\
  fencepost logs r01k9zq8 -n 50
  fencepost logs r01k9zq8 -f              until the run has ended
  fencepost logs r01k9zq8 --attempt 1
  fencepost logs r01k9zq8 --raw           events as the agent printed them
"""
LOOKS = {
    TurnKind.SAID: ("● ", ""),
    TurnKind.ASKED: ("> ", options.GREEN),
    TurnKind.THOUGHT: ("∴ ", options.FAINT),
    TurnKind.CALL: ("  ▸ ", options.YELLOW),
    TurnKind.ANSWER: ("  ◂ ", options.FAINT),
    TurnKind.END: ("■ ", options.GREEN),
    TurnKind.OTHER: ("  ", options.FAINT),
}


def main(argv: list[str]) -> int:
    """Print a log, and go on with it if asked to."""
    args = parser().parse_args(argv)
    with options.opened(args) as store:
        tenant = options.tenant_of(args)
        seen = show(store, tenant, args.run).seen
        shown = Shown() if args.raw else talking(seen.run)
        if args.follow and args.attempt is None and not RunState(seen.run.state).terminal:
            follow_log(store, seen.run, lines=args.lines, shown=shown)
            return 0
    log = log_of(seen, state_folders.log_folder(), number=args.attempt)
    if log is None:
        print_nothing(seen)
        return 0
    shown.write(content(log, lines=args.lines))
    shown.end()
    if log.earlier:
        render.tell(f"attempt {log.number} was handed back and resumed: these are its {len(log.parts)} parts.")
    for part in log.parts:
        tell_where(part, seen.run)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser("logs", "Print what a run has printed; with -f, go on until it has ended.", EXAMPLES)
    made.add_argument("run", metavar="RUN", help="the run's id, or its beginning")
    made.add_argument("-f", "--follow", action="store_true", help="go on with what it prints, until it has ended")
    made.add_argument("-n", "--lines", type=options.positive, metavar="N", help="only the last N lines")
    made.add_argument(
        "--raw", action="store_true", help="the bytes as they are, also of an agent that speaks in events"
    )
    made.add_argument("--attempt", type=options.positive, metavar="N", help="an earlier attempt (default: the last)")
    options.add_store(made)
    return made


def print_nothing(seen: SeenRun) -> None:
    """Say why there is no log."""
    state = "it has not started yet" if not RunState(seen.run.state).terminal else "it never started"
    render.tell(f"run {seen.run.id} has no log: {state}. See: fencepost show {seen.run.id}")


def tell_where(log: Log, run: RunRow) -> None:
    """Say so when the file itself is elsewhere."""
    if not log.here:
        kept = "these are the last lines that the store has" if log.kept else "the store has none of it yet"
        where = "its log is no longer there" if log.host == os.uname().nodename else "its log is there"
        render.tell(f"attempt {log.number} of run {run.id} ran on {log.host}, and {where}; {kept}.")


def follow_log(store: Store, run: RunRow, *, lines: int | None, shown: "Shown") -> None:
    """Print what comes, and say how it ended."""
    attempt, fence = run.attempt, run.fence

    def told(now: RunRow) -> None:
        nonlocal attempt, fence
        if now.fence != fence:
            fence = now.fence
            shown.end()
        if now.attempt != attempt and now.state == RunState.RUNNING:
            attempt = now.attempt
            render.tell(f"attempt {now.attempt} with fence {now.fence} on {now.worker}")

    def look() -> RunRow:
        return find_run(store, run.tenant, run.id)

    def whole(data: bytes) -> None:
        shown.write(data)
        shown.end()

    ended = follow(run, look, state_folders.log_folder(), Ears(shown.write, told), lines=lines)
    shown.end()
    tell_end(store, ended, output=whole)


def tell_end(store: Store, ended: RunRow, *, output: Callable[[bytes], None]) -> None:
    """Say how a run ended; if it ran elsewhere, with the last lines that the store has of it."""
    log = log_of(show(store, ended.tenant, ended.id).seen, state_folders.log_folder())
    if log is not None and not log.here:
        output(content(log))
        tell_where(log, ended)
    render.tell(f"run {ended.id} {ending_words(ended)}")


def talking(run: RunRow) -> "Shown":
    """Return how a run's output is shown: on a terminal as a conversation, if it is one; else as it is."""
    talk = talk_of(run) if sys.stdout.isatty() else None
    return Shown() if talk is None else Talk(talk)


class Shown:
    """Shows output as it is."""

    def write(self, data: bytes) -> None:
        """Take in output."""
        write(data)

    def end(self) -> None:
        """Take note that no more comes of this attempt: nothing waits here."""


class Talk(Shown):
    """Shows an agent's events as a conversation, line by line as they come."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self._rest = b""
        self._told = 0  # what it has cost, as far as that was said here

    def write(self, data: bytes) -> None:
        """Take in output; a line that is not whole yet waits for its end."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            for turn in self._talk.hear(line.decode(errors="replace")):
                sys.stdout.write(f"{self._spell(turn)}\n")
        sys.stdout.flush()

    def end(self) -> None:
        """Show the last line of an attempt also if it has no end."""
        if self._rest:
            self.write(b"\n")

    def _spell(self, turn: ConversationTurn) -> str:
        mark, colour = LOOKS[turn.part]
        text = readable(turn.text).strip()
        if turn.part in (TurnKind.CALL, TurnKind.ANSWER):
            text = render.fit(" ".join(f"{turn.name} {text}".split()), render.width() - len(mark)).rstrip()
        lines = [f"{mark if at == 0 else ' ' * len(mark)}{line}" for at, line in enumerate(text.splitlines() or [""])]
        spoken = "\n".join(options.paint(line, options.RED if turn.bad else colour) for line in lines)
        if turn.cost_micro and turn.cost_micro != self._told:
            self._told = turn.cost_micro
            spoken += options.paint(f"\n  {money(turn.cost_micro)} so far", options.FAINT)
        return spoken


def write(data: bytes) -> None:
    """Print an agent's output as it is, except that it may not steer a terminal."""
    if sys.stdout.isatty():
        sys.stdout.write(options.harmless(data.decode(errors="replace")))
        sys.stdout.flush()
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
