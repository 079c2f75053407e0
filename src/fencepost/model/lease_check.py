"""The check before a tool call: in the agent's own tree, so it is a look, not a gate.

Claude Code, Codex and Gemini let a tool run when the check crashes, is missing or takes too long. What stops it in all
three is exit code 2 with nothing on standard output and a plain sentence on standard error.
"""

from __future__ import annotations

from fencepost.model.fast_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Mapping, Sequence

PASSED, DENIED = 0, 2
# Any of these means that the process belongs to a run, also where the others got lost on the way.
MARKS = ("FENCEPOST_RUN_ID", "FENCEPOST_SOCKET", "FENCEPOST_RUN_KEY", "FENCEPOST_FENCE")
# Every tool of Claude Code but those that are known to look only: an unknown one is checked too.
CLAUDE_TOOLS = "^(?!(Read|Glob|Grep|LS|NotebookRead|TodoRead|TodoWrite|ToolSearch|ListAgents|ReportFindings)$)"
UNASKED = "fencepost: the check of the lease could not be made, so this is refused. Stop now."


def is_in_a_run(environ: Mapping[str, str]) -> bool:
    """Tell whether there is a lease to look at; a person's own session has none and is let through."""
    return any(environ.get(name) for name in MARKS)


def denial(environ: Mapping[str, str], why: str) -> str:
    """Say in one plain sentence who is stopped and why; no CLI may take it for JSON."""
    run = printable(environ.get("FENCEPOST_RUN_ID", "")) or "without a name"
    resource = printable(environ.get("FENCEPOST_RESOURCE", ""))
    where = f" on {resource}" if resource else ""
    return f"fencepost: run {run}{where}: {printable(why)} Stop now."


def is_checked(options: Mapping[str, object]) -> bool:
    """Tell whether runs of an agent whose CLI we start with its hooks are checked, which is the default."""
    return options.get("checks", True) is not False


def check_line(words: Sequence[str]) -> str:
    """Return the shell line that an agent's settings call before each tool.

    The shell looks for a run before anything else is started: a person's session costs next to nothing and does not
    depend on us. Inside a run everything but a clear yes is a no, also when the program is gone or dies.
    """
    call = " ".join(quoted(word) for word in (*words, "hook", "check"))
    marks = "".join(f"${name}" for name in MARKS)
    refuse = f"{{ [ $? = {DENIED} ] || echo {quoted(UNASKED)} >&2; exit {DENIED}; }}"
    return f'test -z "{marks}" || {call} || {refuse}'


def quoted(word: str) -> str:
    """Write a word so that a shell reads it as it is."""
    if word and all(character.isascii() and (character.isalnum() or character in "-_./=:,@+") for character in word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def printable(text: str) -> str:
    """Keep a text on its line, whatever it holds."""
    return "".join(character if character.isprintable() else " " for character in text).strip()
