"""`/mcp`: the MCP door over streamable HTTP, for holders of a key, within its rights.

There are no sessions: each request is complete in itself, so none can be taken over, and a key that was revoked is
worth nothing at the next call. Host, Origin and body were looked at before anything gets here.
"""

from contextvars import ContextVar

from mcp.server.lowlevel import Server  # noqa: TC002  # mypy needs it at run time too
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from fencepost.mcp.caller import Counter, Seat
from fencepost.mcp.server import build
from fencepost.model.access import Role
from fencepost.web.door import Door
from fencepost.web.requests import BODY_MAX
from fencepost.web.security import MCP_PATH, RequestCaller, access

PATH = MCP_PATH


class McpDoor:
    """Hands a request to the tools, and tells them whose it is."""

    def __init__(self, door: Door, *, acts: bool) -> None:
        self._seat: ContextVar[Seat] = ContextVar("seat")  # each request is a task with a context of its own
        counter = Counter(self._seat.get, door.open_store, door.new_run_id, door.log_folder, door.rights)
        self._looking = build(counter, acts=False)._lowlevel_server  # noqa: SLF001  # to be served without a session
        self._acting = build(counter, acts=acts)._lowlevel_server  # noqa: SLF001  # likewise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; a key that may only look is offered only the tools that look."""
        admission = scope["state"]["admission"]
        assert isinstance(admission, RequestCaller), "the gatekeeper stands before this"
        caller = admission.caller
        self._seat.set(Seat(caller.tenant, caller.role, caller.actor))
        server: Server[object] = self._acting if caller.role.covers(Role.TRIGGER) else self._looking
        manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=BODY_MAX
        )
        async with manager.run():
            await manager.handle_request(scope, receive, send)


def mcp_route(door: Door, *, acts: bool = True) -> Route:
    """Return the route; the tools look at the role themselves, so that a key that may look gets in."""
    route = Route(PATH, McpDoor(door, acts=acts), methods=["POST"], include_in_schema=False)
    route.openapi_extra = access("read")  # type: ignore[attr-defined]  # where the gatekeeper looks
    return route
