"""Mistakes on purpose, one or two for each kind of gate: the promises must not survive them."""

import fcntl
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from fencepost.gates import path as file_gate
from fencepost.gates.git.gate import GitGate
from fencepost.gates.http import marks as request_marks
from fencepost.gates.http.marks import RequestMarks, RequestPassage
from fencepost.model import lease as lease_rules
from fencepost.model.gate import Proof
from tests.simulation.gates.repository import HookedBehind
from tests.simulation.gates.servers import ModelBucket, ModelRedis
from tests.simulation.gates.services import PostgresBehind
from tests.simulation.gates.targets import Landed, SqliteBehind
from tests.simulation.promises import until_broken
from tests.simulation.simulate import simulate
from tests.simulation.world import Violation


class Mutation(NamedTuple):
    """A mistake, and the kind of gate that has it."""

    gates: str
    apply: Callable[[], AbstractContextManager[object]]
    start: int = 0  # where seeds begin, for what shows rarely


def seeds_until_caught(mutation: Mutation, limit: int) -> tuple[int, Violation | None]:
    """Try seeds with the mistake in place; return how many it took, and what noticed it."""
    with mutation.apply():
        seeds = range(mutation.start, mutation.start + limit)
        return until_broken(simulate(seed, profile="zombies", compares=False, gates=mutation.gates) for seed in seeds)


@contextmanager
def _compared_before() -> Iterator[None]:
    def write(self: SqliteBehind, proof: Proof, value: int, landed: Landed) -> None:
        self._real.check(proof)
        self._scene.pause()
        with closing(sqlite3.connect(self._file, timeout=0, isolation_level=None)) as own:
            own.execute("UPDATE counter SET value = ?", (value,))
        landed()

    with patch.object(SqliteBehind, "write", write):
        yield


@contextmanager
def _branch_alone() -> Iterator[None]:
    real = GitGate.moved

    def moved(self: GitGate, place: Any, *moves: tuple[str, str, str], **_: object) -> bool:  # noqa: ANN401
        return real(self, place, moves[0])

    with patch.object(GitGate, "moved", moved):
        yield


@contextmanager
def _raise_at_once() -> Iterator[None]:
    real = RequestMarks._locked

    def locked(self: RequestMarks, proof: Proof, how: int, busy: str) -> list[int]:
        return [] if how == fcntl.LOCK_EX else real(self, proof, how, busy)

    with patch.object(RequestMarks, "_locked", locked):
        yield


@contextmanager
def _let_go() -> Iterator[None]:
    real = RequestMarks.enter

    def enter(self: RequestMarks, proof: Proof, target: str) -> RequestPassage:
        passage = real(self, proof, target)
        passage.close()
        return passage

    with patch.object(RequestMarks, "enter", enter):
        yield


@contextmanager
def _by_the_wall() -> Iterator[None]:
    def rest_seconds(self: request_marks.Flight, wall_us: int, boot_ns: int) -> float:
        del boot_ns
        return self.seconds - (wall_us - self.at_us) / 1e6

    with patch.object(request_marks.Flight, "rest_seconds", rest_seconds):
        yield


MUTATIONS = {
    "a directory's gate that does not compare": Mutation(
        "dir", lambda: patch.object(file_gate, "check", lambda *_, **__: None)
    ),
    "a table whose mark is compared in a transaction of its own": Mutation("sqlite", _compared_before),
    "a table whose mark is not locked until the commit": Mutation(
        "postgres",
        lambda: patch.object(PostgresBehind, "keeps_its_lock", False),
    ),
    "a push of the branch alone": Mutation("git", _branch_alone),
    "a server without its hook": Mutation("git-hook", lambda: patch.object(HookedBehind, "hooked", False)),
    "a raise that does not wait for requests": Mutation("http", _raise_at_once),
    "a middleware that lets go before the effect": Mutation("http", _let_go),
    "a proxy that writes no flight down": Mutation(
        "proxy", lambda: patch.object(RequestPassage, "depart", lambda *_: None)
    ),
    "a failed agent that owes nothing": Mutation(
        "proxy", lambda: patch.object(lease_rules, "still_owed", lambda *_, **__: []), start=310_000
    ),
    "a proxy whose doubts end with the wall clock": Mutation("proxy", _by_the_wall),
    "a put without its condition": Mutation("s3", lambda: patch.object(ModelBucket, "compares", False)),
    "a script that does not compare": Mutation("redis", lambda: patch.object(ModelRedis, "compares", False)),
}
