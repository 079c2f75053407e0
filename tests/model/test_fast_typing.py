"""The light NamedTuple does what typing's does."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.model.lease import Claim, Lease
from fencepost.model.process import Host, ProcessId

HOST = Host("name", "machine", "boot", "4026531836")


def test_places_have_names_and_defaults() -> None:
    claim = Claim("id", "default", ("lock:z",), "run", 30.0, supervisor=ProcessId(HOST, 1, "2"))

    assert (claim.id, claim.guard, claim.label) == ("id", None, "")
    assert claim[0] == "id"
    assert Claim(**claim._asdict()) == claim
    assert Lease("id", "default", (), 1, "run", "store", 30.0, ())[8:] == (False, (), None, 0, None, False)


def test_a_change_makes_another_value() -> None:
    process = ProcessId(HOST, 1, "2")

    assert process._replace(pid=3) == ProcessId(HOST, 3, "2")
    assert process.pid == 1
    with pytest.raises(AttributeError):
        process.pid = 4  # type: ignore[misc]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(TypeError, match="needs"):
        Host("name")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="takes"):
        Host("a", "b", "c", "d", "e")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="wings"):
        Host("a", "b", "c", "d", wings=2)  # type: ignore[call-arg]


def test_it_shows_itself_and_can_be_sent() -> None:
    assert "Host(name='name', machine=" in repr(HOST)
    assert pickle.loads(pickle.dumps(HOST)) == HOST


def test_the_commands_of_crontabs_do_not_import_typing() -> None:
    code = "import sys, fencepost.model.lease, fencepost.model.gate; print('typing' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    assert Lease._fields[0] == "id"


def test_a_guarded_command_imports_nothing_heavy(tmp_path: Path) -> None:
    words = [sys.executable, "-X", "importtime", "-m", "fencepost", "exec", "--lock", "a", "--", "true"]
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    said = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, check=True).stderr
    imported = {line.rpartition("|")[2].strip() for line in said.splitlines()}

    assert "fencepost.service.supervisor" in imported
    assert imported & {"typing", "re", "enum", "dataclasses", "logging", "pathlib", "pydantic", "argparse"} == set()
