#!/usr/bin/env python3
"""Stands in for Amp (`amp --execute --stream-json`), as its SDK types the stream and its manual names the commands.

- Lines are like Claude Code's: `system/init`, `assistant` and `user` messages with a `session_id` that is the thread's,
  `T-…`; the last is `result`, with `is_error`, `num_turns`, `duration_ms`, and `result` or `error`.
- An assistant's message tells its `usage`; nothing tells a cost.
- `amp threads continue T-… --execute` goes on with a thread; the prompt comes by standard input.
"""

import json
import os
import sys
import time
from pathlib import Path

STANDIN = os.environ.get("STANDIN", "works")
words = sys.argv[1:]
assert "--execute" in words
assert "--stream-json" in words
prompt = sys.stdin.read()
folder = Path(os.environ["HOME"]) / ".amp-threads"
folder.mkdir(exist_ok=True)
resumed = words[2] if words[:2] == ["threads", "continue"] else None
if resumed and not (folder / resumed).exists():
    sys.exit(f"Error: Thread {resumed} not found")
thread = resumed or f"T-{os.environ['FENCEPOST_FENCE']}"
(folder / thread).touch()


def emit(**event: object) -> None:
    print(json.dumps({"session_id": thread, **event}), flush=True)


def message(*content: dict[str, object], spent: int) -> dict[str, object]:
    usage = {"input_tokens": spent, "output_tokens": 2, "cache_read_input_tokens": 0}
    return {"type": "message", "role": "assistant", "content": content, "usage": usage}


emit(type="system", subtype="init", cwd=os.getcwd(), tools=["Bash"], mcp_servers=[])
emit(type="user", message={"role": "user", "content": [{"type": "text", "text": prompt}]}, parent_tool_use_id=None)
emit(type="assistant", message=message({"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}, spent=30))
if STANDIN == "mid-turn" and not resumed:
    time.sleep(600)
emit(type="user", message={"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]})
if STANDIN == "fails":
    emit(type="result", subtype="error_during_execution", is_error=True, error="out of credits", num_turns=1)
    sys.exit(0)
emit(type="assistant", message=message({"type": "text", "text": "thinking aloud"}, spent=12))
emit(type="result", subtype="success", is_error=False, result=f"amp answers: {prompt}", num_turns=2, duration_ms=5)
