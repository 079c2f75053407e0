"""`fencepost demo`: it plays with real processes, so it can fail."""

import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.cli import demo
from fencepost.cli.demo import Demo
from fencepost.cli.demo_holder import GATED, NAIVE


def test_the_plain_file_is_corrupted_and_the_gated_one_is_not() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "fencepost", "demo"], capture_output=True, text=True, timeout=120, check=False
    )

    assert ran.returncode == 0, ran
    assert ran.stderr == ""
    assert "B's work is lost" in ran.stdout
    assert "A was refused, exit 77" in ran.stdout
    assert all(len(line) <= 80 for line in ran.stdout.splitlines())
    assert "\033" not in ran.stdout


@pytest.mark.parametrize(
    ("naive", "gated", "refused", "code"),
    [
        (demo.LATE, demo.REPORT, "stale", 0),
        (demo.REPORT, demo.REPORT, "stale", 1),
        (demo.LATE, demo.LATE, None, 1),
        (demo.LATE, demo.REPORT, None, 1),
    ],
)
def test_it_exits_with_0_only_if_one_file_was_corrupted_and_the_other_was_not(
    tmp_path: Path, naive: str, gated: str, refused: str | None, code: int
) -> None:
    (tmp_path / NAIVE).write_text(naive)
    (tmp_path / GATED).write_text(gated)

    assert Demo(tmp_path)._judge({"refused": refused}) == code
