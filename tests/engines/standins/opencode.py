#!/usr/bin/env python3
"""Stands in for opencode (`opencode run --format json`), as its event stream is known.

Each step_finish tells the cost and tokens of its step; the last one may be missing although the run went well. An error is an
event, and the exit code is 0. `--session ses_…` goes on with a session.
"""

import json
import os
import sys
import time

STANDIN = os.environ.get("STANDIN", "works")
prompt = sys.stdin.read()
assert sys.argv[1:4] == ["run", "--format", "json"]


def emit(kind: str, **part: object) -> None:
    print(json.dumps({"type": kind, "timestamp": 1, "sessionID": "ses_1", "part": part}), flush=True)


emit("step_start", type="step-start")
if STANDIN == "mid-turn" and "--session" not in sys.argv:
    time.sleep(600)
if STANDIN == "fails":
    error = {"name": "APIError", "data": {"message": "the model is overloaded"}}
    print(json.dumps({"type": "error", "timestamp": 1, "sessionID": "ses_1", "error": error}), flush=True)
    sys.exit(0)
emit("step_finish", tokens={"input": 10, "output": 5, "cache": {"read": 1, "write": 0}}, cost=0.002)
emit("step_start", type="step-start")
emit("text", text=f"opencode answers: {prompt}")
emit("step_finish", tokens={"input": 20, "output": 6, "cache": {"read": 2, "write": 0}}, cost=0.003)
emit("step_start", type="step-start")
