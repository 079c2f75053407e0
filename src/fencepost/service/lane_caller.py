"""The process that calls a lane's functions, as its keeper sees it: a guard that ends it, a line, and permits to begin.

Who takes the permit has the run: the process, which begins it, or the keeper, which takes back what has not begun.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from socket import socketpair

from fencepost.host.log_files import LogFile
from fencepost.model.own_program import own_program
from fencepost.model.secret_rights import is_ordinary
from fencepost.service.guard_start import GuardHandle, post_guard
from fencepost.service.lane_batches import FOREVER_NS
from fencepost.service.message_pipe import Message, MessageLine, readable
from fencepost.service.output import Output
from fencepost.service.worker_tools import WorkerTools

LOG_MAX = 1_000_000
PERMITS_MAX = 1000


class LaneRunner:
    """The runner of a lane."""

    def __init__(self, guard: GuardHandle, line: MessageLine, permits: tuple[int, int], output: Output) -> None:
        self._guard, self._line, self._permits = guard, line, permits
        self.output = output  # what functions print beside their logs
        self.why: str | None = None  # why we are ending it
        self.ended: Message | None = None
        self._deadline_ns = FOREVER_NS
        self._log_path = ""

    @property
    def guard(self) -> GuardHandle:
        """Who ends it."""
        return self._guard

    @property
    def line_fd(self) -> int:
        """What to wait for, for its words."""
        return self._line.fd

    @property
    def guard_fd(self) -> int:
        """What to wait for, for its end."""
        return self._guard.line.fd

    def start(self, name: str, *, folder: str, log_path: str, counts_sleep: bool) -> bool:
        """Have the guard start it; it knows nothing of any run yet."""
        self._log_path = log_path
        self.output.keep(LogFile(log_path, LOG_MAX, begins=False), [])  # a killed process leaves no empty file
        self._guard.line.send(place=name, cgroup=None, folder=folder)
        env = {name: value for name, value in os.environ.items() if is_ordinary(name)}
        env |= {"FENCEPOST_RUN_ID": name, "PYTHONUNBUFFERED": "1"}
        self._guard.line.send(
            start={
                "argv": own_program("fencepost.lane_runner"),
                "env": env,
                "terminal": None,
                "deadline_ns": FOREVER_NS,
                "counts_sleep": counts_sleep,
                "grace_seconds": 0,
            }
        )
        return any("spawned" in message for message in self._guard.line.receive())

    def give(self, batches: list[Message]) -> None:
        """Let it begin these, one after the other."""
        os.write(self._permits[1], b"." * sum(len(batch["runs"]) for batch in batches))
        self._line.post(json.dumps({"batches": batches}, check_circular=False))

    def take_back(self) -> int:
        """Keep it from beginning anything more; return how many it has not begun."""
        try:
            return len(os.read(self._permits[0], PERMITS_MAX))
        except BlockingIOError:
            return 0

    def answer(self, answer: Message) -> None:
        """Answer the function that runs now."""
        self._line.send(answer=answer)

    def words(self) -> list[Message]:
        """Return what it has said, waiting for something."""
        return self._line.receive()

    def last_words(self) -> Iterator[Message]:
        """Yield what the runner said before it was gone, and we have not read yet."""
        while readable([self._line.fd], 0) and not self._line.closed:
            yield from self._line.receive()

    def tell_deadline(self, deadline_ns: int) -> None:
        """Let the guard end the runner before the first of our leases can be given away."""
        if deadline_ns != self._deadline_ns:
            self._deadline_ns = deadline_ns
            self._guard.line.send(deadline_ns=deadline_ns)

    def end(self, why: str, grace_seconds: float) -> None:
        """End it; the first reason stands."""
        if self.why is None:
            self.why = why
            self._guard.line.send(end=why, grace_seconds=grace_seconds)

    def hear_guard(self) -> None:
        """Take note of its end."""
        for message in self._guard.line.receive():
            if "ended" in message:
                self.ended = message
                self._guard.has_reported = True
        if self._guard.line.closed and self.ended is None:
            self.ended = {"ended": 1 << 8, "gone": False, "why": "guard gone"}

    @property
    def is_gone(self) -> bool:
        """Whether nothing of it is left, or it has not ended yet."""
        return self.ended is None or bool(self.ended["gone"])

    @property
    def exit_code(self) -> int:
        """What it ended with."""
        status = int(self.ended["ended"]) if self.ended else 0
        return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def dismiss(self) -> None:
        """Close the line: the runner has nothing to do, and its last words are not needed."""
        self._line.close()
        with suppress(FileNotFoundError):
            os.unlink(self._log_path)


def post_caller(bench: WorkerTools) -> LaneRunner:
    """Fork the guard; the runner inherits these standard descriptors, and we close them."""
    permits_reader, permits_writer = os.pipe()
    for descriptor in (permits_reader, permits_writer):
        os.set_blocking(descriptor, False)
    ours, theirs = (end.detach() for end in socketpair())
    output_reader, output_writer = os.pipe()
    errors = os.dup(2)  # the worker's, to tell of ends; the runner does not inherit it
    for descriptor, standard in ((permits_reader, 0), (theirs, 1), (output_writer, 2)):
        os.dup2(descriptor, standard)
    guard = post_guard(bench.tools.clock, bench.tools.processes)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor, standard in ((null, 0), (null, 1), (errors, 2)):
        os.dup2(descriptor, standard)
    for descriptor in (theirs, output_writer, null, errors):
        os.close(descriptor)
    return LaneRunner(guard, MessageLine(ours), (permits_reader, permits_writer), Output(output_reader))
