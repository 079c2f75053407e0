import os
from pathlib import Path

import pytest

from fencepost.host import cgroup
from tests.host.conftest import Spawn

ENTERING = """
import signal, sys
from fencepost.host import cgroup
print(cgroup.enter(sys.argv[1]), flush=True)
signal.pause()
"""


def test_a_cgroup_is_made_entered_killed_and_removed(run_cgroup: str, spawn: Spawn) -> None:
    child = spawn(ENTERING, run_cgroup)
    assert child.line() == "True"

    assert cgroup.pids(run_cgroup) == [child.pid]
    assert not cgroup.remove(run_cgroup)
    assert cgroup.kill(run_cgroup)
    assert child.child.wait() == -9
    assert cgroup.remove(run_cgroup)


def test_cgroups_that_the_agent_made_below_its_own_are_seen_and_removed(run_cgroup: str, spawn: Spawn) -> None:
    below = Path(run_cgroup, "agents-own", "deeper")
    below.mkdir(parents=True)
    child = spawn(ENTERING, run_cgroup)
    child.line()
    (below / "cgroup.procs").write_text(str(child.pid))

    assert cgroup.pids(run_cgroup) == [child.pid]
    assert cgroup.kill(run_cgroup)
    child.child.wait()
    assert cgroup.remove(run_cgroup)
    assert not Path(run_cgroup).exists()


def test_a_frozen_cgroup_can_be_killed(run_cgroup: str, spawn: Spawn) -> None:
    child = spawn(ENTERING, run_cgroup)
    child.line()

    assert cgroup.freeze(run_cgroup)
    assert cgroup.kill(run_cgroup)
    assert child.child.wait() == -9
    assert cgroup.thaw(run_cgroup)


def test_making_it_again_for_the_same_run_gives_the_same_cgroup(run_id: str, run_cgroup: str) -> None:
    assert cgroup.plan(run_id) == run_cgroup
    assert cgroup.make(run_cgroup)


def test_a_plan_makes_nothing(run_id: str) -> None:
    path = cgroup.plan(run_id)
    if path is None:
        pytest.skip("this host does not let us make cgroups")

    assert not Path(path).exists()
    assert cgroup.pids(path) == []
    assert cgroup.remove(path)


def test_a_cgroup_that_is_gone_is_empty_and_removed(run_cgroup: str) -> None:
    assert cgroup.remove(run_cgroup)

    assert cgroup.pids(run_cgroup) == []
    assert not cgroup.kill(run_cgroup)
    assert not cgroup.enter(run_cgroup)
    assert cgroup.remove(run_cgroup)


@pytest.mark.parametrize("bad", ["", "..", "a/b", "a b", "a\n", "a\0", "ü", "x" * 129])
def test_an_id_that_is_no_id_gets_no_cgroup(bad: str) -> None:
    assert cgroup.plan(bad) is None
    assert not cgroup.make(f"/sys/fs/cgroup/fencepost-{bad}")
    assert not cgroup.belongs_to(f"/sys/fs/cgroup/fencepost-{bad}", bad)


def test_it_can_be_switched_off(run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_CGROUP", "off")

    assert cgroup.plan(run_id) is None


def test_where_it_may_not_be_made_there_is_none(run_id: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cgroup, "_own", lambda: str(tmp_path / "missing"))
    assert cgroup.plan(run_id) is None

    monkeypatch.setattr(cgroup, "_own", lambda: str(tmp_path))  # a folder, but none of the kernel's
    assert cgroup.plan(run_id) is None
    assert not cgroup.make(f"{tmp_path}/fencepost-{run_id}")
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_we_did_not_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "cgroup.kill").touch()
    (tmp_path / "cgroup.procs").write_text(str(os.getpid()))

    assert not cgroup.kill(str(tmp_path))
    assert not cgroup.enter(str(tmp_path))
    assert cgroup.pids(str(tmp_path)) == []
    assert (tmp_path / "cgroup.kill").read_text() == ""
    cgroup.remove(str(tmp_path))
    assert tmp_path.exists()
