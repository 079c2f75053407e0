"""Writers that are killed or frozen just before a chosen system call; a program, so that only its own process dies.

file_gate_victim.py kill DIRECTORY VERB             one child for each call of a whole write, raise or adopt
file_gate_victim.py freeze PATH FENCE CALL          one write, stopped before its first CALL
"""

import fcntl
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator

from fencepost.gates.file import FileGate
from fencepost.gates.file_target import FOLDER
from fencepost.host.clock import SystemClock
from fencepost.model.errors import FencepostError
from tests.gates.proofs import proof

CALLS = ("open", "mkdir", "write", "fsync", "fchmod", "fchown", "rename", "unlink", "close", "stat", "fstat", "link")
OLD, NEW = b"old " * 500, b"new " * 700


def main(argv: list[str]) -> int:
    if argv[0] == "kill":
        sys.stdout.write(json.dumps(list(killed_everywhere(*argv[1:]))))
        return 0
    path, fence, call = argv[1:]
    before_the_nth(1, [call], signal.SIGSTOP)
    return write(path, int(fence))


def killed_everywhere(directory: str, verb: str) -> Iterator[str]:
    """Kill one child after the other, each a call later, until one lives to the end; yield where each has worked."""
    killed = True
    for step in range(1, 1000):
        if not killed:
            return
        path = os.path.join(directory, f"{verb}-{step}", "out")
        os.mkdir(os.path.dirname(path))
        gate(path).write(proof(1), OLD)
        if verb == "adopt":
            break_marks(path)
        killed = is_killed(path, verb, step)
        yield path


def is_killed(path: str, verb: str, step: int) -> bool:
    child = os.fork()
    if child == 0:
        before_the_nth(step, CALLS, signal.SIGKILL)
        if verb == "write":
            gate(path).write(proof(2), NEW)
        else:
            gate(path).raise_fence(proof(2), adopt=verb == "adopt")
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def break_marks(path: str) -> None:
    with open(os.path.join(os.path.dirname(path), FOLDER, "out.fence"), "w", encoding="ascii") as marks:
        marks.write("{")


def before_the_nth(nth: int, names: Iterable[str], sent: signal.Signals) -> None:
    """Send ourselves a signal just before the nth of these calls."""
    calls = 0

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            nonlocal calls
            calls += 1
            if calls == nth:
                signal.raise_signal(sent)
            return real(*args, **options)

        return call

    for name in names:
        module = fcntl if name == "flock" else os
        setattr(module, name, counted(getattr(module, name)))


def write(path: str, fence: int) -> int:
    try:
        gate(path).write(proof(fence), b"written with fence %d" % fence)
    except FencepostError as error:
        return error.exit_code
    return 0


def gate(path: str) -> FileGate:
    return FileGate(path, clock=SystemClock())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
