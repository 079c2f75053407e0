"""For ASGI services (FastAPI, Starlette, Django …): only requests with the newest fence may write.

    app = FenceMiddleware(app, marks="/var/lib/shop/fences", key=os.environ["GATE_KEY"])

A request that may write shows `Fencepost-Fence` and `Fencepost-Resource`. From the comparison until the application is
done with it, its resources cannot be raised; a raise waits for it. All processes of the service use the same folder.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from fencepost.gates.http.door import BODY_MAX, PATH, ServiceDoor
from fencepost.gates.http.headers import NEEDS_NO_FENCE, GateAnswer, no_fence, proof_from, refusal
from fencepost.gates.http.marks import WAIT_SECONDS, RequestPassage
from fencepost.host.clock import SystemClock
from fencepost.model.errors import FencepostError
from fencepost.model.gate import Proof

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Receive, Send], Awaitable[None]]

BUFFER_BYTES = 1_048_576
BODY_SECONDS = 30.0
POLICY_VIOLATION = 1008


class FenceMiddleware:
    """Compares the fence of every request that may write."""

    def __init__(
        self,
        app: App,
        *,
        marks: str,
        key: str,
        name: str = "this service",
        free: tuple[str, ...] = NEEDS_NO_FENCE,
        body_seconds: float = BODY_SECONDS,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._app = app
        self._free = free
        self._body_seconds = body_seconds
        self._door = ServiceDoor(marks, key, clock=SystemClock(), name=name, wait_seconds=wait_seconds)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:  # noqa: ANN401  # ASGI's own
        """Serve one connection."""
        if scope["type"] == "websocket":
            # A fence is compared once per request; a socket that stays open would write past a raise.
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["path"].startswith(PATH):
            await self._serve_door(scope, receive, send)
        elif scope["method"] in self._free:
            await self._app(scope, receive, send)
        else:
            await self._serve_writer(scope, receive, send)

    async def _serve_door(self, scope: Any, receive: Receive, send: Send) -> None:  # noqa: ANN401  # as ASGI hands it over
        body = Body(receive, self._body_seconds)
        await body.buffer(BODY_MAX)
        answer = await asyncio.to_thread(
            self._door.answer, scope["method"], scope["path"], _headers(scope), body.buffered
        )
        await _reply(answer, send)

    async def _serve_writer(self, scope: Any, receive: Receive, send: Send) -> None:  # noqa: ANN401  # as ASGI hands it over
        try:
            proof = proof_from(_headers(scope))
            if proof is None:
                await _reply(no_fence(), send)
                return
            body = Body(receive, self._body_seconds)
            await body.buffer(BUFFER_BYTES)  # so that a sender that was frozen meanwhile holds up no other request
            passage = await self._enter(proof)
        except FencepostError as error:
            await _reply(refusal(error), send)
            return
        with passage:
            await self._app(scope, body.receive, send)

    async def _enter(self, proof: Proof) -> RequestPassage:
        entering = asyncio.ensure_future(asyncio.to_thread(self._door.enter, proof))
        try:
            return await asyncio.shield(entering)
        except asyncio.CancelledError:
            entering.add_done_callback(_leave)  # else the thread would let in a request that is not served
            raise


class Body:
    """What a request sends, taken in up to a size, and the rest as it comes, each piece within a time."""

    def __init__(self, receive: Receive, seconds: float) -> None:
        self._receive = receive
        self._seconds = seconds
        self._messages: list[Message] = []
        self.buffered = b""

    async def buffer(self, size_max: int) -> None:
        """Take in the body, or as much of it as is wanted."""
        while len(self.buffered) < size_max:
            message = await self._next()
            self._messages.append(message)
            self.buffered += message.get("body", b"")
            if message["type"] != "http.request" or not message.get("more_body"):
                return

    async def receive(self) -> Message:
        """Return the next piece, for the application."""
        return self._messages.pop(0) if self._messages else await self._receive()

    async def _next(self) -> Message:
        with suppress(TimeoutError):
            return await asyncio.wait_for(self._receive(), self._seconds)
        return {"type": "http.disconnect"}


def _leave(entering: "asyncio.Future[RequestPassage]") -> None:
    if not entering.cancelled() and entering.exception() is None:
        entering.result().close()


def _headers(scope: Any) -> dict[str, str]:  # noqa: ANN401  # as ASGI hands it over
    """Return the headers by name; one that comes twice is joined, so that it cannot be read in two ways."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


async def _reply(answer: GateAnswer, send: Send) -> None:
    headers = [("content-type", "application/json"), ("content-length", str(len(answer.body))), *answer.headers]
    raw = [(name.lower().encode(), value.encode()) for name, value in headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": raw})
    await send({"type": "http.response.body", "body": answer.body})
