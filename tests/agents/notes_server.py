"""A small MCP server whose one tool writes: it adds a line to the file `notes`, and says its argument."""

import sys
from pathlib import Path

from mcp.server import MCPServer

server = MCPServer("notes")


@server.tool()
def add(line: str) -> str:
    """Add a line to the notes."""
    with Path("notes").open("a") as file:
        file.write(f"{line}\n")
    return sys.argv[1]


if __name__ == "__main__":
    server.run("stdio")
