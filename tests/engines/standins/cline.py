#!/usr/bin/env python3
"""Stands in for Cline (`cline --json`), as version 3.0.65 was recorded.

- What happens stands in `event` of an `agent_event`: `iteration_start`, `usage` with the sums so far, `content_start` and
  `content_end` of text and tools, `error` with an `errorClass`. The last line is `run_result`; after a failure comes an `error`.
- The prompt is an argument. A session can be resumed only on its screen.
"""

import json
import os
import sys

STANDIN = os.environ.get("STANDIN", "works")
assert os.environ["CLINE_SESSION_BACKEND_MODE"] == "local"
assert sys.argv[1] == "--json"
prompt = sys.argv[sys.argv.index("--") + 1]


def emit(kind: str, **more: object) -> None:
    print(json.dumps({"ts": "2026-11-18T04:00:00.000Z", "type": kind, **more}), flush=True)


def happens(kind: str, **more: object) -> None:
    emit("agent_event", event={"type": kind, **more})


happens("iteration_start", iteration=1)
if STANDIN == "fails":
    happens("error", error={"name": "Error", "message": "invalid x-api-key"}, errorClass="auth", recoverable=False)
    used = {"inputTokens": 0, "outputTokens": 0, "cacheReadTokens": 0, "cacheWriteTokens": 0, "totalCost": 0}
    emit("run_result", finishReason="error", iterations=1, usage=used, aggregateUsage=used)
    emit("error", message="invalid x-api-key")
    sys.exit(1)
happens("usage", inputTokens=50, outputTokens=5, totalInputTokens=50, totalOutputTokens=5, totalCost=0)
happens("content_start", contentType="tool", toolName="run_commands", toolCallId="call_1")
happens("content_end", contentType="tool", toolName="run_commands", toolCallId="call_1", output=[])
happens("content_start", contentType="text", text="cline ", accumulated="cline ")
happens("content_end", contentType="text", text=f"cline answers: {prompt}")
used = {"inputTokens": 90, "outputTokens": 9, "cacheReadTokens": 0, "cacheWriteTokens": 0, "totalCost": 0}
emit(
    "run_result",
    finishReason="completed",
    iterations=2,
    usage=used,
    aggregateUsage=used,
    text=f"cline answers: {prompt}",
)
