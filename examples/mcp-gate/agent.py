"""An agent that sends two mails through the gateway, and fails at its first attempt when both are out."""

import json
import os
import subprocess
import sys

GATEWAY = ["fencepost", "mcp-gate", "--name", "mail", "--", sys.executable, "server.py"]

with subprocess.Popen(GATEWAY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as gateway:
    assert gateway.stdin
    assert gateway.stdout
    for number, to in enumerate(["ann", "bob"]):
        params = {"name": "send", "arguments": {"to": to}}
        gateway.stdin.write(
            json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}) + "\n"
        )
        gateway.stdin.flush()
        sys.stdout.write(gateway.stdout.readline())
sys.exit(1 if os.environ["FENCEPOST_ATTEMPT"] == "1" else 0)
