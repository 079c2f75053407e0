"""Gates that look first and then swap, with their real code, before servers that are made up."""

import json
from typing import Any

from fencepost.gates.redis.gate import RedisGate
from fencepost.gates.redis.server import RedisServer
from fencepost.gates.s3.bucket import Bucket, ChangedMeanwhile
from fencepost.gates.s3.gate import S3Gate
from fencepost.host.secrets import own_secret
from fencepost.model.gate import Proof
from fencepost.model.target import Target
from tests.simulation.gates.targets import Landed, TargetScene

TAIL = 6  # how many commands a server without an fsync for each may lose


def nobody() -> None:
    """Nobody waits for a write to land."""


class ModelRedis(RedisServer):
    """A server that carries out one command or script at a time."""

    compares = True  # a planted mistake takes it away

    def __init__(self, scene: TargetScene, state: "RedisState") -> None:
        self._scene = scene
        self._state = state
        self.landed: Landed = nobody

    def call(self, *command: object, doing: str) -> Any:  # noqa: ANN401  # as the port has it
        del doing
        self._scene.pause()
        marks = self._state.marks
        if command[0] == "HGETALL":
            return {field.encode(): value for field, value in marks.items()}
        assert command[0] == "HMGET"
        return [marks.get(str(field)) for field in command[2:]]

    def evaluate(self, script: str, keys: Any, args: Any, *, doing: str) -> Any:  # noqa: ANN401
        """Do what pass.lua does."""
        del script, keys, doing
        self._scene.pause()
        self._state.lose_some(self._scene)
        verb, many, *words = args
        fields, expected, becomes = words[:many], words[many : 2 * many], words[2 * many : 3 * many]
        state = self._state
        if verb == "write" and not state.marks:
            return [b"forgotten"]
        if self.compares and any(state.marks.get(one, b"") != was for one, was in zip(fields, expected, strict=True)):
            return [b"moved"]
        state.remember()
        for field, new in zip(fields, becomes, strict=True):
            if new:
                state.marks[field] = new
            else:
                state.marks.pop(field, None)
        payload = words[3 * many :]
        if payload:
            state.value = int(payload[2])
            self.landed()
        return [b"passed", b"OK"]


class RedisState:
    """What a server holds, and for one that is not durable, what it held a few commands ago."""

    def __init__(self, *, durable: bool) -> None:
        self.marks: dict[str, bytes] = {}
        self.value = 0
        self._durable = durable
        self._before: list[tuple[dict[str, bytes], int]] = []

    def remember(self) -> None:
        """Keep what was there, up to the length of the tail that a crash takes."""
        self._before = [*self._before, (dict(self.marks), self.value)][-TAIL:]

    def lose_some(self, scene: TargetScene) -> None:
        """Crash now and then, and come back without the tail."""
        if not self._durable and self._before and not scene.world.quiet and scene.world.chance(0.1):
            scene.world.totals["servers that lost their tail"] += 1
            marks, self.value = self._before[0]
            self.marks, self._before = dict(marks), []


class RedisBehind:
    """The real gate, one server for each counter."""

    durable = True

    def __init__(self, scene: TargetScene) -> None:
        self._state = scene.shared.setdefault(scene.path, RedisState(durable=self.durable))
        self._server = ModelRedis(scene, self._state)
        self._real = RedisGate(Target("redis", "env:MODEL", ()), clock=scene.clock, server=self._server)

    def raise_fence(self, proof: Proof, *, adopt: bool = False) -> None:
        self._real.raise_fence(proof, adopt=adopt)

    def read(self) -> int:
        return int(self._state.value)

    def write(self, proof: Proof, value: int, landed: Landed) -> None:
        self._server.landed = landed
        self._real.write(proof, "counter", value)


class ForgetfulRedisBehind(RedisBehind):
    """The same with `appendfsync everysec`: best effort, and no gate."""

    durable = False


class ModelBucket(Bucket):
    """Objects with ETags, each verb at one instant."""

    compares = True  # a planted mistake takes it away

    def __init__(self, scene: TargetScene, objects: dict[str, bytes]) -> None:
        self._scene = scene
        self._objects = objects
        self.landed: Landed = nobody

    def get(self, key: str) -> tuple[bytes, str] | None:
        self._scene.pause()
        found = self._objects.get(key)
        return None if found is None else (found, _etag(found))

    def put(self, key: str, content: bytes, *, etag: str | None) -> None:
        self._scene.pause()
        old = self._objects.get(key)
        compares = self.compares or "/probe-" in key  # a server that never did would be found out by the gate's probe
        if compares and (None if old is None else _etag(old)) != etag:
            raise ChangedMeanwhile
        self._objects[key] = content
        if content.startswith(b"{") and _named(content) not in ("", _named(old)):
            self.landed()

    def delete(self, key: str) -> None:
        self._objects.pop(key, None)


class S3Behind:
    """The real gate of an object."""

    def __init__(self, scene: TargetScene) -> None:
        self._objects: dict[str, bytes] = scene.shared.setdefault(scene.path, {})
        self._bucket = ModelBucket(scene, self._objects)
        self._real = S3Gate(Target("s3", "s3://bucket/counter", ()), clock=scene.clock, fetch=own_secret)
        self._real._bucket = self._bucket

    def raise_fence(self, proof: Proof, *, adopt: bool = False) -> None:
        self._real.raise_fence(proof, adopt=adopt)

    def read(self) -> int:
        name = _named(self._objects.get("counter"))
        return int(self._objects[name]) if name else 0

    def write(self, proof: Proof, value: int, landed: Landed) -> None:
        self._bucket.landed = landed
        self._real.write(proof, str(value).encode())


def _etag(content: bytes) -> str:
    return f'"{hash(content)}"'


def _named(pointer: bytes | None) -> str:
    return str(json.loads(pointer)["data"]) if pointer and pointer.startswith(b"{") else ""
