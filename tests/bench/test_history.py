"""The store with many ended runs is made of runs that the program carried out, and every command works on it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_every_command_is_measured_on_a_store_with_many_ended_runs(kind: str) -> None:
    command = [sys.executable, "-m", "bench.history", "--runs", "1000", "--rounds", "1", "--store", kind]
    env = {**os.environ, "PYTHONPATH": "."}
    done = subprocess.run(command, cwd=ROOT, env=env, check=False, capture_output=True, text=True)

    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    measured = {row["what"] for row in rows if "what" in row}
    (size,) = (row for row in rows if "bytes" in row)
    assert measured == {"lease", "ps", "runs", "runs --state dead", "dead list", "show", "doctor"}, done.stderr
    assert 500 < size["bytes"] < size["before_compact"] / 1.5
    assert {part.split()[0] for part in size["of_which"].split(", ")} >= {"past_run", "audit_pack", "tick"}
    assert size["moved"] > 900
