"""For programs with httpx: a transport that shows the run's fence, and stops the program when it is refused.

    client = httpx.Client(transport=FenceTransport())

In a run the proof comes from the environment; a holder of a lease hands its own: `FenceTransport(held.proof)`. Use such
a client only for services behind a gate: others would learn the names of your resources.
"""

import os

import httpx

from fencepost.gates.http.headers import REFUSED, error_in, proof_headers
from fencepost.model.gate import Proof
from fencepost.operations.gates import writer_from


class FenceTransport(httpx.BaseTransport):
    """Adds the headers to every request; raises FenceRefused where the gate refuses one."""

    def __init__(self, proof: Proof | None = None, *, transport: httpx.BaseTransport | None = None) -> None:
        self._headers = proof_headers(proof or writer_from(os.environ).proof)
        self._transport = transport or httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        request.headers.update(self._headers)
        response = self._transport.handle_request(request)
        code = response.headers.get(REFUSED)
        if code:
            body = response.read()
            response.close()
            raise error_in(code, body)
        return response

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()


class AsyncFenceTransport(httpx.AsyncBaseTransport):
    """The same for `httpx.AsyncClient`."""

    def __init__(self, proof: Proof | None = None, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._headers = proof_headers(proof or writer_from(os.environ).proof)
        self._transport = transport or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        request.headers.update(self._headers)
        response = await self._transport.handle_async_request(request)
        code = response.headers.get(REFUSED)
        if code:
            body = await response.aread()
            await response.aclose()
            raise error_in(code, body)
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()
