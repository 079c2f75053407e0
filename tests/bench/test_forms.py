"""Ended runs in the narrower form of decision 24 come back as they were, and fit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_narrow_runs_give_back_what_went_in_and_are_smaller(kind: str) -> None:
    command = [sys.executable, "-m", "bench.forms", "--runs", "2000", "--store", kind]
    env = {**os.environ, "PYTHONPATH": "."}
    done = subprocess.run(command, cwd=ROOT, env=env, check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    (size,) = (row for row in rows if "plain" in row)
    assert size["narrow_runs_too"] < size["packed_audit"] < size["plain"]
    assert {row["what"] for row in rows if "what" in row} == {"newest 50", "one by its id", "50 of a schedule"}
