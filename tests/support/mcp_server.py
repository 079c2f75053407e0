"""A small MCP server over standard input and output: quick to start, and it writes down what it did.

Tools: `add` appends a line to the file `effects` here, `look` reads it, `slow` appends when the file `go` is there, `die`
appends and exits, `shout` prints no JSON before its answer. Unknown methods are echoed, so that a test sees what came.
"""

import json
import os
import sys
import time

TOOLS = [
    {"name": "add", "inputSchema": {"type": "object"}},
    {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "slow", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": False}},
    {"name": "die", "inputSchema": {"type": "object"}},
    {"name": "shout", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
]


def main() -> None:
    print("the server has started", file=sys.stderr, flush=True)
    for line in sys.stdin.buffer:
        with open("heard", "ab") as file:
            file.write(line)
        try:
            message = json.loads(line)
        except ValueError:
            continue
        for one in message if isinstance(message, list) else [message]:
            if isinstance(one, dict) and "id" in one and "method" in one:
                answer(one)


def answer(message: dict[str, object]) -> None:
    method, params = message["method"], message.get("params")
    if method == "tools/list":
        result: object = {"tools": TOOLS}
    elif method == "tools/call" and isinstance(params, dict):
        text = called(params["name"], str(params.get("arguments", {}).get("line", "")))
        result = {"content": [{"type": "text", "text": text}]}
    else:
        result = {"echo": message}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


def called(tool: str, line: str) -> str:
    if tool == "shout":
        print("listen!", flush=True)
    if tool in ("look", "shout"):
        return effects()
    while tool == "slow" and not os.path.exists("go"):
        time.sleep(0.01)
    with open("effects", "a") as file:
        file.write(f"{line}\n")
    if tool == "die":
        os._exit(3)
    return f"added {line} as {len(effects().splitlines())}"


def effects() -> str:
    try:
        with open("effects") as file:
            return file.read()
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    main()
