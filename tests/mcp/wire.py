"""An agent's end of the wire: the real gateway before a real server, frame by frame."""

import json
import sys
from itertools import count
from pathlib import Path
from typing import Any

from tests.support import mcp_server
from tests.support.ground import Program

SERVER = [sys.executable, str(mcp_server.__file__)]
PATIENCE_SECONDS = 30


class Wire:
    """A gateway's process, with its standard input and output in our hands."""

    def __init__(self, process: Program) -> None:
        self.process = process
        self._ids = count(1)

    def write(self, frame: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(frame)
        self.process.stdin.flush()

    def read(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def ask(self, method: str, params: object = None) -> dict[str, Any]:
        """Ask and return the next frame."""
        self.send(method, params)
        found: dict[str, Any] = json.loads(self.read())
        return found

    def send(self, method: str, params: object = None) -> int:
        number = next(self._ids)
        body = {"jsonrpc": "2.0", "id": number, "method": method, **({"params": params} if params is not None else {})}
        self.write(json.dumps(body).encode() + b"\n")
        return number

    def call(self, tool: str, line: str = "x") -> tuple[bool, str]:
        """Call a tool; return whether it failed, and what it said."""
        result = self.ask("tools/call", {"name": tool, "arguments": {"line": line}})["result"]
        return result.get("isError", False), result["content"][0]["text"]

    def close(self) -> int:
        """Hang up and return the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE_SECONDS)


def effects(folder: Path) -> list[str]:
    path = folder / "effects"
    return path.read_text().split() if path.exists() else []
