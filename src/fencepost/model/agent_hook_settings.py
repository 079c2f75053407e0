"""Which hooks go into the settings of which agent CLI, and how ours are told from the user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost.model import jsonc
from fencepost.model.lease_check import CLAUDE_TOOLS, check_line, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MARK = "# installed by fencepost"
CHECK_SECONDS, START_SECONDS, STRICT_SECONDS = 10, 10, 90


class Cli(NamedTuple):
    """An agent CLI, as far as its hooks go."""

    name: str
    program: str
    folder: str  # in the home or in the project
    home: str  # the variable that names another folder than the one in the home, or nothing
    file: str
    before_tool: str
    before_turn: str
    after_turn: str
    tools: str  # the matcher of tools that change something; nothing: all
    milliseconds: bool = False
    end_seconds: int = 5
    idle: str = ""  # the matcher of notices that it waits for its person
    in_project: bool = True  # whether a project can bring hooks of its own in that file
    is_script: bool = False  # whether the file is the hook itself, called before a tool and asked for JSON


CLIS = {
    "claude": Cli(
        "claude", "claude", ".claude", "CLAUDE_CONFIG_DIR", "settings.json", "PreToolUse", "UserPromptSubmit", "Stop",
        CLAUDE_TOOLS, idle="idle_prompt",
    ),
    "codex": Cli("codex", "codex", ".codex", "CODEX_HOME", "hooks.json", "PreToolUse", "UserPromptSubmit", "Stop", "", end_seconds=3),
    "gemini": Cli(
        "gemini", "gemini", ".gemini", "", "settings.json", "BeforeTool", "BeforeAgent", "AfterAgent",
        "run_shell_command|write_file|replace|mcp_.*", milliseconds=True,
    ),
    "qwen": Cli(
        "qwen", "qwen", ".qwen", "", "settings.json", "PreToolUse", "UserPromptSubmit", "Stop", "", milliseconds=True,
    ),
    "copilot": Cli(
        "copilot", "copilot", ".copilot", "COPILOT_HOME", "settings.json", "PreToolUse", "UserPromptSubmit", "Stop", "",
        in_project=False,
    ),
    "cline": Cli(
        "cline", "cline", ".cline", "CLINE_DIR", "hooks/PreToolUse.sh", "", "", "", "", in_project=False, is_script=True,
    ),
}  # fmt: skip


class SessionHold(NamedTuple):
    """How long a person's session holds its project, and whether one that came second may go on."""

    turn: bool = True  # from a prompt to the end of that turn; else for as long as the session lives
    strict: bool = False


BY_TURN = SessionHold()


def wanted(cli: Cli, words: Sequence[str], hold: SessionHold = BY_TURN) -> dict[str, dict[str, Any]]:
    """Return what we put into the settings: one group for each event."""
    check = _handler(cli, check_line(words), CHECK_SECONDS)

    def says(name: str, seconds: int) -> dict[str, Any]:
        return _handler(cli, session_line(words, name), seconds)

    may_act = [says("turn-check", STRICT_SECONDS)] if hold.strict else []
    tool = {**({"matcher": cli.tools} if cli.tools else {}), "hooks": [check, *may_act]}
    leave = {"hooks": [says("session-end", cli.end_seconds)]}
    if not hold.turn:
        begin = {"hooks": [says("session-start", START_SECONDS)]}
        return {cli.before_tool: tool, cli.before_turn: {"hooks": [check]}, "SessionStart": begin, "SessionEnd": leave}
    end = says("turn-end", cli.end_seconds)
    idle = {"Notification": {"matcher": cli.idle, "hooks": [end]}} if cli.idle else {}
    return {
        cli.before_tool: tool,
        cli.before_turn: {"hooks": [check, says("turn-start", START_SECONDS)]},
        cli.after_turn: {"hooks": [end]},
        **idle,  # an interrupted turn does not say that it has ended
        "SessionEnd": leave,
    }


def session_line(words: Sequence[str], name: str) -> str:
    """Return the shell line for a session's begin or end: a machine without us is not bothered."""
    program = quoted(words[0])
    return f"if command -v {program} >/dev/null; then {' '.join(map(quoted, words))} hook {name}; fi"


def _handler(cli: Cli, line: str, seconds: int) -> dict[str, Any]:
    timeout = seconds * 1000 if cli.milliseconds else seconds
    name = {"name": "fencepost"} if cli.name == "gemini" else {}
    return {**name, "type": "command", "command": f"{line} {MARK}", "timeout": timeout}


def script(words: Sequence[str]) -> str:
    """Return the hook of a CLI that goes by the JSON that a script prints, and lets the tool run whatever its exit code is."""
    reason = r"""$(printf %s "$why" | tr -d '"\\' | tr '[:cntrl:]' ' ')"""
    return f"""\
#!/bin/sh
{MARK}
why=$({{ {check_line(words)}; }} 2>&1 >/dev/null) && exit 0
printf '{{"cancel": true, "errorMessage": "%s"}}\\n' "{reason}"
"""


def install(text: str, cli: Cli, words: Sequence[str], hold: SessionHold = BY_TURN) -> str:
    """Return the settings with our hooks in them, once, and everything else as it was."""
    node = jsonc.parse(text)
    if not isinstance(node.value, dict):
        raise jsonc.NotThisShape("line 1: settings are an object in braces")
    groups = wanted(cli, words, hold)
    ours = [(event, handler) for event, group in groups.items() for handler in group["hooks"]]
    if sorted(installed(text), key=str) == sorted(ours, key=str):  # a person may have some of these events already
        return text
    text = uninstall(text)
    for event, group in groups.items():
        text = jsonc.append(text, ("hooks", event), group)
    return text


def uninstall(text: str) -> str:
    """Return the settings without our hooks, and without what they alone had filled."""
    while (path := next(_ours(jsonc.parse(text)), None)) is not None:
        text = jsonc.remove(text, path)
        for size in (len(path) - 1, len(path) - 2, len(path) - 3, len(path) - 4):
            emptied = path[:size]
            if emptied and _is_left_empty(jsonc.parse(text), emptied):
                text = jsonc.remove(text, emptied)
    return text


def installed(text: str) -> list[tuple[str, Any]]:
    """Return our handlers, each with its event."""
    node = jsonc.parse(text)
    return [(str(path[1]), _at(node, path).value) for path in _ours(node)]


def _ours(node: jsonc.Node) -> Iterator[tuple[str | int, ...]]:
    hooks = node.part("hooks") if isinstance(node.value, dict) else None
    for event in hooks.keys if hooks is not None else ():
        groups = hooks.part(event) if hooks is not None else None
        for place, group in enumerate(groups.parts if groups is not None else ()):
            handlers = group.part("hooks") if isinstance(group.value, dict) else None
            for number, handler in enumerate(handlers.parts if handlers is not None else ()):
                line = handler.value.get("command") if isinstance(handler.value, dict) else None
                if isinstance(line, str) and line.endswith(MARK):
                    yield ("hooks", event, place, "hooks", number)


def _is_left_empty(node: jsonc.Node, path: tuple[str | int, ...]) -> bool:
    """Tell whether nothing of the user's own is left there: an empty list, or a group whose handlers are gone."""
    value = _at(node, path).value
    return value in ([], {}) or (isinstance(value, dict) and len(path) > 1 and set(value) == {"matcher"})


def _at(node: jsonc.Node, path: tuple[str | int, ...]) -> jsonc.Node:
    for step in path:
        node = node.parts[node.keys.index(step) if isinstance(step, str) else step]
    return node
