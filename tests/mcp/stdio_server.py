"""A server of the SDK's own over standard input and output, which cuts its input at every kind of line end."""

from mcp.server import MCPServer

server = MCPServer("stdio")


@server.tool()
def add(line: str) -> str:
    with open("effects", "a") as file:
        file.write(f"{line}\n")
    return f"added {line}"


server.run("stdio")
