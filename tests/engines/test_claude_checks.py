"""What a run's own settings call before each tool, and where its MCP servers stand, fit the commands that answer."""

import json
import os
import subprocess
from typing import Any

from fencepost.cli.mcp_gate import parser
from fencepost.engines.claude import MCP_FILE, SETTINGS_FILE, settings_files
from fencepost.service.mcp_http import headers_of

SERVERS = {
    "mail": {"command": "mail-server", "args": ["--stdio"], "env": {"A": "1"}},
    "far": {
        "type": "http",
        "url": "https://far.example/mcp",
        "headers": {"Authorization": "Bearer ${FAR_KEY}", "X-A": "1"},
    },
}


def files(**options: object) -> dict[str, Any]:
    return {name: json.loads(text) for name, text in settings_files({"checks": True, **options}).items()}


def test_the_hook_of_a_run_denies_without_its_supervisor_and_lets_everybody_else_through() -> None:
    hooks = files(settings={"hooks": {"PreToolUse": [{"hooks": []}]}})[SETTINGS_FILE]["hooks"]
    (check,) = hooks["PreToolUse"][1]["hooks"]
    assert check == hooks["UserPromptSubmit"][0]["hooks"][0]
    assert "args" not in check, "it is a line for a shell"

    for env, code in (({}, 0), ({"FENCEPOST_SOCKET": "/nowhere"}, 2)):
        ran = subprocess.run(
            ["/bin/sh", "-c", check["command"]],
            env={"PATH": os.environ["PATH"], **env},
            capture_output=True,
            check=False,
        )
        assert (ran.returncode, ran.stdout) == (code, b"")


def test_a_server_that_is_started_stands_behind_the_gateway_under_its_own_name() -> None:
    servers = files(mcp_servers=SERVERS)[MCP_FILE]["mcpServers"]

    words = servers["mail"]["args"]
    args = parser().parse_args(words[words.index("mcp-gate") + 1 :])
    assert (args.name, args.command) == ("mail", ["--", "mail-server", "--stdio"])
    assert servers["mail"]["env"] == {"A": "1"}


def test_a_server_that_is_reached_by_http_stands_behind_it_too_and_no_header_is_on_a_command_line() -> None:
    far = files(mcp_servers=SERVERS)[MCP_FILE]["mcpServers"]["far"]

    words = far["args"]
    args = parser().parse_args(words[words.index("mcp-gate") + 1 :])
    assert (args.name, args.url, args.command) == ("far", "https://far.example/mcp", [])
    assert headers_of(args.header, far["env"]) == {"Authorization": "Bearer ${FAR_KEY}", "X-A": "1"}
    assert "FAR_KEY" not in " ".join(words)
    assert far.keys() == {"command", "args", "env"}
