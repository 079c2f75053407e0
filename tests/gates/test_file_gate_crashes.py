"""A writer that is killed or frozen at any point: old or new content, never a mix, and marks that never go down."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.gates.file import FileGate
from fencepost.gates.file_target import FOLDER
from fencepost.host.clock import SystemClock
from fencepost.model.errors import FenceRefused, Misconfigured
from tests.gates.file_gate_victim import NEW, OLD, gate
from tests.gates.proofs import proof

ROOT = Path(__file__).parents[2]
VICTIM = (sys.executable, "-m", "tests.gates.file_gate_victim")
CHECKED = "rename"  # the first one of a write at its own mark comes after the check, with the lock held
NOT_CHECKED = "flock"  # the first one locks the draft, before the gate is locked


class ThawingClock(SystemClock):
    """Lets a frozen process go on when somebody has waited for it a few times, and sees it end."""

    def __init__(self, frozen: subprocess.Popen[bytes]) -> None:
        self.frozen = frozen
        self.naps = 0

    def sleep(self, seconds: float) -> None:
        self.naps += 1
        if self.naps == 3:
            self.frozen.send_signal(signal.SIGCONT)
            assert self.frozen.wait(10) == 0
        super().sleep(seconds)


class HastyClock(SystemClock):
    """Time flies while we wait."""

    def __init__(self) -> None:
        self.slept_ns = 0

    def awake_ns(self) -> int:
        return self.slept_ns

    def sleep(self, seconds: float) -> None:
        self.slept_ns += int(seconds * 1e9)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def frozen_writer(path: Path, fence: int, before: str) -> subprocess.Popen[bytes]:
    writer = subprocess.Popen([*VICTIM, "freeze", path, str(fence), before], cwd=ROOT)
    _, status = os.waitpid(writer.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    return writer


@pytest.fixture
def frozen_at_the_rename(out: Path) -> Iterator[subprocess.Popen[bytes]]:
    gate(str(out)).write(proof(1), OLD)
    with frozen_writer(out, 1, CHECKED) as writer:
        yield writer
        writer.kill()


def killed_everywhere(directory: Path, verb: str) -> list[Path]:
    words = [*VICTIM, "kill", str(directory), verb]
    shown = subprocess.run(words, cwd=ROOT, check=True, capture_output=True).stdout
    return [Path(path) for path in json.loads(shown)]


@pytest.mark.parametrize("verb", ["write", "raise"])
def test_killed_at_any_call_it_leaves_old_or_new_content_with_fitting_marks_and_a_free_way_for_its_successor(
    tmp_path: Path, verb: str
) -> None:
    paths = killed_everywhere(tmp_path, verb)

    for path in paths:
        mark = gate(str(path)).status().marks["default lock:z"].fence
        content = path.read_bytes()
        assert mark in (1, 2)
        assert content == OLD or (content == NEW and mark == 2), "data is never ahead of its mark"
        gate(str(path)).raise_fence(proof(3))
        assert not list((path.parent / FOLDER).glob("tmp-*"))
        with pytest.raises(FenceRefused):
            gate(str(path)).write(proof(2), NEW)

    assert len(paths) > 20
    assert (paths[-1].read_bytes() == NEW) == (verb == "write")


def test_killed_while_it_adopts_broken_marks_it_never_leaves_a_gate_that_has_forgotten(tmp_path: Path) -> None:
    for path in killed_everywhere(tmp_path, "adopt"):
        with pytest.raises((FenceRefused, Misconfigured)):
            gate(str(path)).write(proof(1), b"zombie")
        gate(str(path)).raise_fence(proof(3), adopt=True)
        assert path.read_bytes() == OLD


def test_a_writer_that_was_frozen_after_its_check_makes_the_raise_wait_and_comes_before_it(
    out: Path, frozen_at_the_rename: subprocess.Popen[bytes]
) -> None:
    clock = ThawingClock(frozen_at_the_rename)

    FileGate(str(out), clock=clock).raise_fence(proof(2))

    assert clock.naps >= 3
    assert out.read_bytes() == b"written with fence 1"
    assert gate(str(out)).status().marks["default lock:z"].fence == 2


def test_a_writer_that_was_frozen_before_its_check_is_refused_when_it_thaws(out: Path) -> None:
    gate(str(out)).write(proof(1), OLD)
    with frozen_writer(out, 1, NOT_CHECKED) as writer:
        gate(str(out)).raise_fence(proof(2))
        writer.send_signal(signal.SIGCONT)
        assert writer.wait(10) == FenceRefused.exit_code

    assert out.read_bytes() == OLD
    assert not list((out.parent / FOLDER).glob("tmp-*"))


def test_a_raise_gives_up_on_a_lock_that_nobody_lets_go_and_changes_nothing(
    out: Path, frozen_at_the_rename: subprocess.Popen[bytes]
) -> None:
    assert frozen_at_the_rename.poll() is None
    clock = HastyClock()

    with pytest.raises(Misconfigured, match=r"busy.*never delete the lock"):
        FileGate(str(out), clock=clock).raise_fence(proof(2))

    assert 10 <= clock.slept_ns / 1e9 < 11
    assert gate(str(out)).status().marks["default lock:z"].fence == 1


def test_the_kernel_frees_the_lock_of_a_killed_writer(out: Path, frozen_at_the_rename: subprocess.Popen[bytes]) -> None:
    frozen_at_the_rename.kill()
    frozen_at_the_rename.wait(10)

    gate(str(out)).raise_fence(proof(2))

    assert out.read_bytes() == OLD
    assert not list((out.parent / FOLDER).glob("tmp-*"))


def test_sixty_four_megabytes_pass_in_bounded_memory(out: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "fencepost",
        "gate",
        "write-file",
        str(out),
        "--resource",
        "lock:z",
        "--fence",
        "5",
    ]
    limit = 48 * 2**20

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    with subprocess.Popen(command, stdin=subprocess.PIPE, preexec_fn=bound) as writer:  # noqa: PLW1509
        assert writer.stdin is not None
        for _ in range(64):
            writer.stdin.write(b"x" * 2**20)

    assert writer.returncode == 0
    assert out.stat().st_size == 64 * 2**20
