#!/usr/bin/env python3
"""Stands in for Qwen Code (`qwen --output-format stream-json`), as version 0.15.10 was recorded.

- Lines are like Claude Code's: `system/init` with session_id and qwen_code_version, `assistant`, `user`, `result`.
- A model that fails is told in a message without llm_tokens, "[API Error: 401 …]", then by a `result` that is a success.
- `--session-id` names a session, `--resume` goes on with it and says "No saved session found" where there is none.
"""

import json
import os
import sys
import time
from pathlib import Path

STANDIN = os.environ.get("STANDIN", "works")
words = sys.argv[1:]
assert words[words.index("--output-format") + 1] == "stream-json"
prompt = sys.stdin.read()
resumed = "--resume" in words
session = words[words.index("--resume" if resumed else "--session-id") + 1]
folder = Path(os.environ["HOME"]) / ".qwen-sessions"
folder.mkdir(exist_ok=True)
if resumed and not (folder / session).exists():
    sys.exit(f"No saved session found with ID {session}. Run `qwen --resume` without an ID to choose.")


def emit(kind: str, **event: object) -> None:
    print(json.dumps({"type": kind, "uuid": "u", "session_id": session, **event}), flush=True)


def say(number: str, tokens: int, **content: object) -> None:
    usage = {"input_tokens": 5 * tokens, "output_tokens": tokens, "cache_read_input_tokens": 0}
    emit("assistant", message={"id": number, "role": "assistant", "content": [content], "usage": usage})


emit("system", subtype="init", qwen_code_version="0.15.10", tools=[], mcp_servers=[])
say("m1", 4, type="tool_use", id="call_1", name="run_shell_command", input={"command": "ls"})
(folder / session).touch()
if STANDIN == "mid-turn" and not resumed:
    time.sleep(600)
emit("user", message={"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": ""}]})
answer = "[API Error: 401 invalid x-api-key]" if STANDIN == "fails" else f"qwen answers: {prompt}"
say("m2", 0 if STANDIN == "fails" else 4, type="text", text=answer)
usage = {"input_tokens": 40, "output_tokens": 8, "cache_read_input_tokens": 0, "total_tokens": 48}
emit("result", subtype="success", is_error=False, num_turns=2, result=answer, usage=usage)
