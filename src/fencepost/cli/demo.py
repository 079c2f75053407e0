"""`fencepost demo`: the zombie, shown in seconds, with real leases and real processes."""

import argparse
import json
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from fencepost.cli import options
from fencepost.cli.demo_holder import GATED, LOCK, NAIVE, TTL_SECONDS
from fencepost.model.errors import FencepostError
from fencepost.model.own_program import own_program

RED, GREEN, GREY, BOLD = "\033[31m", "\033[32m", "\033[90m", "\033[1m"
DRAFT, REPORT, LATE = "a draft by A", "the report by B", "a stale report by A"
DESCRIPTION = """\
Show what a fence is for: two holders of one lease, one of which is frozen past
its end. Both write the same texts to a plain file and through a gate. Takes
about ten seconds, needs no set-up, and leaves nothing behind.
"""
EXAMPLES = """\
examples:
  fencepost demo
  NO_COLOR=1 fencepost demo > story.txt
"""


def main(argv: list[str]) -> int:
    """Play it, and exit with 0 only if the plain file was corrupted and the gated one was not."""
    parser = argparse.ArgumentParser(
        prog="fencepost demo",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="fencepost-demo-") as folder:
        return Demo(Path(folder)).play()


class Demo:
    """The story, told while it happens."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._began = perf_counter()

    def play(self) -> int:
        """Play it and return the exit code."""
        print(options.paint("Two programs hold one lease, one after the other. The first falls asleep.", BOLD))
        print()
        with ExitStack() as stage:
            first = stage.enter_context(holder("A", self._folder))
            self._tell("A", f"leases {LOCK} for {TTL_SECONDS:.0f} s, fence {first.hear()['fence']}")
            first.say(DRAFT)
            first.hear()
            self._tell("A", f"writes {DRAFT!r} to both files")
            first.freeze()
            self._tell("A", "is frozen: a closed lid, a paused machine, a long wait for memory")
            second = stage.enter_context(holder("B", self._folder))
            self._tell("B", f"leases it after A's time, fence {second.hear()['fence']}, raises the gate")
            second.say(REPORT)
            second.hear()
            self._tell("B", f"writes {REPORT!r} to both files")
            first.say(LATE)
            first.thaw()
            self._tell("A", "wakes up in the middle of a line, sure of its lease, and writes")
            answer = first.hear()
        return self._judge(answer)

    def _judge(self, answer: dict[str, Any]) -> int:
        naive, gated = (self._read(name) for name in (NAIVE, GATED))
        corrupted, kept = naive == LATE, gated == REPORT and answer["refused"] is not None
        print()
        self._line("a plain file", naive, "B's work is lost" if corrupted else "not corrupted", bad=corrupted)
        self._line("behind a gate", gated, "A was refused, exit 77" if kept else "the gate failed", bad=not kept)
        print()
        if answer["refused"]:
            said = str(answer["refused"]).replace(f"{self._folder}/", "")
            print(options.paint(options.wrapped(f"The gate said: {said}", indent="  "), GREY))
        return 0 if corrupted and kept else 1

    def _read(self, name: str) -> str:
        path = self._folder / name
        return path.read_text(encoding="utf-8").strip() if path.exists() else ""

    def _tell(self, who: str, what: str) -> None:
        elapsed = options.paint(f"{perf_counter() - self._began:5.1f} s", GREY)
        print(f"{elapsed}  {who}  {what}", flush=True)

    def _line(self, what: str, content: str, verdict: str, *, bad: bool) -> None:
        print(f"  {what:<14} {content!r:<24} " + options.paint(verdict, RED if bad else GREEN))


class Holder:
    """One of the two programs."""

    def __init__(self, name: str, folder: Path) -> None:
        words = [*own_program("fencepost.cli.demo_holder"), name, str(folder)]
        self._program = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def hear(self) -> dict[str, Any]:
        """Wait for what it did."""
        assert self._program.stdout is not None
        line = self._program.stdout.readline()
        if not line:
            raise FencepostError(f"a holder of the demo ended with {self._program.wait()}; see above.")
        heard: dict[str, Any] = json.loads(line)
        return heard

    def say(self, text: str) -> None:
        """Tell it what to write."""
        assert self._program.stdin is not None
        self._program.stdin.write(f"{text}\n")
        self._program.stdin.flush()

    def freeze(self) -> None:
        """Stop it in the middle of its work."""
        self._program.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on, as if nothing had happened."""
        self._program.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """End it, frozen or not."""
        self._program.kill()
        self._program.communicate()


@contextmanager
def holder(name: str, folder: Path) -> Iterator[Holder]:
    """Start a holder, and end it with the story."""
    started = Holder(name, folder)
    try:
        yield started
    finally:
        started.end()
