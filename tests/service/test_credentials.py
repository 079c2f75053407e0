"""What an agent is given dies with its lease, opens its own run and nothing else, and never leads to the store."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.ground import Ground, ground_at
from tests.support.site import Site

CANARY = "canary-of-the-store"
# Everything that an agent is handed or can see of those above it: variables, command lines, open files, its own folder.
LOOK_AROUND = """
import json, os, pathlib
def read(path):
    try:
        return pathlib.Path(path).read_bytes().decode(errors="replace")
    except OSError:
        return ""
def parent(pid):
    return int(read(f"/proc/{pid}/stat").rpartition(")")[2].split()[1])
seen = {"environ": read("/proc/self/environ"), "cmdline": read("/proc/self/cmdline")}
pid = os.getppid()
while pid > 1 and "fencepost" in read(f"/proc/{pid}/cmdline"):
    seen[f"cmdline of {pid}"] = read(f"/proc/{pid}/cmdline")
    pid = parent(pid)
for fd in os.listdir("/proc/self/fd"):
    try:
        seen[f"fd {fd}"] = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        pass
for path in pathlib.Path(os.environ["FENCEPOST_SOCKET"]).parent.rglob("*"):
    seen[str(path)] = read(path)
pathlib.Path("seen").write_text(json.dumps(seen) + "\\n")
"""


@pytest.fixture
def store(postgres_url: str) -> str:
    """A store whose URL holds a secret; the server of the tests believes everybody."""
    at = urlsplit(postgres_url)
    return at._replace(netloc=f"{at.username}:{CANARY}@{at.hostname}:{at.port}").geturl()


@pytest.fixture
def ground(tmp_path: Path, store: str) -> Iterator[Ground]:
    with ground_at(tmp_path, store=store) as made:
        yield made


def demand_no_way_to_the_store(seen: dict[str, str]) -> None:
    assert "FENCEPOST_RUN_KEY" in seen["environ"], "it did look around"
    assert len([name for name in seen if name.startswith("cmdline of")]) >= 1
    for where, text in seen.items():
        assert CANARY not in text, where
        assert "postgresql" not in text, where
    assert not [name for name, to in seen.items() if name.startswith("fd ") and to.startswith("socket:")]


def test_a_guarded_command_sees_no_way_to_the_store(ground: Ground) -> None:
    told = ground.run("exec", "--lock", "z", "--", "python3", "-c", LOOK_AROUND)

    assert told.code == 0, told
    demand_no_way_to_the_store(json.loads(ground.wait_for("seen")))


def test_a_scheduled_agent_sees_no_way_to_the_store(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_URL", store)
    site = Site(tmp_path, "env:STORE_URL")
    (tmp_path / "look.py").write_text(LOOK_AROUND)
    try:
        site.configure('[agents.scout]\ncommand = ["python3", "look.py"]\n')
        site.up("--workers", "1")
        site.fencepost("run", "scout", "--wait")
    finally:
        site.close()

    demand_no_way_to_the_store(json.loads((tmp_path / "seen").read_text()))
