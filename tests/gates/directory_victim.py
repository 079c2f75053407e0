"""Publishers that are killed just before each system call; a program, so that only its own process dies.

directory_victim.py FOLDER      one child for each call of a whole publication
"""

import os
import signal
import sys

from fencepost.gates.directory import DirectoryGate
from fencepost.host.clock import SystemClock
from tests.gates.file_gate_victim import before_the_nth
from tests.gates.proofs import proof

CALLS = ("mkdir", "write", "fsync", "fchmod", "rename", "symlink", "unlink", "rmdir", "listdir")
STEPS_MAX = 2000


def build(folder: str, text: str) -> str:
    """Make a directory with two files that belong together."""
    path = os.path.join(folder, f"build-{text}")
    os.makedirs(f"{path}/sub", exist_ok=True)
    for name in ("a.txt", "sub/b.txt"):
        with open(f"{path}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    return path


def is_killed(folder: str, step: int) -> bool:
    child = os.fork()
    if child == 0:
        before_the_nth(step, CALLS, signal.SIGKILL)
        DirectoryGate(f"{folder}/site", clock=SystemClock()).publish(proof(2), f"{folder}/build-new")
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def main(base: str) -> int:
    killed, step = True, 0
    while killed and step < STEPS_MAX:
        step += 1
        folder = os.path.join(base, str(step))
        os.mkdir(folder)
        build(folder, "new")
        DirectoryGate(f"{folder}/site", clock=SystemClock()).publish(proof(1), build(folder, "old"))
        killed = is_killed(folder, step)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
