"""The gate of a Redis server: one script compares the marks, lifts them and carries out the payload."""

import json
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost.gates.redis.server import RedisServer
from fencepost.model.errors import GateUnreachable, Misconfigured
from fencepost.model.gate import FLOOR, MARKS_MAX, Mark, Proof, check, raised
from fencepost.model.target import Target
from fencepost.ports.gate import Fetch, GateStatus

if TYPE_CHECKING:
    from fencepost.ports.clock import Clock

PAYLOAD = "--PAYLOAD--"
TRIES = 16
DEFAULT_MARKS = "fencepost:fence"
ONE_COMMAND = "return redis.call(unpack(ARGV))"

Word = str | bytes | int | float


def encode(mark: Mark | None) -> bytes:
    """Write one mark down; the same mark is always the same text, so that two can be compared. None is empty."""
    return b"" if mark is None else json.dumps([*mark], ensure_ascii=True, separators=(",", ":")).encode()


def decode(value: bytes, target: str) -> Mark:
    """Read one mark back, or raise Misconfigured: who cannot be compared does not pass."""
    try:
        mark = Mark(*json.loads(value))
    except (ValueError, TypeError):
        mark = None
    if mark is None or [type(field) for field in mark] != [int, str, str, str, int] or encode(mark) != value:
        raise Misconfigured(
            f"{target} has a mark that cannot be read, so it lets no writer pass. Look at it with HGETALL; to start "
            "anew, delete that hash and raise the gate."
        )
    return mark


@lru_cache(maxsize=64)
def script(body: str) -> str:
    """Return the whole script for a payload."""
    with open(os.path.join(os.path.dirname(__file__), "pass.lua"), encoding="utf-8") as file:
        return file.read().replace(PAYLOAD, body)


class Payload(NamedTuple):
    """What is carried out behind the fence: a script with its own keys and arguments."""

    body: str
    keys: Sequence[str | bytes] = ()
    args: Sequence[Word] = ()


NOTHING = Payload("return 1")


class RedisGate:
    """Marks in a hash beside the data.

    Who may pass is decided here, by the same rule as at every gate. The script then makes sure that nothing has moved
    since: a raise in between changes a mark, so that the payload is not carried out and the marks are compared anew.
    """

    def __init__(self, target: Target, *, clock: "Clock", server: RedisServer) -> None:
        self._clock = clock
        self._server = server
        self._marks = target.option("marks", DEFAULT_MARKS)
        self._target = Target("redis", target.where, target.options)

    @property
    def target(self) -> str:
        """Return `redis:` and where its URL is."""
        return self._target.text

    def raise_fence(self, proof: Proof, *, adopt: bool = False) -> None:
        """Lift the marks, or raise FenceRefused; a write that was on its way finds them moved, and changes nothing."""
        for _ in range(TRIES):
            marks = self._all()
            check(proof, marks, target=self.target, adopt=adopt)
            lifted = raised(proof, marks, at_us=self._clock.wall_us())
            concerned = {FLOOR, *proof.keys, *(marks.keys() ^ lifted.keys())}
            moves = {field: (marks.get(field), lifted.get(field)) for field in concerned}
            if self._pass("raise", moves, NOTHING)[0]:
                return
        raise GateUnreachable(f"{self.target}: other writers move its marks all the time.")

    def write(self, proof: Proof, key: str | bytes, value: Word, *, meanwhile: object = None) -> None:
        """Set a key to a value, or raise FenceRefused."""
        self.script(proof, ONE_COMMAND, keys=[key], args=["SET", key, value], meanwhile=meanwhile)

    def run(self, proof: Proof, *command: Word) -> Any:  # noqa: ANN401  # whatever the command answers
        """Carry out one command, such as `"HSET", key, field, value`, and return its answer, or raise FenceRefused."""
        keys = [str(word) if isinstance(word, int | float) else word for word in command[1:2]]
        return self.script(proof, ONE_COMMAND, keys=keys, args=command)

    def script(
        self,
        proof: Proof,
        body: str,
        *,
        keys: Sequence[str | bytes] = (),
        args: Sequence[Word] = (),
        meanwhile: object = None,
    ) -> Any:  # noqa: ANN401  # whatever the script returns
        """Carry out a Lua script with its own KEYS and ARGV, and return its answer, or raise FenceRefused.

        The fence is compared first, in the same atomic step. What the script itself does halfway, before an error of
        its own, stays done, as always in Redis.
        """
        concerned = {FLOOR, *proof.keys}
        for _ in range(TRIES):
            marks = self._some(sorted(concerned))
            check(proof, marks, target=self.target)
            lifted = raised(proof, marks, at_us=self._clock.wall_us())
            moves = {field: (marks.get(field), lifted.get(field)) for field in concerned}
            if callable(meanwhile):
                meanwhile()
            passed, answer = self._pass("write", moves, Payload(body, keys, args))
            if passed:
                return answer
        raise GateUnreachable(f"{self.target}: other writers move its marks all the time; nothing was written.")

    def check(self, proof: Proof) -> None:
        """Raise FenceRefused if a write would be refused now; it may be refused later all the same."""
        check(proof, self._some(sorted({FLOOR, *proof.keys})), target=self.target)

    def status(self) -> GateStatus:
        """Return the marks, and why they may be forgotten."""
        return GateStatus(self.target, self._all(), tuple(self._server.warnings()))

    def _pass(self, verb: str, moves: dict[str, tuple[Mark | None, Mark | None]], payload: Payload) -> tuple[bool, Any]:
        """Have each mark move from one value to the other, with the payload; False if one was not where it was seen."""
        fields = sorted(moves)
        expected = [encode(moves[field][0]) for field in fields]
        becomes = [encode(moves[field][1]) for field in fields]
        words = [verb, len(fields), *fields, *expected, *becomes, *payload.args]
        answer = self._server.evaluate(
            script(payload.body), [self._marks, *payload.keys], words, doing=f"{verb} {self.target}"
        )
        if answer[0] == b"forgotten":
            raise Misconfigured(
                f"{self.target} has no marks: its fence was never raised here, or the server has forgotten them. "
                f"Nothing was written. To close it for older runs and go on: fencepost gate raise {self.target}"
            )
        return answer[0] == b"passed", answer[1] if len(answer) > 1 else None

    def _some(self, fields: list[str]) -> dict[str, Mark]:
        values = self._server.call("HMGET", self._marks, *fields, doing=f"read {self.target}")
        return {field: decode(value, self.target) for field, value in zip(fields, values, strict=True) if value}

    def _all(self) -> dict[str, Mark]:
        found = self._server.call("HGETALL", self._marks, doing=f"read {self.target}")
        if len(found) > 2 * MARKS_MAX:
            raise Misconfigured(f"{self.target}: {self._marks} holds {len(found)} fields, which are not all marks.")
        return {field.decode(): decode(value, self.target) for field, value in found.items()}


def open_redis_gate(target: Target, *, clock: "Clock", fetch: Fetch) -> RedisGate:
    """Open the gate of a server."""
    return RedisGate(target, clock=clock, server=RedisServer(target.where, fetch))
