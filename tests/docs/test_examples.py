"""The examples are run: each plays a late run, and fails if that run got anything done."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEMOS = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("examples/gates/*/demo.sh"))


@pytest.mark.parametrize("demo", DEMOS)
def test_a_demo_of_a_gate_refuses_the_late_run(demo: str, tmp_path: Path) -> None:
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("FENCEPOST_")},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
    }
    ran = subprocess.run(
        ["sh", str(ROOT / demo)], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False
    )

    assert ran.returncode == 0, ran
    assert "a newer run has started" in ran.stderr
    assert list(tmp_path.glob("tmp*")) == [], "it has removed its folder"


def test_there_is_a_demo_for_each_kind_that_can_be_shown_without_a_server() -> None:
    assert {Path(demo).parent.name for demo in DEMOS} >= {"file", "directory", "sql", "git"}
