"""The application of the model gate: one call in, the same call out, with the real key and only while the lease holds."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from fencepost.gates.model.meter import Meter
from fencepost.gates.model.passes import Pass, Passes
from fencepost.gates.model.protocols import ModelCall, Protocol, is_free, protocol_at
from fencepost.model.llm_price import Price, Prices, price_of
from fencepost.model.llm_usage import BYTES_PER_TOKEN, Usage

BODY_MAX = 64_000_000
CONNECT_SECONDS = 15.0
OUT_METHODS = ["GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"]
NOT_SENT_ON = frozenset(
    {
        *("host", "connection", "keep-alive", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"),
        *("content-length", "expect", "authorization", "x-api-key", "x-goog-api-key", "cookie", "accept-encoding"),
        *("x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "forwarded"),
    }
)
NOT_SENT_BACK = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "trailer", "upgrade", "set-cookie", "content-length"}
)
LOST = "fencepost: the lease of this run is lost or its run has ended, so that no model is called for it: stop."


class Call(NamedTuple):
    """One call on its way."""

    run: Pass
    asked: ModelCall
    price: Price | None
    reserved: int
    expected: Usage

    def cost(self, usage: Usage) -> int:
        """Return what it came to so far; a model without a price costs nothing that we could know."""
        return self.price.cost(usage) if self.price else 0


class CallRefused(Exception):
    """A call that is not made: the answer in its place."""

    def __init__(self, protocol: Protocol, words: str, status: int = 403) -> None:
        super().__init__(words)
        self.answer = JSONResponse(protocol.error(status, words), status_code=status)


class ModelGate:
    """The gate's application."""

    def __init__(self, passes: Passes, prices: Prices, hosts: frozenset[str]) -> None:
        self._passes, self._prices, self._hosts = passes, prices, hosts
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=60)
        timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)  # how long an answer takes is bounded by the lease
        self._client = httpx.AsyncClient(limits=limits, timeout=timeout, follow_redirects=False)
        self.app = Starlette(routes=[Route("/{path:path}", self.handle, methods=OUT_METHODS)])

    async def handle(self, request: Request) -> Response:
        """Answer one call."""
        try:
            call = await self._admit(request)
            return await self._send(request, call)
        except CallRefused as refused:
            return refused.answer
        except ClientDisconnect:
            return Response(status_code=499)

    async def _admit(self, request: Request) -> Call:
        path = request.url.path
        if request.headers.get("host", "").lower() not in self._hosts:
            raise CallRefused(protocol_at(path), "fencepost: this is not the model gate's own name.")
        run = self._passes.find(_shown(request))
        if run is None or not run.is_open:
            raise CallRefused(run.protocol if run else protocol_at(path), LOST)
        if not run.protocol.allows(request.method, path):
            raise CallRefused(
                run.protocol,
                f"fencepost: {request.method} {path} does not pass the model gate; batches and files outlive a lease.",
            )
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise CallRefused(
                run.protocol, "fencepost: a call whose body is packed cannot be looked at; send it plain.", 415
            )
        asked = run.protocol.look(path, await _body(request, run.protocol))
        if asked.refused and request.method == "POST":
            raise CallRefused(run.protocol, f"fencepost: {asked.refused}; it was not made.")
        return self._priced(run, asked, free=is_free(request.method, path))

    def _priced(self, run: Pass, asked: ModelCall, *, free: bool) -> Call:
        """Put aside what the call costs at least, or refuse it."""
        price = None if free else price_of(asked.model, self._prices)
        if not free and (price is None or asked.tier) and run.terms.budget_micro is not None:
            what = f"model {asked.model[:100]!r}" + (f" at the tier {asked.tier[:30]!r}" if asked.tier else "")
            how = "ask for the default tier" if asked.tier else "list it in prices.toml"
            raise CallRefused(
                run.protocol, f"fencepost: the price of {what} is not known, and this run has a budget_usd; {how}."
            )
        expected = Usage(len(asked.body) // BYTES_PER_TOKEN, asked.output)
        reserved = price.cost(expected) if price else 0
        if not run.reserve(reserved):
            raise CallRefused(run.protocol, run.over("not made"))
        return Call(run, asked, price, reserved, expected)

    async def _send(self, request: Request, call: Call) -> Response:
        run, terms = call.run, call.run.terms
        query = str(httpx.QueryParams([pair for pair in request.query_params.multi_items() if pair[0] != "key"]))
        url = terms.upstream.rstrip("/") + request.url.path + (f"?{query}" if query else "")
        headers = [(name, value) for name, value in request.headers.items() if name not in NOT_SENT_ON]
        headers += [("accept-encoding", "identity"), *run.protocol.auth(terms.key).items()]
        content = call.asked.body if request.method == "POST" else None
        try:
            sent = self._client.build_request(request.method, url, headers=headers, content=content)
            answer = await _while_open(run, self._client.send(sent, stream=True))
        except httpx.HTTPError as error:
            run.settle(call.reserved, 0, Usage())
            raise CallRefused(
                run.protocol, f"fencepost: the provider cannot be reached: {type(error).__name__}.", 502
            ) from None
        except BaseException:
            run.settle(call.reserved, 0, Usage())
            raise
        if answer is None:
            run.settle(call.reserved, call.cost(call.expected), call.expected)
            raise CallRefused(run.protocol, LOST)
        if answer.is_redirect:
            await answer.aclose()
            run.settle(call.reserved, 0, Usage())
            raise CallRefused(
                run.protocol, "fencepost: the provider answers with a redirect, which is not followed.", 502
            )
        back = {name: value for name, value in answer.headers.items() if name not in NOT_SENT_BACK}
        return StreamingResponse(_stream(answer, call), status_code=answer.status_code, headers=back)


async def _stream(answer: httpx.Response, call: Call) -> AsyncIterator[bytes]:
    """Hand on each part as it comes, counted; cut it off with the lease, or where the budget ends."""
    run = call.run
    is_events = answer.headers.get("content-type", "").startswith("text/event-stream")
    meter = Meter(run.protocol, streams=is_events, expected=call.expected)
    why, held = "", call.reserved
    parts = answer.aiter_raw()
    whole = False
    try:
        while not why:
            data = await _while_open(run, anext(parts, b""))
            if not data:
                whole, why = data is not None, "" if data is not None else LOST
                break
            meter.feed(data)
            yield data
            more = max(0, call.cost(meter.usage) - held)  # put aside as it grows: other calls run up the same budget
            if run.reserve(more):
                held += more
            else:
                why = run.over("cut off")
        if why and is_events:
            yield run.protocol.error_event(why)
    finally:
        meter.finish()
        usage = _used(answer, meter, call, whole=whole)
        run.settle(held, call.cost(usage), usage)
        await answer.aclose()
    if why and not is_events:
        raise ConnectionAbortedError(why)  # what is half an answer shall not look like a whole one


def _used(answer: httpx.Response, meter: Meter, call: Call, *, whole: bool) -> Usage:
    """Return what a call is charged: what the provider counted; cut off or uncounted, at least what is seen."""
    if answer.is_error:
        return meter.counted or Usage()
    if meter.counted is not None and whole:
        return meter.counted
    return meter.usage if meter.counted is not None else call.expected.or_more(meter.usage)


async def _while_open(run: Pass, work: Any) -> Any:  # noqa: ANN401  # whatever the work returns
    """Wait for work as long as the pass is open; None if it was closed before."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    closed = loop.create_future()
    forget = run.watch(lambda: None if closed.done() else closed.set_result(None))
    try:
        while not task.done() and run.is_open:
            await asyncio.wait({task, closed}, timeout=run.left_seconds, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            return None
        return task.result()
    finally:
        forget()
        if not task.done():
            task.cancel()


def _shown(request: Request) -> str:
    """Return the key that the agent shows, wherever its provider wants it."""
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    found = request.headers.get("x-api-key") or request.headers.get("x-goog-api-key")
    return found or (bearer.strip() if scheme.lower() == "bearer" else "") or request.query_params.get("key", "")


async def _body(request: Request, protocol: Protocol) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > BODY_MAX:
            raise CallRefused(protocol, f"fencepost: a call has at most {BODY_MAX} bytes.", 413)
    return b"".join(parts)
