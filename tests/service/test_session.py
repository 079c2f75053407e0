"""A person's session holds its project for as long as it lives, without anybody ending it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost import wiring
from fencepost.host.project import project_resource
from fencepost.model.errors import Busy
from fencepost.service.order import Tools
from fencepost.service.session import announce_session, end_session, find_session
from tests.support.scratch import wait_until


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    return wiring.exec_tools(f"sqlite:{tmp_path}/state.db")._replace(say=lambda _: None)


@pytest.fixture
def session() -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_a_session_holds_its_project_until_it_ends(
    tools: Tools, session: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    project = project_resource(str(tmp_path))
    assert announce_session(project, "s1", session=session.pid, tools=tools)
    assert not announce_session(project, "s1", session=session.pid, tools=tools)
    with pytest.raises(Busy, match="session s1"):
        announce_session(project, "s2", session=session.pid, tools=tools)

    session.kill()
    session.wait()
    wait_until(lambda: find_session(project, "s1", tools=tools) is None, what="its keeper has let go")


def test_a_session_that_says_so_lets_go_at_once(
    tools: Tools, session: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    project = project_resource(str(tmp_path))
    announce_session(project, "s1", session=session.pid, tools=tools)

    assert end_session(project, "s1", tools=tools)
    wait_until(lambda: find_session(project, "s1", tools=tools) is None, what="its keeper has let go")
    assert session.poll() is None
    assert announce_session(project, "s2", session=session.pid, tools=tools)
    end_session(project, "s2", tools=tools)
