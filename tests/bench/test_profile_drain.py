"""The profile of a drain names every stage, from what the server, the keepers and the runners say themselves."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from bench.profile_drain import STAGES, lines, served
from fencepost.stores.postgres.dialect import STATEMENTS

ROOT = Path(__file__).parent.parent.parent


def entry(pid: int, statement: str, *, user: float, system: float, elapsed: float) -> str:
    detail = f"! system usage stats:\n!\t{user:.6f} s user, {system:.6f} s system, {elapsed:.6f} s elapsed\n!\t[more]"
    return json.dumps({"pid": pid, "dbname": "d", "message": "EXECUTE", "detail": detail, "statement": statement})


def test_statements_of_the_lanes_go_by_their_names_and_those_of_others_are_left_out(tmp_path: Path) -> None:
    settle = re.sub(r"%\(\w+\)s", "$1", STATEMENTS["settle_batch"].decode())
    own = entry(1, settle, user=0.000002, system=0.000001, elapsed=0.000009)
    commit = entry(1, "COMMIT", user=0.000001, system=0, elapsed=0.0005)
    others = entry(2, "COMMIT", user=1, system=1, elapsed=1)
    (tmp_path / "a.json").write_text("\n".join([own, own, commit, others, json.dumps({"message": "ready", "pid": 3})]))

    found = {part: (round(cpu, 3), round(clock, 3)) for (_, part), (cpu, clock) in served(tmp_path).items()}

    assert found == {"settle_batch": (6, 18), "COMMIT": (1, 500)}


def test_what_costs_next_to_nothing_is_told_as_one_line() -> None:
    spent = {("call", "much"): (1000.0, 2000.0), ("call", "little"): (1.0, 1.0), ("call", "less"): (1.0, 500.0)}

    shown = [(row["part"], row["processor_us"]) for row in lines(spent, 100)]

    assert shown == [("much", 10.0), ("2 more", 0.02), ("in all", 10.02)]


def test_a_profile_of_a_real_drain_has_a_figure_for_every_stage() -> None:
    command = [sys.executable, "bench/profile_drain.py", "--runs", "1000"]
    env = {**os.environ, "PYTHONPATH": "."}
    done = subprocess.run(command, cwd=ROOT, env=env, check=False, capture_output=True, text=True)

    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    in_all = {row["stage"]: row["processor_us"] for row in rows if row["part"] == "in all"}
    assert done.returncode == 0, done.stderr
    assert list(in_all) == list(STAGES)
    assert all(figure > 0 for figure in in_all.values())
