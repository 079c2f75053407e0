"""A worker whose lanes tell how long they spent on what: `python bench/profiled.py FOLDER worker`.

Only what happens once for a batch is timed, so that looking costs each run next to nothing. Times are exclusive: what
one stage calls and is a stage itself counts there alone. Each keeper and each runner leaves a file in FOLDER.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from threading import get_ident
from time import perf_counter_ns, process_time_ns, thread_time_ns
from typing import Any

import psycopg

from fencepost.cli.main import run
from fencepost.lane_runner import Runner
from fencepost.lane_runner import main as call_functions
from fencepost.service import lane, lane_caller
from fencepost.service.message_pipe import MessageLine
from fencepost.stores.lane_turn import SqlBatches

Part = tuple[str, str]  # the stage, and what of it
REST: Part = ("client", "keeper: the rest")
RUNNER_REST: Part = ("call", "runner: the rest")
KEEPER: list[tuple[object, str, Part]] = [
    (SqlBatches, "turn", ("client", "turn: check, build values, spell JSON")),
    (psycopg.Connection, "execute", ("client", "turn: psycopg, send")),
    (psycopg.Pipeline, "sync", ("client", "turn: psycopg, wait")),
    (psycopg.Cursor, "fetchall", ("client", "turn: psycopg, read rows")),
    (lane, "messages_of", ("messages", "keeper: spell runs")),
    (lane_caller.LaneRunner, "give", ("messages", "keeper: send")),
    (lane_caller.LaneRunner, "words", ("messages", "keeper: receive, decode")),
    (lane._Keeper, "_hear", ("messages", "keeper: note ends")),  # noqa: SLF001  # a look inside is the point
]
RUNNER: list[tuple[object, str, Part]] = [
    (MessageLine, "receive", ("messages", "runner: receive, decode")),
    (Runner, "_tell", ("messages", "runner: tell ends")),
    (Runner, "_work", ("call", "runner: begin, build the context, call")),
]


class Stages:
    """How long this process spent on each part, on a processor and by the clock."""

    def __init__(self, folder: str, rest: Part) -> None:
        self._path = Path(folder, f"{os.getpid()}.json")
        self._thread = get_ident()
        self._spent: dict[Part, list[int]] = {rest: [0, 0]}
        self._stack = [rest]
        self._since = self._now()
        self._began_ns = process_time_ns()

    def watch(self, places: list[tuple[object, str, Part]]) -> None:
        """Put a watch around each of these functions."""
        for owner, name, part in places:
            setattr(owner, name, self._watched(getattr(owner, name), part))

    def dump(self) -> None:
        """Leave what is known by now; threads beside the first are part of the rest."""
        self._charge()
        main = sum(on_cpu for on_cpu, _ in self._spent.values())
        beside = max(0, process_time_ns() - self._began_ns - main)
        self._spent[self._stack[0]][0] += beside
        rows = [[*part, *spent] for part, spent in self._spent.items()]
        self._spent[self._stack[0]][0] -= beside
        draft = self._path.with_suffix(".draft")
        draft.write_text(json.dumps(rows), encoding="utf-8")
        draft.replace(self._path)

    def _watched(self, function: Callable[..., Any], part: Part) -> Callable[..., Any]:
        @wraps(function)
        def watched(*values: Any, **named: Any) -> Any:  # noqa: ANN401  # whatever it takes and returns
            if get_ident() != self._thread:
                return function(*values, **named)
            self._charge()
            self._stack.append(part)
            try:
                return function(*values, **named)
            finally:
                self._charge()
                self._stack.pop()

        return watched

    def _charge(self) -> None:
        now = self._now()
        spent = self._spent.setdefault(self._stack[-1], [0, 0])
        spent[0] += now[0] - self._since[0]
        spent[1] += now[1] - self._since[1]
        self._since = now

    def _now(self) -> tuple[int, int]:
        return thread_time_ns(), perf_counter_ns()


def keep(folder: str, arguments: list[str]) -> None:
    """Be a worker, with a watch over each lane that it forks."""
    original = lane.lane

    def watched(*values: Any, **named: Any) -> int:  # noqa: ANN401  # what a lane takes
        stages = Stages(folder, REST)
        stages.watch(KEEPER)
        try:
            return original(*values, **named)
        finally:
            stages.dump()

    lane.lane = watched
    setattr(lane_caller, "own_program", lambda _: (sys.executable, "-P", __file__, folder))  # noqa: B010
    sys.argv[1:] = arguments
    run()


def call(folder: str) -> int:
    """Be a runner; it may be killed when there is nothing left to do, so what is known is left after each batch."""
    stages = Stages(folder, RUNNER_REST)
    stages.watch(RUNNER)
    original = Runner._work  # noqa: SLF001

    def work(runner: Runner, batches: list[dict[str, Any]]) -> None:
        original(runner, batches)
        stages.dump()

    setattr(Runner, "_work", work)  # noqa: B010
    return call_functions()


if __name__ == "__main__":
    if sys.argv[2:]:
        keep(sys.argv[1], sys.argv[2:])
    sys.exit(call(sys.argv[1]))
