"""The same fencepost.toml on two machines with one PostgreSQL: it works with no flag at all, and no old copy wins."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ground import Ground, ground_at
from tests.support.scratch import wait_until

TOML = """\
[fencepost]
{name}timezone = "UTC"

[agents.echo]
command = ["echo", "hi"]

[schedules.yearly]
agent = "echo"
cron = "{minute} 0 1 1 *"
"""
APPLIED = "1 agent, 1 schedule."
OLDER = "a later version has replaced it"
BY_THE_REGISTRY = "hat runs is what the registry holds."


class Machine:
    """A machine as far as a file's owner can tell: its own folders, and an id of its own where the host allows that."""

    def __init__(self, name: str, ground: Ground) -> None:
        self.ground = ground
        self.said = ground.folder / "said"
        identity = ground.folder / "machine-id"
        identity.write_text((name * 32)[:32] + "\n")
        setting = 'mount --bind "$0" /etc/machine-id && exec "$@"'
        self._apart = ["unshare", "--mount", "sh", "-c", setting, str(identity)] if os.geteuid() == 0 else []

    def write(self, *, minute: int = 0, name: str = "") -> None:
        (self.ground.folder / "fencepost.toml").write_text(TOML.format(minute=minute, name=name))

    def up(self, *words: str, says: str) -> None:
        """Start `up`, wait for what it says at its start, and stop it."""
        argv = [*self._apart, sys.executable, "-m", "fencepost", "up", "--no-web", "--workers", "0", *words]
        with self.said.open("w") as said:
            program = self.ground.spawn(argv, stdout=subprocess.DEVNULL, stderr=said)
        wait_until(lambda: says in self._heard() or program.poll() is not None, what=f"it says {says}", seconds=60)
        assert says in self._heard(), self.said.read_text()
        program.terminate()
        program.wait(60)

    def apply(self, *words: str) -> int:
        argv = [*self._apart, sys.executable, "-m", "fencepost", "apply", *words]
        return self.ground.told(self.ground.spawn(argv)).code

    def _heard(self) -> str:
        return " ".join(self.said.read_text().split())

    def crons(self) -> str:
        return self.ground.run("schedule", "list", "--json").out.decode()


@pytest.fixture
def two(tmp_path: Path, durable_url: str) -> Iterator[tuple[Machine, Machine]]:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with ground_at(tmp_path / "a", store=durable_url) as first, ground_at(tmp_path / "b", store=durable_url) as second:
        yield Machine("a", first), Machine("b", second)


@pytest.mark.parametrize("name", ["", 'name = "site"\n'], ids=["unnamed", "named"])
def test_both_come_up_without_a_flag_and_an_old_copy_goes_by_the_registry(
    two: tuple[Machine, Machine], name: str
) -> None:
    first, second = two
    first.write(name=name)
    second.write(name=name)
    first.up(says=APPLIED)
    second.up(says=APPLIED)
    second.write(name=name, minute=30)
    second.up(says=APPLIED)
    first.up(says=OLDER)
    assert "30 0 1 1 *" in first.crons()
    assert first.apply() == 2
    assert first.apply("--rollback") == 0
    assert "30 0 1 1 *" not in second.crons()
    second.up(says=OLDER)


def test_up_without_apply_goes_by_the_registry(two: tuple[Machine, Machine]) -> None:
    first, second = two
    first.write()
    first.up(says=APPLIED)
    second.write(minute=45)
    second.up("--no-apply", says=BY_THE_REGISTRY)
    assert "45 0 1 1 *" not in second.crons()


def test_another_file_of_the_same_names_is_refused_until_it_takes_over(two: tuple[Machine, Machine]) -> None:
    first, second = two
    first.write()
    first.up(says=APPLIED)
    second.write(minute=45)
    second.up(says="is defined by")
    assert second.apply("--take-over") == 0
    assert "45 0 1 1 *" in first.crons()
    second.up(says=APPLIED)
