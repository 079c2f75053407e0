#!/usr/bin/env python3
"""Stands in for Claude Code 2.1 (`claude -p`), as its documentation describes it; STANDIN chooses what it does.

- `--output-format stream-json` needs `--verbose`; the first event is `system/init` with the session's id, the last
  line is `result` with is_error, num_turns, total_cost_usd and modelUsage (headless and SDK reference).
- `--session-id` takes a UUID of the caller's; `--resume` goes on with a session, and says "No conversation found with
  session ID" on standard error, with exit code 1, where there is none. Sessions are kept by working directory.
- SIGINT ends the turn; SIGTERM leaves it unfinished and exits with 143; `--resume` continues an unfinished turn.
- In a session that was resumed, total_cost_usd and modelUsage are of the whole session, what earlier processes did in it
  included; num_turns and usage are of this process (seen with 2.1.325).
- Each message of the model tells its own usage, in one event for each of its parts.
- Known to misbehave: it prints its result and never exits; `is_error` comes with `subtype: success` on API errors; a
  poisoned session returns no turns, no cost and an empty result with exit code 0; MCP servers leave the process group;
  keep-alive frames go on while nothing happens.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

STANDIN = os.environ.get("STANDIN", "works")
USAGE = {
    "big": {"inputTokens": 1000, "outputTokens": 200, "cacheReadInputTokens": 50, "cacheCreationInputTokens": 7},
    "small": {"inputTokens": 10, "outputTokens": 2, "cacheReadInputTokens": 0, "cacheCreationInputTokens": 0},
}


def option(name: str) -> str | None:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None


def emit(**event: object) -> None:
    print(json.dumps({"session_id": session, "uuid": os.urandom(8).hex(), **event}), flush=True)


def say(text: str) -> None:
    emit(type="assistant", message={"role": "assistant", "content": [{"type": "text", "text": text}]})


def call(name: str) -> None:
    emit(type="assistant", message={"content": [{"type": "tool_use", "id": name, "name": "Bash", "input": {}}]})


def answer(name: str) -> None:
    emit(type="user", message={"content": [{"type": "tool_result", "tool_use_id": name, "content": "ok"}]})


def result(text: str = "all done", *, total_cost_usd: float = 0.0123, **more: object) -> None:
    book = folder / f"{session}.book"
    before, results = json.loads(book.read_text()) if book.exists() else (0, 0)
    total, results = round(before + total_cost_usd, 6), results + 1
    if book.parent.is_dir():
        book.write_text(json.dumps([total, results]))
    usage = {model: {kind: amount * results for kind, amount in used.items()} for model, used in USAGE.items()}
    emit(**{
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "num_turns": 3,
        "result": text,
        "total_cost_usd": total,
        "modelUsage": usage,
        **more,
    })  # fmt: skip


def turn_to_its_end() -> None:
    say("looking around")
    call("toolu_1")
    answer("toolu_1")


def interrupted(number: int, _: object) -> None:
    """End the turn: what was done is kept, and the next --resume goes on from there."""
    note("interrupted" if number == signal.SIGINT else "terminated")
    if number == signal.SIGTERM:
        sys.exit(143)
    result("", subtype="error_during_execution", is_error=True, terminal_reason="aborted_tools", total_cost_usd=0.01)
    sys.exit(1)


def note(word: str) -> None:
    with (folder / f"{session}.jsonl").open("a") as file:
        file.write(json.dumps({"word": word, "fence": os.environ.get("FENCEPOST_FENCE"), "folder": os.getcwd()}) + "\n")


prompt = sys.stdin.read()
folder = Path(os.environ["HOME"]) / ".claude-sessions"
folder.mkdir(exist_ok=True)
resumed = option("--resume")
session = resumed or option("--session-id") or "none"
kept = folder / f"{session}.jsonl"
assert "-p" in sys.argv
assert option("--output-format") == "stream-json"
assert "--verbose" in sys.argv
if resumed and STANDIN == "another session":
    session = "11111111-2222-3333-4444-555555555555"
elif resumed and not (kept.exists() and json.loads(kept.read_text().splitlines()[0])["folder"] == os.getcwd()):
    print(f"No conversation found with session ID: {session}", file=sys.stderr)
    sys.exit(1)
elif not resumed and kept.exists():
    print(f"Error: Session ID {session} is already in use.", file=sys.stderr)
    sys.exit(1)
(Path(os.environ["HOME"]) / "claude-argv.json").write_text(json.dumps([sys.argv[1:], prompt, dict(os.environ)]))
signal.signal(signal.SIGINT, interrupted)
signal.signal(signal.SIGTERM, interrupted)
note("begun" if not resumed else "resumed")

if STANDIN == "silent":
    time.sleep(1.5)
    result()
    sys.exit(0)
emit(type="system", subtype="init", claude_code_version="2.1.325", mcp_servers=[], capabilities=[])
if resumed:
    say("going on")
    if draft := os.environ.get("DRAFT"):
        Path(draft).write_text(Path(draft).read_text() + "and the other half\n")
    result("went on and finished")
elif STANDIN == "works":
    turn_to_its_end()
    print("warning: a note on standard error", file=sys.stderr, flush=True)
    result()
elif STANDIN == "never exits":
    turn_to_its_end()
    result()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
elif STANDIN == "goes on after a result":
    result("waiting for a background task")
    time.sleep(0.8)
    say("the background task is done")
    time.sleep(0.8)
    result("really done")
elif STANDIN == "error with exit 0":
    turn_to_its_end()
    result("API Error: 529 overloaded", is_error=True, api_error_status=529)
elif STANDIN == "nothing with exit 0":
    result("", num_turns=0, total_cost_usd=0)
elif STANDIN == "no result":
    turn_to_its_end()
elif STANDIN == "over budget":
    turn_to_its_end()
    result(subtype="error_max_budget_usd", is_error=True, errors=["budget exhausted"], total_cost_usd=0.5)
    sys.exit(1)
elif STANDIN == "keep-alives":
    say("thinking")
    for _ in range(400):
        emit(type="tool_progress", tool_use_id="x", elapsed_time_seconds=1)
        emit(type="system", subtype="api_retry", attempt=1, max_retries=10)
        time.sleep(0.1)
elif STANDIN == "long tool":
    call("toolu_1")
    time.sleep(float(os.environ["TOOL_SECONDS"]))
    answer("toolu_1")
    result()
elif STANDIN == "orphan":
    subprocess.Popen(["sleep", "987"], start_new_session=True)  # an MCP server that left the group
    turn_to_its_end()
    result()
elif STANDIN == "secret":
    say(os.environ["SECRET_WORD"])
    result(f"the word is {os.environ['SECRET_WORD']}")
elif STANDIN in ("mid-turn", "another session", "forgetful"):
    if STANDIN == "forgetful":
        kept.unlink()
        folder = Path("/dev/null")
    Path(os.environ.get("DRAFT") or os.devnull).write_text("half a thought\n")
    call("toolu_1")
    time.sleep(600)
else:
    sys.exit(f"no such stand-in: {STANDIN}")
