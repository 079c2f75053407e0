"""Talks to a server over HTTP with the SDK's client, through the gateway, in both eras of the protocol."""

import json
import os
import sys
from typing import Any

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

GATE = ["-m", "fencepost", "mcp-gate", "--name", "http", "--url", sys.argv[1], "--header", "X-Extra=env:HOME"]


async def main() -> None:
    for mode in ("auto", "legacy"):
        parameters = StdioServerParameters(command=sys.executable, args=GATE, env=dict(os.environ))
        seen: dict[str, Any] = {"progress": []}

        async def heard(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
            seen["progress"].append([progress, total])  # noqa: B023  # it is heard within this round

        async with Client(stdio_client(parameters), mode=mode) as client:
            await client.list_tools()
            seen["add"] = await text(client.call_tool("add", {"line": "one"}))
            await client.call_tool("report", {}, progress_callback=heard)
            seen["look"] = await text(client.call_tool("look", {}))
        print(json.dumps(seen))


async def text(calling: Any) -> str:  # noqa: ANN401
    result = await calling
    return str(result.content[0].text)


anyio.run(main)
