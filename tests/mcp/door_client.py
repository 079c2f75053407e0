"""Calls tools of an MCP server with the SDK's client, as a script says on stdin, and prints what came back."""

import json
import os
import sys
from typing import Any

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client


async def main() -> None:
    order = json.load(sys.stdin)
    async with Client(way_to(order["server"], order["key"]), mode=order["mode"]) as client:
        tools = [tool.model_dump(mode="json") for tool in (await client.list_tools()).tools]
        seen: dict[str, Any] = {"tools": tools, "answers": []}
        for name, arguments in order["calls"]:
            answer = await client.call_tool(name, arguments)
            text = "".join(getattr(one, "text", "") for one in answer.content)
            seen["answers"].append({"error": answer.is_error, "text": text, "data": answer.structured_content})
    print(json.dumps(seen))


def way_to(server: Any, key: str) -> Any:  # noqa: ANN401  # an address, or a command line
    if isinstance(server, str):
        known = create_mcp_http_client(headers={"Authorization": f"Bearer {key}"})
        return streamable_http_client(server, http_client=known)
    return stdio_client(StdioServerParameters(command=server[0], args=server[1:], env=dict(os.environ)))


anyio.run(main)
