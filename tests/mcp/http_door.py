"""Serves the MCP door over HTTP for one caller, the way a door with keys would: `http_door.py STORE ROLE`."""

import sys

import uvicorn

from fencepost import wiring
from fencepost.mcp.seat import Counter, Seat
from fencepost.mcp.server import build
from fencepost.model.access import Role

seat = Seat("default", Role(sys.argv[2]), "key:1:test")
counter = Counter(lambda: seat, lambda: wiring.open_runtime(sys.argv[1]), wiring.new_run_id, wiring.log_folder())
server = uvicorn.Server(
    uvicorn.Config(build(counter).streamable_http_app(), host="127.0.0.1", port=int(sys.argv[3]), log_level="error")
)
server.run()
