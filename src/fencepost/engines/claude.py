"""The claude engine: Claude Code without a terminal, named, watched, resumed, and held to its lease if asked."""

import json
from typing import Any

from fencepost.config.presets import shipped
from fencepost.engines.cli import launch_by
from fencepost.model.budget import MicroUsd, parse_usd, show_usd
from fencepost.model.cli_definition import definition_from
from fencepost.model.definition import AgentDefinition
from fencepost.model.errors import Invalid, Misconfigured
from fencepost.model.lease_check import CLAUDE_TOOLS, check_line, is_checked
from fencepost.model.own_program import own_program
from fencepost.ports.engine import Launch, Setting
from fencepost.ports.runs import RunRow

SETTINGS_FILE, MCP_FILE = "claude-settings.json", "claude-mcp.json"
CHECK_SECONDS = 10
FENCEPOST = own_program()  # absolute: hooks and servers may see another PATH
FLAGS = {
    "fallback_model": "--fallback-model",
    "permission_mode": "--permission-mode",
    "max_turns": "--max-turns",
    "append_system_prompt": "--append-system-prompt",
}
REACHED_BY = ("type", "url", "headers")  # what the gateway takes over from a server that is reached by HTTP
LISTS = {"tools": "--allowedTools", "disallowed_tools": "--disallowedTools"}


class ClaudeEngine:
    """Starts `claude -p`."""

    __slots__ = ()

    def launch(self, agent: AgentDefinition, run: RunRow, setting: Setting) -> Launch:
        """Put the command line together; the prompt goes by standard input."""
        files = settings_files(agent.options)
        try:
            return launch_by(
                definition_from(shipped("claude")),
                agent,
                run,
                setting,
                more=(*_flags(agent, run), *_file_flags(files, setting.folder)),
                files=tuple(files.items()),
            )
        except Invalid as error:
            raise Misconfigured(f"agent {agent.name}: {error}") from None


def _flags(agent: AgentDefinition, run: RunRow) -> tuple[str, ...]:
    options = agent.options
    words: list[str] = []
    for name, flag in FLAGS.items():
        if options.get(name):
            words += [flag, str(options[name])]
    for name, flag in LISTS.items():
        if options.get(name):
            words += [flag, *options[name]]
    if agent.budget_usd:
        words += ["--max-budget-usd", show_usd(_left(agent, run))]
    return tuple(words)


def _left(agent: AgentDefinition, run: RunRow) -> MicroUsd:
    """Return what the run may still cost: earlier attempts have used up their part."""
    return MicroUsd(max(0, parse_usd(agent.budget_usd) - (run.cost_micro or 0)))


def _file_flags(files: dict[str, str], folder: str) -> tuple[str, ...]:
    words: list[str] = []
    if SETTINGS_FILE in files:
        words += ["--settings", f"{folder}/{SETTINGS_FILE}"]
    if MCP_FILE in files:
        words += ["--mcp-config", f"{folder}/{MCP_FILE}", "--strict-mcp-config"]
    return tuple(words)


def settings_files(options: dict[str, Any]) -> dict[str, str]:
    """Return the settings and the MCP servers of one run, each as a file; none that would say nothing."""
    checks = is_checked(options)
    settings = dict(options.get("settings") or {})
    servers = dict(options.get("mcp_servers") or {})
    if checks:
        settings["hooks"] = with_checks(settings.get("hooks") or {})
        servers = {name: behind_gateway(name, server) for name, server in servers.items()}
    files = {}
    if settings:
        files[SETTINGS_FILE] = json.dumps(settings)
    if servers:
        files[MCP_FILE] = json.dumps({"mcpServers": servers})
    return files


def with_checks(hooks: dict[str, Any]) -> dict[str, Any]:
    """Add the check of the lease before each turn and each tool that changes something; the user's own hooks stay."""
    check = {"type": "command", "command": check_line(FENCEPOST), "timeout": CHECK_SECONDS}
    return {
        **hooks,
        "PreToolUse": [*hooks.get("PreToolUse", []), {"matcher": CLAUDE_TOOLS, "hooks": [check]}],
        "UserPromptSubmit": [*hooks.get("UserPromptSubmit", []), {"hooks": [check]}],
    }


def behind_gateway(name: str, server: dict[str, Any]) -> dict[str, Any]:
    """Put the gateway before a server, whether it is started as a program or reached by streamable HTTP.

    What a header says goes by the environment: no process list shows it, and Claude puts its variables in there too.
    """
    program, *words = FENCEPOST
    called = [*words, "mcp-gate", "--name", name]
    if "command" in server:
        called += ["--", str(server["command"]), *server.get("args", [])]
        return {**server, "command": program, "args": called}
    called += ["--url", str(server["url"])]
    env = {}
    for number, (header, value) in enumerate((server.get("headers") or {}).items()):
        env[f"MCP_GATE_HEADER_{number}"] = str(value)
        called += ["--header", f"{header}=env:MCP_GATE_HEADER_{number}"]
    rest = {key: value for key, value in server.items() if key not in REACHED_BY}
    return {**rest, "command": program, "args": called, "env": env}
