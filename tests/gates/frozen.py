"""A writer that is frozen in the middle of its write, and a successor that starts meanwhile."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from fencepost.model.errors import GateUnreachable
from fencepost.model.gate import Proof
from tests.gates.harness import Harness
from tests.support.scratch import wait_until

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0


def frozen_in_the_middle(kind: str, harness: Harness, *, old: Proof, new: Proof) -> None:
    """Freeze a writer between the comparison and the effect, raise for its successor, thaw: nothing late may land.

    A gate may also keep the successor from starting as long as the writer is there: that keeps the promise too.
    """
    late = late_writer(kind, harness, old)
    try:
        wait_for_stop(late.pid)
        started = _raised(harness, new)
        if started:
            harness.write(new, "new")
        late.send_signal(signal.SIGCONT)
        said = late.communicate(timeout=PATIENCE_SECONDS)[1].decode()
    finally:
        late.kill()
        late.communicate()

    if started:
        assert late.returncode != 0, said
        assert harness.content() == "new"
    else:
        harness.gate().raise_fence(new)  # the writer is gone, so its hold on the gate is too


def late_writer(kind: str, harness: Harness, proof: Proof) -> "subprocess.Popen[bytes]":
    """Start a writer that stops itself in the middle of its write."""
    words = [sys.executable, "-m", "tests.gates.late_writer", kind, harness.place, str(proof.fence), "zombie"]
    return subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE)


def wait_for_stop(pid: int) -> None:
    """Wait until a child of ours has stopped."""

    def stopped() -> bool:
        return os.waitpid(pid, os.WUNTRACED | os.WNOHANG)[0] != 0

    wait_until(stopped, what="the writer has stopped itself", seconds=PATIENCE_SECONDS)


def _raised(harness: Harness, proof: Proof) -> bool:
    try:
        harness.gate().raise_fence(proof)
    except GateUnreachable:
        return False
    return True
