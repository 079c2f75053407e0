#!/usr/bin/env python3
"""Stands in for Continue (`cn --print --format json`), as version 1.5.47 was recorded.

Its prompt is an argument; with `--format json` it reads none. It prints one object at its end: `response` with the status `success`, or `message` with the status `error`.
"""

import json
import os
import sys

assert sys.argv[1:4] == ["--print", "--format", "json"]
prompt = sys.argv[sys.argv.index("--") + 1]
if os.environ.get("STANDIN") == "fails":
    print(json.dumps({"status": "error", "message": "401 invalid x-api-key"}))
    sys.exit(1)
print(json.dumps({"response": f"continue answers: {prompt}", "status": "success", "note": "it was wrapped"}))
