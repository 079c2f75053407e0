#!/usr/bin/env python3
"""Stands in for goose (`goose run --output-format stream-json`), as its source describes it.

- Events: `message` with a piece of text (all pieces of a message have its id), a `toolRequest` or a `toolResponse`,
  `notification`, and `complete` with tokens and cost_usd.
- A model that fails is told as a message of the assistant, "Ran into this error: …", then `complete` with 0 tokens; the exit
  code is 0. A refused key is an `error` event, and the exit code 1.
- `--name` names a session, `--resume --name` goes on with it and says "No session found with name" where there is none;
  `--instructions -` reads the prompt from standard input; GOOSE_MODE=auto asks nobody.
"""

import json
import os
import sys
import time
from pathlib import Path

STANDIN = os.environ.get("STANDIN", "works")
words = sys.argv[1:]
assert words[0] == "run"
assert words[words.index("--output-format") + 1] == "stream-json"
assert words[words.index("--instructions") + 1] == "-"
assert os.environ["GOOSE_MODE"] == "auto"
prompt = sys.stdin.read()
name = words[words.index("--name") + 1]
folder = Path(os.environ["HOME"]) / ".goose-sessions"
folder.mkdir(exist_ok=True)
if "--resume" in words and not (folder / name).exists():
    sys.exit(f"Error: No session found with name '{name}'")
(folder / name).touch()


def emit(**event: object) -> None:
    print(json.dumps(event), flush=True)


def say(role: str, number: str = "chatcmpl-1", **content: object) -> None:
    emit(type="message", message={"id": number, "role": role, "created": 1, "content": [content]})


say("assistant", type="toolRequest", id="call_1", toolCall={"status": "success", "value": {"name": "shell"}})
if STANDIN == "mid-turn" and "--resume" not in words:
    time.sleep(600)
emit(type="notification", extension_id="developer", log={"message": "a line of output"})
say("user", type="toolResponse", id="call_1", toolResult={"status": "success", "value": []})
if STANDIN == "fails":
    say("assistant", "msg_1", type="text", text="Ran into this error: Rate limit exceeded.\n\nPlease retry.")
    emit(type="complete", total_tokens=0, input_tokens=0, output_tokens=0)
    sys.exit(0)
for piece in ("goose ", "answers: ", prompt):
    say("assistant", "chatcmpl-2", type="text", text=piece)
cached = {"cache_read_input_tokens": 0, "cache_write_input_tokens": 0}
emit(type="complete", total_tokens=120, input_tokens=100, output_tokens=20, cost_usd=0.0009, **cached)
