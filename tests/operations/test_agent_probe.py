"""An agent that could not start here is told before its first run: by plan, apply and doctor."""

import json
from pathlib import Path

import pytest

from fencepost.model.definition import AgentDefinition
from fencepost.operations.agent_probe import missing_parts
from tests.support.desk import Desk, desk

__all__ = ["desk"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("tool", "python3", "claude", "codex"):
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o755)
    (tmp_path / "there.py").write_text("")
    (tmp_path / "plain").write_text("not to be run")
    return tmp_path


def problems(folder: Path, agent: AgentDefinition, *, path: str | None = None, project: str = "") -> list[str]:
    projects = {"p": {"path": project}} if project else {}
    environ = {"PATH": str(folder / "bin") if path is None else path}
    return list(missing_parts(agent, environ=environ, folder=str(folder), projects=projects))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"command": ("tool", "x")}, ""),
        ({"command": ("nosuch",)}, "its program 'nosuch' is not in the PATH"),
        ({"command": ("bin/tool",)}, ""),
        ({"command": ("./gone",)}, "its program './gone' is not in"),
        ({"command": ("./plain",)}, "or may not be run"),
        ({"command": ("python3", "there.py")}, ""),
        ({"command": ("python3", "gone.py")}, "its script 'gone.py' is not in"),
        ({"command": ("python3", "-m", "gone.py")}, ""),
        ({"command": ("python3", "{payload}.py")}, ""),
        ({"command": ("nosuch --flag",), "shell": True}, ""),
        ({"engine": "claude", "prompt": "p"}, ""),
        ({"engine": "cli", "prompt": "p", "options": {"argv": ["gemini", "-p"]}}, "its program 'gemini'"),
        ({"engine": "python", "function": "m:f"}, ""),
        ({"engine": "http", "options": {"url": "https://example.com"}}, ""),
        ({"command": ("tool",), "env": {"PATH": "/nowhere"}}, "is not in the PATH of this machine (/nowhere)"),
    ],
)
def test_what_is_missing_is_named(folder: Path, fields: dict[str, object], words: str) -> None:
    found = problems(folder, AgentDefinition("a", **fields))  # type: ignore[arg-type]

    assert len(found) == bool(words)
    assert words in "".join(found)


def test_the_project_is_where_a_run_looks(folder: Path) -> None:
    (folder / "site").mkdir()
    (folder / "site" / "build.py").write_text("")
    agent = AgentDefinition("a", command=("python3", "build.py"), project="p")

    assert problems(folder, agent, project="site") == []
    assert "its folder" in problems(folder, agent, project="gone")[0]


def test_claude_that_is_not_installed_is_told_by_plan_apply_and_doctor(
    desk: Desk, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    (folder / "fencepost.toml").write_text(
        f'[fencepost]\nstore = "{desk.url}"\ntimezone = "UTC"\n[agents.w]\nengine = "claude"\nprompt = "p"\n'
    )
    for command in ("plan", "apply"):
        told = desk.cli_plain(command)
        assert told.code == 0, told
        assert "its program 'claude' is not in" in " ".join(told.out.decode().split())
    told = desk.cli_plain("doctor", "--json")
    found = {row["check"]: row for row in map(json.loads, told.out.splitlines())}
    assert (told.code, found["agents"]["status"]) == (1, "fail")
    assert found["agents"]["message"].startswith("w: its program 'claude'")

    monkeypatch.setenv("PATH", f"{folder}/bin:/usr/bin:/bin")
    told = desk.cli_plain("doctor", "--json")
    found = {row["check"]: row for row in map(json.loads, told.out.splitlines())}
    assert found["agents"]["status"] == "ok"
