"""A server of the SDK's own over streamable HTTP; writes its port down when it listens."""

import os
import socket

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import ToolAnnotations

server = MCPServer("http")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def look() -> str:
    with open("effects") as file:
        return file.read().strip()


@server.tool()
def add(line: str) -> str:
    with open("effects", "a") as file:
        file.write(f"{line}\n")
    return f"added {line}"


@server.tool()
async def report(ctx: Context) -> str:
    await ctx.report_progress(1, 2)
    await ctx.report_progress(2, 2)
    return "reported"


listener = socket.create_server(("127.0.0.1", 0))
with open("port.draft", "w") as file:
    file.write(f"{listener.getsockname()[1]}\n")
os.rename("port.draft", "port")
uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="warning")).run(sockets=[listener])
