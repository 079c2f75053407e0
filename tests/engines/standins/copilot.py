#!/usr/bin/env python3
"""Stands in for GitHub Copilot CLI (`copilot --output-format json`), as version 1.0.102 was recorded.

- What happens stands in `data`: `assistant.message`, `tool.execution_start` and `_complete`, `session.error`. The last line
  is `result` with sessionId and exitCode; nothing tells cost or llm_tokens.
- `--session-id=ID` names a session, `--resume=ID` goes on with it and says "No session, task, or name matched" where there
  is none.
"""

import json
import os
import sys
import time
from pathlib import Path

STANDIN = os.environ.get("STANDIN", "works")
words = sys.argv[1:]
assert words[words.index("--output-format") + 1] == "json"
prompt = sys.stdin.read()
(named,) = (word for word in words if word.startswith(("--session-id=", "--resume=")))
option, _, session = named.partition("=")
folder = Path(os.environ["HOME"]) / ".copilot-sessions"
folder.mkdir(exist_ok=True)
if option == "--resume" and not (folder / session).exists():
    sys.exit(f"Error: No session, task, or name matched '{session}'.")


def emit(kind: str, **data: object) -> None:
    print(json.dumps({"type": kind, "data": data, "id": "i"}), flush=True)


emit("assistant.turn_start", turnId="0")
emit("assistant.message", messageId="m1", content="", toolRequests=[{"toolCallId": "call_1", "name": "bash"}])
emit("tool.execution_start", toolCallId="call_1", toolName="bash", arguments={"command": "ls"})
(folder / session).touch()
if STANDIN == "mid-turn" and option != "--resume":
    time.sleep(600)
emit("tool.execution_complete", toolCallId="call_1", success=True)
if STANDIN == "fails":
    emit("model.call_failure", statusCode=401, errorMessage="invalid x-api-key")
    emit("session.error", errorType="authentication", message="Authentication failed (HTTP 401).", statusCode=401)
else:
    emit("assistant.message_delta", messageId="m2", deltaContent="copilot ")
    emit("assistant.message", messageId="m2", content=f"copilot answers: {prompt}", toolRequests=[])
code = 1 if STANDIN == "fails" else 0
print(
    json.dumps({"type": "result", "sessionId": session, "exitCode": code, "usage": {"premiumRequests": 0}}), flush=True
)
sys.exit(code)
