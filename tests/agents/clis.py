"""The agent CLIs that are run for real: which versions, and where their program is once it is installed."""

import os
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "agents"
PACKAGES = "node_modules"
SWITCH = "FENCEPOST_TEST_AGENTS"  # "main": what every change has to show, in minutes; "all": everything


class Cli(NamedTuple):
    """One version of one CLI."""

    name: str  # of the test
    preset: str
    package: str
    version: str
    program: str  # below the folder that it is installed into
    by_pip: bool = False

    @property
    def folder(self) -> Path:
        """Where it is installed: another version is another folder."""
        return CACHE / f"{self.name}-{self.version}"

    @property
    def path(self) -> Path:
        """Its program."""
        return self.folder / self.program

    @property
    def command(self) -> str:
        """What it is called by."""
        return Path(self.program).name

    @property
    def spec(self) -> str:
        """What the installer is asked for."""
        return f"{self.package}=={self.version}" if self.by_pip else f"{self.package}@{self.version}"


def _npm(name: str, preset: str, package: str, version: str, program: str = "") -> Cli:
    return Cli(name, preset, package, version, f"{PACKAGES}/{program or f'.bin/{preset}'}")


GOOSE = "@aaif/goose-binary-linux-x64"
CLIS = (
    _npm("claude", "claude", "@anthropic-ai/claude-code", "2.1.325"),
    _npm("claude-before-277", "claude", "@anthropic-ai/claude-code", "2.1.197"),  # what npm gives to node 18 to 21
    _npm("codex", "codex", "@openai/codex", "0.166.0"),
    _npm("gemini", "gemini", "@google/gemini-cli", "0.61.0"),
    _npm("opencode", "opencode", "opencode-ai", "1.18.33"),
    _npm("qwen", "qwen", "@qwen-code/qwen-code", "0.15.10"),  # newer ones want node 22
    _npm("copilot", "copilot", "@github/copilot", "1.0.102"),
    _npm("goose", "goose", GOOSE, "1.52.0", f"{GOOSE}/bin/goose"),
    _npm("cline", "cline", "cline", "3.0.65"),
    _npm("continue", "continue", "@continuedev/cli", "1.5.47", ".bin/cn"),
    Cli("aider", "aider", "aider-chat", "0.86.2", "bin/aider", by_pip=True),
)
# Three that cannot be resumed, one of them with an environment of 700 MB, and an older generation: not for every change. What they
# print is recorded, and looked at by every change.
SELDOM = ("aider", "claude-before-277", "cline", "continue")


def is_whole() -> bool:
    """Tell whether everything is to be tried, and not only each CLI's main story."""
    return os.environ.get(SWITCH) == "all"


def tried() -> tuple[Cli, ...]:
    """Return the CLIs that are to be tried."""
    return CLIS if is_whole() else tuple(cli for cli in CLIS if cli.name not in SELDOM)
