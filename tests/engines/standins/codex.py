#!/usr/bin/env python3
"""Stands in for OpenAI Codex (`codex exec --json`), as its source describes it.

The thread's id comes with the first event, `thread.started`; `turn.completed` carries usage and no cost; `error` events
are retries; the exit code is 1 if a turn failed. A thread is kept only after its first turn has answered, and
`codex exec … resume ID -` says "no rollout found for thread id" where there is none; `--sandbox`, `--cd`, `--add-dir` and
`--profile` are not known behind the word `resume`.
"""

import json
import os
import sys
import time
from pathlib import Path

STANDIN = os.environ.get("STANDIN", "works")
words = sys.argv[1:]
assert words[0] == "exec"
assert "--json" in words
assert words[-1] == "-"
prompt = sys.stdin.read()
folder = Path(os.environ["HOME"]) / ".codex-threads"
folder.mkdir(exist_ok=True)
resumed = words[words.index("resume") + 1] if "resume" in words else None
if resumed and (late := {"--sandbox", "--cd", "--add-dir", "--profile"} & set(words[words.index("resume") :])):
    sys.exit(f"error: unexpected argument '{late.pop()}' found")
thread = resumed or f"th-{os.environ['FENCEPOST_FENCE']}"


def emit(**event: object) -> None:
    print(json.dumps(event), flush=True)


if resumed and not (folder / resumed).exists():
    sys.exit(f"Error: thread/resume: thread/resume failed: no rollout found for thread id {resumed} (code -32600)")
emit(type="thread.started", thread_id=thread)
emit(type="turn.started")
emit(type="error", message="Reconnecting... 1/5")
emit(type="item.started", item={"id": "item_0", "type": "command_execution", "command": "ls", "status": "in_progress"})
emit(type="item.completed", item={"id": "item_0", "type": "command_execution", "exit_code": 0})
(folder / thread).write_text(prompt)
if STANDIN == "mid-turn" and not resumed:
    emit(type="item.started", item={"id": "item_1", "type": "command_execution", "command": "make"})
    time.sleep(600)
if STANDIN == "fails":
    emit(type="turn.failed", error={"message": "usage limit reached"})
    sys.exit(1)
emit(type="item.completed", item={"id": "item_2", "type": "agent_message", "text": f"codex answers: {prompt}"})
emit(type="turn.completed", usage={"input_tokens": 900, "cached_input_tokens": 100, "output_tokens": 40})
