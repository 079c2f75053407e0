"""An MCP server with one tool: it appends a line to sent.txt."""

import json
import sys
from typing import Any


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Carry out one request."""
    if method == "initialize":
        info = {"name": "mail", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [{"name": "send", "inputSchema": {"type": "object"}}]}
    with open("sent.txt", "a") as file:
        file.write(f"to {params['arguments']['to']}\n")
    return {"content": [{"type": "text", "text": f"sent to {params['arguments']['to']}"}]}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request["method"], request.get("params", {}))
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}) + "\n")
        sys.stdout.flush()
