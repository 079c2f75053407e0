"""What the model of the tests does: a word in the prompt asks for a tool call or for a fault, and then it is done."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

INPUT_TOKENS, OUTPUT_TOKENS = 100, 20
ANSWER = ("all of it ", "is done, in ", "three pieces")  # as it streams
SHELLS = (
    "Bash",
    "bash",
    "shell",
    "shell_command",
    "exec_command",
    "run_shell_command",
    "developer__shell",
    "execute_command",
    "run_commands",
)
RESUMED = "You were interrupted"
SEARCHES = ("ToolSearch", "tool_search")  # by which a model finds tools that are not shown to it at first

# What a word in the prompt makes the model call first: a shell command, or the MCP tool that adds a note. WRITE writes only
# if the run can be reached from inside, past whatever the CLI does to PATH and variables.
COMMANDS = {
    "WRITE": '"$FENCEPOST_EXE" hook check && echo written > written',
    "STAY": "echo half > draft; tail -f /dev/null",
    "WAIT": "echo half > draft; until [ -e enough ]; do sleep 0.1; done; echo whole > draft",
    "STRAY": "echo stray > stray",
    "SHIP": 'env > seen; git commit -qm shipped --allow-empty && git push origin HEAD:main > pushed 2>&1; echo "exit $?" >> pushed',
    "DOZE": "git commit -qm late --allow-empty; echo > asleep; until [ -e awake ]; do sleep 0.1; done; "
    'git push origin HEAD:main > draft 2>&1; echo "exit $?" >> draft; mv draft pushed',
}
# The tool may come later than the first question: some CLIs do not wait for their MCP servers.
NOTE, NOTE_TOOL, NOTE_LINE, NOTED = "please NOTE", "add", "written down by the model", "written-down-for-good"
BOTCH = "please BOTCH"  # by an edit that cannot be applied, of the one file that every project of the tests has
LATER, LATER_MAX = "the tool is not there yet", 100
FAULT = re.compile(r"FAULT-(401|429|500|CUT|SLOW|HELD)(-ONCE)?")  # HELD: answered when the test says so


class Asked(NamedTuple):
    """One request, whatever protocol it came by."""

    text: str  # what was said since the model's last word
    answered: bool  # whether it has the answer of a tool
    tools: Mapping[str, Any]  # name -> schema of its arguments
    model: str = "test"
    streams: bool = True


class Call(NamedTuple):
    """A tool that the model calls."""

    tool: str
    arguments: dict[str, Any]


class Said(NamedTuple):
    """What the model says, in pieces."""

    pieces: tuple[str, ...] = ANSWER


def answer_to(asked: Asked, conversation: str = "") -> Call | Said:
    """Say what the model does next."""
    if NOTE in (conversation or asked.text):
        return _note(asked, conversation)
    if BOTCH in asked.text:
        return Said(("README\n```\n<<<<<<< SEARCH\nnot ", "there\n=======\nsomething else\n", ">>>>>>> REPLACE\n```\n"))
    if asked.answered or RESUMED in asked.text:  # some put what was asked first before what is asked on resuming
        return Said()
    wanted = next((command for word, command in COMMANDS.items() if word in asked.text), None)
    shell = next((name for name in SHELLS if name in asked.tools), None)
    if wanted is None or shell is None:
        return Said(_edit() if "WRITE" in asked.text and not asked.tools else ANSWER)
    return Call(shell, arguments_of(asked.tools[shell], wanted))


def _note(asked: Asked, conversation: str) -> Call | Said:
    """Call the tool for notes as soon as it is there; until then a shell, to be asked again."""
    name, shell = _named(asked.tools, NOTE_TOOL), next((name for name in SHELLS if name in asked.tools), None)
    if NOTED in conversation or (name is None and shell is None) or conversation.count(LATER) > LATER_MAX:
        return Said()
    if name is not None and (shell is None or conversation.count(NOTE_LINE) <= conversation.count(LATER)):
        return Call(name, {"line": NOTE_LINE})
    return Call(str(shell), arguments_of(asked.tools[str(shell)], f"sleep 1; echo {LATER}"))


def arguments_of(schema: Mapping[str, Any], command: str) -> dict[str, Any]:
    """Put a command into the arguments that a shell tool wants, whatever their names are."""
    known: Mapping[str, Any] = schema.get("properties") or {}
    key = next((name for name in ("command", "cmd", "commands") if name in known), "command")
    kind = known.get(key, {}).get("type")
    words = [command] if key == "commands" else ["bash", "-lc", command]  # several commands, or the words of one
    made: dict[str, Any] = {key: words if kind == "array" else command}
    for name in schema.get("required") or ():
        if name not in made:
            made[name] = False if known.get(name, {}).get("type") == "boolean" else "a test asks for it"
    return made


def _named(tools: Mapping[str, Any], tool: str) -> str | None:
    """Find the tool of an MCP server, before whose name each CLI puts something else."""
    found = next((name for name in tools if re.search(rf"(^|[^a-z]){tool}$", name)), None)
    return found or (f"mcp__notes__{tool}" if any(name in tools for name in SEARCHES) else None)


def _edit() -> tuple[str, ...]:
    """Return a file in the form in which aider takes one from a model that has no tools."""
    return ("Here it is.\n\n", "written\n```\nwrit", "ten\n```\n")
