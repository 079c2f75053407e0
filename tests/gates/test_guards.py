"""Triggers and hooks, and a client that is frozen in the middle: after they have looked, before anything has changed."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gates.frozen import PATIENCE_SECONDS, frozen_in_the_middle
from tests.gates.guards import GUARDS, GitHookHarness
from tests.gates.harness import Harness
from tests.gates.proofs import proof
from tests.support.ground import send
from tests.support.scratch import wait_until


@pytest.fixture
def harness(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Harness]:
    monkeypatch.setattr("fencepost.gates.sql.open_database.WAIT_SECONDS", 1)
    with GUARDS[kind](tmp_path, request.getfixturevalue) as made:
        yield made


@pytest.mark.parametrize("kind", ["sqlite-guard", "postgres-guard"])
def test_a_session_frozen_after_the_trigger_has_looked_holds_the_successor_back(kind: str, harness: Harness) -> None:
    harness.gate().raise_fence(proof(5))

    frozen_in_the_middle(kind, harness, old=proof(5), new=proof(6))


def test_a_plain_push_frozen_after_the_hook_has_looked_is_refused_when_it_wakes(tmp_path: Path) -> None:
    """The branch has no gate yet when pre-receive looks; it has one when the server goes on."""
    with GitHookHarness.made(tmp_path, lambda _: None) as harness:
        assert isinstance(harness, GitHookHarness)
        commit, noted = harness.commit("zombie"), tmp_path / "receiver"
        after_ours(tmp_path / "remote.git" / "hooks" / "pre-receive", f"echo $PPID > {noted}; kill -STOP $PPID")
        words = ["git", "push", "-q", "origin", f"{commit}:refs/heads/main"]
        late = subprocess.Popen(words, cwd=tmp_path / "clone", stderr=subprocess.PIPE)
        try:
            wait_until(lambda: is_stopped(noted), what="the server's side has stopped", seconds=PATIENCE_SECONDS)
            only_ours(tmp_path / "remote.git" / "hooks" / "pre-receive")
            harness.gate().raise_fence(proof(6))
            send(int(noted.read_text()), signal.SIGCONT)
            said = late.communicate(timeout=PATIENCE_SECONDS)[1].decode()
        finally:
            late.kill()
            late.communicate()

        assert late.returncode != 0, said
        assert "main is behind a gate" in said
        assert harness.content() is None


def after_ours(hook: Path, command: str) -> None:
    """Let a hook go on with a command of the test's, once ours has let the push pass."""
    hook.write_text(hook.read_text().replace("exec ", "", 1) + f"[ $? = 0 ] || exit 1\n{command}\n")


def only_ours(hook: Path) -> None:
    """Take the test's command away again; the shell that reads the file has read it all."""
    lines = hook.read_text().splitlines()[:-2]
    other = hook.with_suffix(".new")
    other.write_text("\n".join(lines) + "\n")
    other.chmod(0o755)
    other.rename(hook)


def is_stopped(noted: Path) -> bool:
    if not noted.exists() or not noted.read_text().strip():
        return False
    status = Path(f"/proc/{noted.read_text().strip()}/stat").read_text()
    return status.rpartition(")")[2].split()[0] == "T"
