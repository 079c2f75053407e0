"""The files that one option of the claude engine writes for a run: the check before tools, and the gateway."""

import json
import re
import sys

from fencepost.engines.claude import MCP_FILE, SETTINGS_FILE, settings_files

SERVERS = {
    "tracker": {"command": "tracker-mcp", "args": ["--stdio"], "env": {"A": "1"}},
    "remote": {"type": "http", "url": "https://mcp.example"},
}
MINE = {"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]}


def test_nothing_is_written_where_nothing_was_asked_for() -> None:
    assert settings_files({"checks": False}) == {}


def test_the_lease_is_checked_unless_somebody_says_otherwise() -> None:
    assert settings_files({}) == settings_files({"checks": True})
    assert set(json.loads(settings_files({})[SETTINGS_FILE])["hooks"]) == {"PreToolUse", "UserPromptSubmit"}


def test_checks_call_us_before_each_turn_and_each_tool_that_changes_something() -> None:
    files = settings_files({"checks": True, "settings": {"model": "x", "hooks": {"PreToolUse": [MINE]}}})
    settings = json.loads(files[SETTINGS_FILE])

    assert settings["model"] == "x"
    mine, ours = settings["hooks"]["PreToolUse"]
    assert mine == MINE
    (check,) = ours["hooks"]
    assert (check["type"], check["timeout"]) == ("command", 10)
    assert "hook check" in check["command"]
    assert set(ours) == {"matcher", "hooks"}
    checked = [
        name
        for name in ("Bash", "Edit", "Monitor", "mcp__mail__send", "New", "Readme")
        if re.search(ours["matcher"], name)
    ]
    assert checked == ["Bash", "Edit", "Monitor", "mcp__mail__send", "New", "Readme"]
    assert not any(re.search(ours["matcher"], name) for name in ("Read", "Grep", "Glob"))
    assert settings["hooks"]["UserPromptSubmit"] == [{"hooks": [check]}]
    assert MCP_FILE not in files


def test_checks_put_the_gateway_before_every_server() -> None:
    servers = json.loads(settings_files({"checks": True, "mcp_servers": SERVERS})[MCP_FILE])["mcpServers"]

    assert servers["tracker"] == {
        "command": sys.executable,
        "args": ["-P", "-m", "fencepost", "mcp-gate", "--name", "tracker", "--", "tracker-mcp", "--stdio"],
        "env": {"A": "1"},
    }
    assert servers["remote"] == {
        "command": sys.executable,
        "args": ["-P", "-m", "fencepost", "mcp-gate", "--name", "remote", "--url", "https://mcp.example"],
        "env": {},
    }


def test_without_checks_settings_and_servers_are_handed_over_as_they_are() -> None:
    files = settings_files({"checks": False, "settings": {"model": "x"}, "mcp_servers": SERVERS})

    assert json.loads(files[SETTINGS_FILE]) == {"model": "x"}
    assert json.loads(files[MCP_FILE]) == {"mcpServers": SERVERS}
