"""How each real CLI is led to the model of the tests, and nowhere else: settings in a home of its own, and variables.

Telemetry and updates are off in all of them.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.agents.clis import Cli
from tests.agents.model.script import NOTED
from tests.agents.model.server import KEY

NOTES = Path(__file__).parent / "notes_server.py"
FENCEPOST = str(Path(sys.executable).parent / "fencepost")
GATEWAY = ["mcp-gate", "--name", "notes", "--", sys.executable, str(NOTES), NOTED]
# What the gateway needs of a run. Codex hands an MCP server only what is named.
RUN_VARIABLES = ["FENCEPOST_SOCKET", "FENCEPOST_RUN_PROOF", "FENCEPOST_RUN_ID", "FENCEPOST_RESOURCE", "FENCEPOST_FENCE"]
MCP_SECONDS = 120  # in which an MCP server has to be there: on a busy machine Python takes its time


class Settings(NamedTuple):
    """One CLI, set up."""

    env: dict[str, str]
    args: tuple[str, ...] = ()
    noting: tuple[str, ...] = ()  # args that bring the MCP server of the notes, behind the gateway
    noting_env: dict[str, str] = {}  # noqa: RUF012  # never changed
    noting_files: dict[str, str] = {}  # noqa: RUF012  # in its project
    impatient: dict[str, str] = {}  # noqa: RUF012  # variables with which it gives up soon
    led: tuple[str, ...] | None = None  # its args where the model gate's recipe leads it, if they are others
    gate: tuple[str, str] = (
        "openai",
        "gpt-4o",
    )  # whose protocol it speaks before the model gate, and a model of theirs


def set_up(cli: Cli, home: Path, url: str) -> Settings:
    """Write the CLI's settings into a home, and return the rest."""
    return SETTERS[cli.preset](home, url)


def _claude(_: Path, url: str) -> Settings:
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1"}
    env = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY, "MCP_TIMEOUT": f"{MCP_SECONDS}000", **quiet}
    gate = ("anthropic", "claude-sonnet-4-5")
    return Settings(
        env, impatient={"CLAUDE_CODE_MAX_RETRIES": "1"}, gate=gate
    )  # its engine has tools and mcp_servers of its own


CODEX = """\
model = "test"
model_provider = "tests"
check_for_update_on_startup = false
approval_policy = "never"
[analytics]
enabled = false
[model_providers.tests]
name = "the model of the tests"
base_url = "{url}/v1"
env_key = "MODEL_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
"""


def _codex(home: Path, url: str) -> Settings:
    write(home / ".codex" / "config.toml", CODEX.format(url=url))
    server = {
        "command": FENCEPOST,
        "args": GATEWAY,
        "env_vars": RUN_VARIABLES,
        "startup_timeout_sec": MCP_SECONDS,  # it goes on without the server after ten
        "required": True,
    }
    noting = [word for key, value in server.items() for word in ("-c", f"mcp_servers.notes.{key}={json.dumps(value)}")]
    return Settings(
        {"MODEL_KEY": KEY},
        ("--sandbox", "danger-full-access", "--dangerously-bypass-hook-trust"),
        noting=tuple(noting),
    )


def _gemini(home: Path, url: str) -> Settings:
    quiet = {"telemetry": {"enabled": False}, "privacy": {"usageStatisticsEnabled": False}}
    login = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    general = {"general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False}}
    write(home / ".gemini" / "settings.json", json.dumps({**quiet, **login, **general}))
    server = {"command": FENCEPOST, "args": GATEWAY, "trust": True}
    return Settings(
        {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_TRUST_WORKSPACE": "true"},
        ("--model", "gemini-2.5-flash", "--yolo"),
        noting_files={".gemini/settings.json": json.dumps({"mcpServers": {"notes": server}})},
        gate=("gemini", "gemini-2.5-flash"),
    )


def _opencode(home: Path, url: str) -> Settings:
    model = {"name": "test", "cost": {"input": 1000, "output": 1000}}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{url}/v1", "apiKey": KEY}}
    settings: dict[str, Any] = {
        "autoupdate": False,
        "share": "disabled",
        "model": "tests/test",
        "small_model": "tests/test",
        "provider": {"tests": {**provider, "models": {"test": model}}},
    }
    write(home / ".config" / "opencode" / "opencode.json", json.dumps(settings))
    server = {"type": "local", "command": [FENCEPOST, *GATEWAY], "enabled": True, "timeout": MCP_SECONDS * 1000}
    off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    return Settings(
        {f"OPENCODE_DISABLE_{name}": "1" for name in off},
        ("--auto",),
        noting_env={"OPENCODE_CONFIG_CONTENT": json.dumps({"mcp": {"notes": server}})},
        gate=("openai", "openai/gpt-4o"),
    )


def _qwen(home: Path, url: str) -> Settings:
    quiet = {"telemetry": {"enabled": False}, "privacy": {"usageStatisticsEnabled": False}}
    general = {"general": {"disableAutoUpdate": True}, "security": {"auth": {"selectedType": "openai"}}}
    write(home / ".qwen" / "settings.json", json.dumps({**quiet, **general}))
    server = {"command": FENCEPOST, "args": GATEWAY, "trust": True}
    return Settings(
        {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "test"},
        ("--yolo",),
        noting=("--mcp-config", json.dumps({"mcpServers": {"notes": server}})),
    )


def _copilot(_: Path, url: str) -> Settings:
    server = {"type": "local", "command": FENCEPOST, "args": GATEWAY, "tools": ["*"]}
    provider = {"BASE_URL": f"{url}/v1", "TYPE": "openai", "API_KEY": KEY}
    return Settings(
        {
            **{f"COPILOT_PROVIDER_{key}": value for key, value in provider.items()},
            "COPILOT_MODEL": "test",
            "COPILOT_OFFLINE": "true",
        },
        ("--allow-all-tools",),
        noting=("--additional-mcp-config", json.dumps({"mcpServers": {"notes": server}})),
    )


def _goose(_: Path, url: str) -> Settings:
    env = {"GOOSE_PROVIDER": "openai", "OPENAI_HOST": url, "OPENAI_API_KEY": KEY, "GOOSE_MODEL": "gpt-4o"}
    quiet = {"GOOSE_DISABLE_KEYRING": "1", "GOOSE_TELEMETRY_ENABLED": "false"}
    return Settings({**env, **quiet}, noting=("--with-extension", " ".join([FENCEPOST, *GATEWAY])))


def _cline(home: Path, url: str) -> Settings:
    made = {"provider": "openai-compatible", "apiKey": KEY, "model": "test", "baseUrl": f"{url}/v1"}
    told = {"settings": made, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    known = {"version": 1, "lastUsedProvider": "openai-compatible", "modes": {}, "providers": {made["provider"]: told}}
    write(home / ".cline" / "data" / "settings" / "providers.json", json.dumps(known))
    server = {"command": FENCEPOST, "args": GATEWAY, "timeout": MCP_SECONDS}  # else it goes on without it after three
    noting = write(home / "cline-mcp.json", json.dumps({"mcpServers": {"notes": server}}))
    return Settings({"DO_NOT_TRACK": "1"}, noting_env={"CLINE_MCP_SETTINGS_PATH": noting})


def _continue(home: Path, url: str) -> Settings:
    model = {"name": "test", "provider": "openai", "model": "test", "apiBase": f"{url}/v1", "apiKey": KEY}
    made = {"name": "tests", "version": "1.0.0", "schema": "v1", "models": [{**model, "roles": ["chat"]}]}
    server = {"name": "notes", "command": FENCEPOST, "args": GATEWAY}
    plain = write(home / "plain.yaml", json.dumps(made))  # JSON is YAML
    noting = write(home / "noting.yaml", json.dumps({**made, "mcpServers": [server]}))
    quiet = {"CONTINUE_METRICS_ENABLED": "0"}
    return Settings(quiet, ("--auto", "--config", plain), noting=("--config", noting), led=("--auto",))


def _aider(home: Path, url: str) -> Settings:
    # It fetches a list of all models and their prices, unless it has one of today that is not empty.
    write(home / ".aider" / "caches" / "model_prices_and_context_window.json", json.dumps({"no/model": {}}))
    off = {
        f"AIDER_{name}": "false" for name in ("ANALYTICS", "CHECK_UPDATE", "SHOW_RELEASE_NOTES", "SHOW_MODEL_WARNINGS")
    }
    env = {"OPENAI_API_BASE": f"{url}/v1", "OPENAI_API_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    return Settings({**env, **off}, ("--model", "openai/gpt-4o", "--edit-format", "whole"))


SETTERS: dict[str, Callable[[Path, str], Settings]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "opencode": _opencode,
    "qwen": _qwen,
    "copilot": _copilot,
    "goose": _goose,
    "cline": _cline,
    "continue": _continue,
    "aider": _aider,
}


def write(path: Path, text: str) -> str:
    """Write a file, wherever it is to be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)
