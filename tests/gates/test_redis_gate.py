"""The Redis gate: what its script does, what the server's settings mean, and what a crash leaves."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.cli.main import main
from fencepost.gates.redis.gate import RedisGate, open_redis_gate
from fencepost.host.clock import SystemClock
from fencepost.host.secrets import own_secret
from fencepost.model.errors import FenceRefused, GateUnreachable, Invalid, Misconfigured
from fencepost.model.gate import FENCE_MAX, FLOOR, MARKS_MAX
from fencepost.model.target import parse_target
from fencepost.operations.gate_probe import target_problems
from tests.gates.proofs import proof
from tests.support.redis import RedisServer
from tests.support.site import Site

EVERYSEC = "appendonly yes\nappendfsync everysec\nsave ''\n"


def gate_at(url: str) -> RedisGate:
    return open_redis_gate(parse_target(f"redis:{url}"), clock=SystemClock(), fetch=own_secret)


@pytest.fixture
def gate(redis_url: str) -> RedisGate:
    return gate_at(redis_url)


@pytest.fixture
def private() -> Iterator[RedisServer]:
    with RedisServer.running() as server:
        yield server


def test_any_command_may_be_the_payload_and_its_answer_comes_back(gate: RedisGate, redis_server: RedisServer) -> None:
    gate.raise_fence(proof(5))

    assert gate.run(proof(5), "INCRBY", "posts", 2) == 2
    assert gate.run(proof(5), "HSET", "page", "title", "Fences") == 1
    with pytest.raises(FenceRefused):
        gate.run(proof(4), "INCRBY", "posts", 1)

    assert redis_server.client().get("posts") == b"2"


def test_a_script_of_ones_own_runs_behind_the_fence_with_its_own_keys_and_arguments(
    gate: RedisGate, redis_server: RedisServer
) -> None:
    body = "redis.call('SET', KEYS[1], ARGV[1]); redis.call('SET', KEYS[2], ARGV[2]); return {#KEYS, #ARGV}"
    gate.raise_fence(proof(5, "lock:a", "lock:b"))

    assert gate.script(proof(5, "lock:a", "lock:b"), body, keys=["x", "y"], args=["1", "2"]) == [2, 2]
    with pytest.raises(FenceRefused):
        gate.script(proof(4, "lock:b"), body, keys=["x", "y"], args=["old", "old"])

    assert redis_server.client().mget("x", "y") == [b"1", b"2"]


def test_a_command_that_redis_refuses_is_explained_and_the_mark_is_only_higher(gate: RedisGate) -> None:
    gate.raise_fence(proof(5))
    gate.write(proof(5), "text", "no number")

    with pytest.raises(Misconfigured, match="not an integer"):
        gate.run(proof(6), "INCRBY", "text", 1)
    with pytest.raises(FenceRefused):
        gate.write(proof(5), "text", "late")


def test_any_bytes_are_a_value(gate: RedisGate, redis_server: RedisServer) -> None:
    hostile = bytes(range(256)) + b"'; redis.call('FLUSHALL') --"
    gate.raise_fence(proof(5))
    gate.write(proof(5), "blob", hostile)

    assert redis_server.client().get("blob") == hostile


def test_an_acknowledged_raise_survives_a_kill_of_a_server_that_always_syncs(private: RedisServer) -> None:
    gate_at(private.url).raise_fence(proof(6))
    gate_at(private.url).write(proof(6), "report", "kept")
    private.kill()
    private.start()

    with pytest.raises(FenceRefused):
        gate_at(private.url).write(proof(5), "report", "zombie")
    assert private.client().get("report") == b"kept"
    assert gate_at(private.url).status().warnings == ()


def test_a_server_that_has_forgotten_its_marks_lets_nobody_write_until_the_next_raise(
    gate: RedisGate, redis_server: RedisServer
) -> None:
    gate.raise_fence(proof(6))
    redis_server.client().flushall()

    for fence in (5, 6):
        with pytest.raises(Misconfigured, match="has no marks"):
            gate.write(proof(fence), "report", "unfenced")
    assert redis_server.client().keys() == []

    gate.raise_fence(proof(7))
    with pytest.raises(FenceRefused):
        gate.write(proof(6), "report", "zombie")


def test_a_mark_that_cannot_be_read_lets_nobody_pass(gate: RedisGate, redis_server: RedisServer) -> None:
    gate.raise_fence(proof(6))
    redis_server.client().hset("fencepost:fence", "default lock:z", "[1]")

    with pytest.raises(Misconfigured, match="cannot be read"):
        gate.write(proof(7), "report", "x")
    with pytest.raises(Misconfigured, match="cannot be read"):
        gate.raise_fence(proof(7))


def test_a_great_fence_is_compared_to_its_last_digit(gate: RedisGate) -> None:
    greatest = FENCE_MAX
    gate.raise_fence(proof(greatest))

    with pytest.raises(FenceRefused):
        gate.write(proof(greatest - 1), "report", "zombie")


def test_a_server_that_is_away_is_unreachable_and_says_so(private: RedisServer) -> None:
    gate = gate_at(private.url)
    gate.raise_fence(proof(5))
    private.kill()

    with pytest.raises(GateUnreachable, match="does not answer"):
        gate.raise_fence(proof(6))
    with pytest.raises(GateUnreachable, match="does not answer"):
        gate.write(proof(5), "report", "text")


def test_marks_have_a_bound_and_none_is_forgotten(gate: RedisGate) -> None:
    names = [f"lock:{number}" for number in range(MARKS_MAX)]
    gate.raise_fence(proof(5, *names))
    gate.raise_fence(proof(9, "lock:one-more"))

    marks = gate.status().marks
    assert len(marks) == MARKS_MAX
    assert FLOOR in marks
    for name in names:
        with pytest.raises(FenceRefused):
            gate.write(proof(4, name), "report", "zombie")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (EVERYSEC, "appendfsync is everysec"),
        ("appendonly no\nsave ''\n", "appendonly is off"),
        ("appendonly yes\nappendfsync always\nmaxmemory 100mb\nmaxmemory-policy allkeys-lru\n", "may evict the marks"),
        ("appendonly yes\nappendfsync always\nrename-command CONFIG ''\n", "does not tell its settings"),
    ],
)
def test_where_the_server_may_forget_status_and_plan_say_best_effort(settings: str, words: str) -> None:
    with RedisServer.running(settings) as server:
        [warning] = gate_at(server.url).status().warnings
        [problem] = target_problems(f"redis:{server.url}")

    assert warning.startswith("best effort, no gate: ")
    assert words in warning
    assert problem == warning


def test_plan_and_doctor_name_the_gate_that_is_only_best_effort(site: Site) -> None:
    with RedisServer.running(EVERYSEC) as server:
        site.configure(
            f'[agents.writer]\ncommand = ["true"]\ngates = ["cache"]\n[gates.cache]\nkind = "redis"\nurl = "{server.url}"\n'
        )
        planned = " ".join(site.fencepost("plan").split())
        doctor = " ".join(site.fencepost("doctor", code=None).split())

    assert "gate cache: best effort, no gate: appendfsync is everysec" in planned
    assert "cache: best effort, no gate: appendfsync is everysec" in doctor


@pytest.mark.parametrize("url", ["http://127.0.0.1", "127.0.0.1:6379"])
def test_another_kind_of_url_is_refused_with_what_to_write(url: str) -> None:
    with pytest.raises(Invalid, match="redis://host:6379/0"):
        gate_at(url)


def test_a_password_does_not_belong_in_a_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "status", "redis:redis://:hunter2@127.0.0.1/0"]) == 2
    assert "hunter2" not in capsys.readouterr().err


def test_without_the_library_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "redis.py").write_text("raise ImportError('none')\n")
    ran = subprocess.run(
        [sys.executable, "-m", "fencepost", "gate", "status", "redis:redis://127.0.0.1:1/0"],
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ran.returncode, "pip install 'fencepost[redis]'" in ran.stderr) == (78, True), ran.stderr
