"""A site with one real CLI, a home of its own, and the model of the tests."""

import json
import subprocess
from pathlib import Path
from typing import Any

from fencepost.config.presets import shipped
from fencepost.ports.runs import RunRow
from tests.agents.clis import Cli
from tests.agents.model.server import Model
from tests.agents.settings import FENCEPOST, GATEWAY, Settings, set_up, write
from tests.support.repository import make_repository
from tests.support.site import Site

HOOKED = ("claude", "codex", "gemini", "qwen", "copilot", "cline")  # whose hooks `fencepost hook install` writes
KEPT = ("LANG", "TMPDIR", "USER", "XDG_STATE_HOME", "HOME")
PATIENCE_SECONDS = 300.0  # only what never comes takes so long


class Ground(Site):
    """Where the agents of one CLI work, each in a folder of its own."""

    def __init__(self, folder: Path, cli: Cli, model: Model) -> None:
        super().__init__(folder)
        self.cli, self.model = cli, model
        self.variables: dict[str, str] = {}  # of whoever starts a worker here
        write(folder / ".gitconfig", "[user]\n\tname = agent\n\temail = agent@example.org\n")
        (folder / "bin").mkdir()
        (folder / "bin" / cli.command).symlink_to(cli.path)
        self.settings: Settings = set_up(cli, folder, model.url)
        self.make("works")  # the first one is made here, and not by several threads at once

    def environment(self) -> dict[str, str]:
        """Keep the machine's own settings of any agent away."""
        made = super().environment()
        kept = {name: value for name, value in made.items() if name in KEPT}
        return {**kept, "PATH": f"{self.folder}/bin:{made['PATH']}", "TERM": "dumb", **self.variables}

    def describe(self, name: str, prompt: str, *, env: dict[str, str] | None = None, **more: str) -> str:
        """Describe an agent of this CLI, with a project of its own."""
        self.make(name)
        variables = {**self.settings.env, **(env or {})}
        lines = {"project": f'"{name}"', "prompt": json.dumps(prompt), "env": _inline(variables), **self._way(), **more}
        text = "".join(f"{key} = {value}\n" for key, value in lines.items())
        return f'[projects.{name}]\npath = "{name}"\n[agents.{name}]\n{text}'

    def make(self, name: str) -> Path:
        """Make a repository for an agent, if it has none, and return where it is."""
        place = self.folder / name
        if not (place / ".git").exists():
            make_repository(place)
        return place

    def _way(self) -> dict[str, str]:
        if self.cli.preset == "claude":
            return {"engine": '"claude"', "tools": '["Bash"]'}
        return {"engine": '"cli"', "preset": f'"{self.cli.preset}"', "args": json.dumps(list(self.settings.args))}

    def noting(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the keys and variables of an agent that has the MCP server of the notes, behind the gateway."""
        if self.cli.preset == "claude":  # its engine puts the gateway there by itself
            program, *words = GATEWAY[GATEWAY.index("--") + 1 :]
            server = f'{{ notes = {{ command = "{program}", args = {json.dumps(words)} }} }}'
            return {"mcp_servers": server, "tools": '["Bash", "mcp__notes__add"]'}, {}
        self.make("notes")
        for name, text in self.settings.noting_files.items():
            write(self.folder / "notes" / name, text)
        args = [*self.settings.args, *self.settings.noting]
        return {"args": json.dumps(args)}, self.settings.noting_env

    def start_run(self, name: str) -> None:
        """Ask for a run now."""
        self.fencepost("run", name)

    def run_of(self, name: str) -> RunRow:
        """Return the one run of an agent."""
        (run,) = self.runs(agent=name)
        return run

    def wait_for(self, name: str) -> dict[str, Any]:
        """Wait until an agent's run has ended, and return what `show` says of it."""
        self.until(lambda: self.run_of(name).ended_us is not None, seconds=PATIENCE_SECONDS)
        (row,) = self.rows("show", self.run_of(name).id)
        return row

    def until_there(self, name: str, file: str) -> None:
        """Wait until an agent has written a file."""
        self.until((self.folder / name / file).exists, seconds=PATIENCE_SECONDS)

    def agents_alive(self, name: str) -> list[int]:
        """Return the processes of an agent's run."""
        mark = f"FENCEPOST_RUN_ID={self.run_of(name).id}\0".encode()
        return [pid for pid in self.left_alive() if mark in _environ(pid)]

    def directly(self, prompt: str, *, env: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
        """Run the CLI as a person's script would, outside of any run that is known."""
        words = {
            "claude": ["-p", "--output-format", "json", "--allowedTools", "Bash"],
            "codex": ["exec", "--json", "--skip-git-repo-check", *self.settings.args, "-"],
            "gemini": ["--output-format", "json", *self.settings.args],
            "qwen": ["--output-format", "json", *self.settings.args],
            "copilot": ["--output-format", "json", "--no-auto-update", *self.settings.args],
            "cline": ["--json", *self.settings.args, "--", prompt],
        }[self.cli.preset]
        self.fencepost("hook", "install", self.cli.preset)
        place = self.make("directly")
        own = shipped(self.cli.preset).get("env", {})
        whole = {**self.environment(), **own, **self.settings.env, "FENCEPOST_EXE": FENCEPOST, **env}
        argv = [str(self.folder / "bin" / self.cli.preset), *words]
        return subprocess.run(
            argv,
            cwd=place,
            env=whole,
            input=prompt.encode(),
            capture_output=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )


def _inline(variables: dict[str, str]) -> str:
    return "{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in variables.items()) + " }"


def _environ(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
