#!/usr/bin/env python3
"""Stands in for Cursor's CLI (`cursor-agent --print --output-format stream-json`), as its reference describes it.

- `system/init` carries the `session_id`; `tool_call` comes as `started` and `completed` with one `call_id`; `thinking`
  events are not documented and come all the same; the last line is `result`, subtype `success`, is_error false.
- "On failure, the process exits with a non-zero code and writes an error message to stderr", and there is no result.
- Newer ones tell `usage` in the result, in camelCase; none tells a cost. `--resume ID` goes on with a conversation; the
  prompt may come by standard input, for print mode is inferred from a pipe.
"""

import json
import os
import sys
import time
from pathlib import Path

STANDIN = os.environ.get("STANDIN", "works")
words = sys.argv[1:]
assert "--print" in words
assert words[words.index("--output-format") + 1] == "stream-json"
prompt = sys.stdin.read()
folder = Path(os.environ["HOME"]) / ".cursor-chats"
folder.mkdir(exist_ok=True)
resumed = words[words.index("--resume") + 1] if "--resume" in words else None
chat = resumed if resumed and (folder / resumed).exists() else f"chat-{os.environ['FENCEPOST_FENCE']}"
(folder / chat).touch()


def emit(**event: object) -> None:
    print(json.dumps({"session_id": chat, **event}), flush=True)


emit(type="system", subtype="init", apiKeySource="env", cwd=os.getcwd(), model="Auto", permissionMode="default")
emit(type="user", message={"role": "user", "content": [{"type": "text", "text": prompt}]})
emit(type="thinking", subtype="delta", text="hm")
emit(type="tool_call", subtype="started", call_id="c1", tool_call={"shellToolCall": {"args": {"command": "ls"}}})
if STANDIN == "mid-turn" and not resumed:
    time.sleep(600)
if STANDIN == "fails":
    sys.exit("Error: You've hit your usage limit")
emit(type="tool_call", subtype="completed", call_id="c1", tool_call={"shellToolCall": {"result": {"success": {}}}})
emit(type="assistant", message={"role": "assistant", "content": [{"type": "text", "text": "nearly"}]})
usage = {"inputTokens": 79, "outputTokens": 8, "cacheReadTokens": 3, "cacheWriteTokens": 0}
emit(type="result", subtype="success", is_error=False, duration_ms=9, result=f"cursor answers: {prompt}", usage=usage)
