#!/usr/bin/env python3
"""Stands in for Gemini CLI (`gemini --output-format stream-json`), as its headless reference describes it.

Events are init, message, tool_use, tool_result, error and result with status and stats. What the assistant says comes in
pieces, each a message with `delta`. The exit code is 41 without authentication, and the HTTP status less 256 for an error
of the model's. `--resume UUID` goes on with a session, whose id stays the same.
"""

import json
import os
import sys
import time

STANDIN = os.environ.get("STANDIN", "works")
prompt = sys.stdin.read()
assert sys.argv[1:3] == ["--output-format", "stream-json"]


def emit(**event: object) -> None:
    print(json.dumps({"timestamp": "2026-01-01T00:00:00Z", **event}), flush=True)


if STANDIN == "no login":
    print("Please set an Auth method", file=sys.stderr)
    sys.exit(41)
emit(type="init", session_id="8f14e45f-ceea-4e7a-9c5d-0c8a7b6d5e4f", model="auto")
emit(type="message", role="user", content=prompt)
emit(type="tool_use", tool_name="run_shell_command", tool_id="t1", parameters={})
if STANDIN == "mid-turn" and "--resume" not in sys.argv:
    time.sleep(600)
if STANDIN == "fails":
    emit(type="result", status="error", error={"type": "ApiError", "message": "quota exceeded", "code": 429}, stats={})
    sys.exit(429 - 256)
emit(type="tool_result", tool_id="t1", status="success", output="")
for piece in ("gemini ", "answers: ", prompt):
    emit(type="message", role="assistant", content=piece, delta=True)
emit(type="result", status="success", stats={"input_tokens": 70, "output_tokens": 7, "cached": 0, "tool_calls": 1})
