"""Talks to the git server with the SDK's client, through the gateway and without it, in both eras of the protocol."""

import json
import os
import sys
from typing import Any

import anyio
from mcp import MCPError
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

REPOSITORY = sys.argv[1]
SERVER = [sys.executable, "-m", "mcp_server_git", "--repository", REPOSITORY]
GATE = [sys.executable, "-m", "fencepost", "mcp-gate", "--name", "git", "--"]


async def main() -> None:
    for mode, branch in (("auto", "one"), ("legacy", "two")):
        seen: dict[str, Any] = {}
        async with connected([*GATE, *SERVER], mode) as client:
            seen["tools"] = await tools(client)
            seen["status"] = await text(client, "git_status", repo_path=REPOSITORY)
            seen["branch"] = await text(client, "git_create_branch", repo_path=REPOSITORY, branch_name=branch)
            seen["unknown"] = await failure(client)
        if mode == "auto":
            async with connected(SERVER, mode) as client:
                seen["without_us"] = [await tools(client), await failure(client)]
        print(json.dumps(seen))


def connected(argv: list[str], mode: str) -> Client:
    parameters = StdioServerParameters(command=argv[0], args=argv[1:], env=dict(os.environ))
    return Client(stdio_client(parameters), mode=mode)


async def tools(client: Client) -> list[dict[str, Any]]:
    return [tool.model_dump(mode="json") for tool in (await client.list_tools()).tools]


async def text(client: Client, tool: str, **arguments: object) -> str:
    result = await client.call_tool(tool, arguments)
    return str(getattr(result.content[0], "text", ""))


async def failure(client: Client) -> str:
    try:
        return str(await client.call_tool("no_such_tool", {}))
    except MCPError as error:
        return f"{error}"


anyio.run(main)
