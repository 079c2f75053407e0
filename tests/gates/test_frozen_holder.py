"""The story that it is all about, with real leases: a holder sleeps past its lease, another starts, the first wakes up."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gates.frozen import wait_for_stop
from tests.gates.guards import ALL, GUARDS
from tests.gates.harness import HARNESSES, Harness
from tests.support.ground import Ground, Program, children, ground_at, send

# What a process shows that slipped out of the tree: nobody can find it to end it, only the gate can refuse it.
SHOWN = ("FENCEPOST_RESOURCE", "FENCEPOST_FENCE", "FENCEPOST_STORE_ID", "FENCEPOST_TENANT")
PATIENCE_SECONDS = 60.0


@pytest.fixture
def harness(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Harness]:
    place = tmp_path / "target"
    place.mkdir()
    monkeypatch.chdir(place)
    with ALL[kind](place, request.getfixturevalue) as made:
        yield made


@pytest.fixture
def ground(harness: Harness, tmp_path: Path) -> Iterator[Ground]:  # noqa: ARG001  # its variables must be set first
    """Made after the target, so that programs know the variables that its address is in."""
    folder = tmp_path / "ground"
    folder.mkdir()
    with ground_at(folder) as made:
        made.env["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        yield made


@pytest.mark.parametrize("kind", HARNESSES)
def test_a_holder_that_slept_past_its_lease_cannot_write_when_it_wakes(harness: Harness, ground: Ground) -> None:
    code, said = woken(harness, ground, harness.command("zombie"))

    assert code == 77, said
    assert "a newer run has started" in said
    assert harness.content() == "new"


@pytest.mark.parametrize("kind", GUARDS)
def test_a_client_that_never_heard_of_us_is_refused_when_it_wakes(harness: Harness, ground: Ground) -> None:
    """It shows its run's fence as far as its own language can; plain git cannot."""
    stray = getattr(harness, "stray_in_a_run", harness.command)

    code, said = woken(harness, ground, stray("zombie"))

    assert code != 0, said
    assert "behind a gate" in said or "a newer run has started" in said
    assert harness.content() == "new"


def woken(harness: Harness, ground: Ground, command: str) -> tuple[int, str]:
    """Let a holder sleep, another start and write, and the first wake up; return what its write came to."""
    old = ground.start(
        *("exec", "--lock", "z", "--ttl", "1s", "--gate", harness.target, "--"),
        *("sh", "-c", "env > env; echo >> env; sleep 600"),
    )
    ground.wait_for("env")
    zombie = asleep(command, ground)
    guard = ground.guard_of(old)
    ground.freeze(old.pid, guard, *children(guard))

    new = ground.run(
        *("exec", "--lock", "z", "--wait=60s", "--gate", harness.target, "--"),
        *("sh", "-c", harness.command("new")),
        seconds=PATIENCE_SECONDS,
    )
    assert new.code == 0, new
    send(zombie.pid, signal.SIGCONT)
    said = zombie.communicate(timeout=PATIENCE_SECONDS)[1].decode()
    send(old.pid, signal.SIGCONT)
    assert ground.told(old, seconds=PATIENCE_SECONDS).code == 76
    return zombie.returncode, said


def asleep(command: str, ground: Ground, *also: str) -> Program:
    """Start a writer of the first holder that stops before its write; it shows also these variables of the run."""
    told = dict(line.partition("=")[::2] for line in (ground.folder / "env").read_text().splitlines())
    env = {**ground.env, **{name: told[name] for name in (*SHOWN, *also)}}
    zombie = ground.spawn(["sh", "-c", f"kill -STOP $$\n{command}"], env=env)
    wait_for_stop(zombie.pid)
    return zombie
