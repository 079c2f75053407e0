#!/usr/bin/env python3
"""Stands in for goose (`goose run --output-format stream-json`), as its source describes it.

- Events: `message` with the whole message (content `text`, `toolRequest`, `toolResponse`), `notification`, `error` with
  `error`, and `complete` with total_tokens, in newer ones input_tokens and output_tokens too. None tells a cost.
- A run ends with `complete` also after an `error`; the exit code may be 0 then.
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


def say(role: str, **content: object) -> None:
    emit(type="message", message={"id": None, "role": role, "created": 1, "content": [content]})


say("assistant", type="toolRequest", id="call_1", toolCall={"status": "success", "value": {"name": "shell"}})
if STANDIN == "mid-turn" and "--resume" not in words:
    time.sleep(600)
emit(type="notification", extension_id="developer", log={"message": "a line of output"})
say("user", type="toolResponse", id="call_1", toolResult={"status": "success", "value": []})
if STANDIN == "fails":
    emit(type="error", error="Rate limit exceeded")
else:
    say("assistant", type="text", text=f"goose answers: {prompt}")
emit(type="complete", total_tokens=120, input_tokens=100, output_tokens=20)
