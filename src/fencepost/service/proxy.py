"""A fencing reverse proxy: for a service that cannot compare fences itself, and that is reached through here alone."""

import socket
import socketserver
from collections.abc import Iterable
from contextlib import nullcontext
from fnmatch import fnmatchcase
from http import HTTPStatus
from threading import BoundedSemaphore
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from fencepost.gates.http.door import BODY_MAX, PATH, ServiceDoor
from fencepost.gates.http.headers import (
    FORBIDDEN,
    NEEDS_NO_FENCE,
    PREFIX,
    GateAnswer,
    answered,
    no_fence,
    proof_from,
    proof_headers,
    refusal,
)
from fencepost.gates.http.request import OVERRIDES, Head, parse_head, passed_on
from fencepost.model.errors import FencepostError, Invalid
from fencepost.ports.clock import Clock
from fencepost.service.proxy_forward import EffectUnknown, Forward
from fencepost.service.proxy_stream import RequestStream

BUFFER_BYTES = 1_048_576
PORT_MAX = 65_535


class ProxyRules(NamedTuple):
    """What the proxy lets pass, and for how long."""

    upstream: str
    allow: tuple[tuple[str, str], ...] = ()  # method and pattern of a path; none: everything
    deadline_seconds: float = 30.0  # for one request, from head to the end of its answer
    closed_seconds: float = 60.0  # after a request whose outcome is unknown
    body_max: int = 104_857_600
    connections_max: int = 100

    def allows(self, head: Head) -> bool:
        """Tell whether such a request may pass at all."""
        return not self.allow or any(
            method in ("*", head.method) and fnmatchcase(head.path, pattern) for method, pattern in self.allow
        )


class Proxy:
    """Serves one connection after the other in threads; each carries one request."""

    def __init__(self, listen: tuple[str, int], rules: ProxyRules, door: ServiceDoor, clock: Clock) -> None:
        self._rules = rules
        self._upstream = _upstream(rules.upstream)
        self._door = door
        self._clock = clock
        self._server = _Server(listen, self.handle, rules.connections_max)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    def serve(self) -> None:
        """Serve until `stop`, in another thread or from a signal."""
        with self._server:
            self._server.serve_forever(poll_interval=0.1)

    def stop(self) -> None:
        """Take no more connections."""
        self._server.shutdown()

    def handle(self, client: socket.socket) -> None:
        """Serve the one request of a connection."""
        stream = RequestStream(client, self._clock, self._rules.deadline_seconds)
        try:
            head = parse_head(stream.head())
            answer = self._serve(head, stream)
        except FencepostError as error:
            answer = refusal(error)
        except EffectUnknown as unknown:
            answer = answered({"code": "ambiguous", "message": str(unknown)}, HTTPStatus.GATEWAY_TIMEOUT)
        except OSError:
            return  # the client is gone
        if answer is not None:
            _reply(answer, stream)

    def _serve(self, head: Head, stream: RequestStream) -> GateAnswer | None:
        if head.path.startswith(PATH):
            if head.length is None or head.length > BODY_MAX:
                raise Invalid("this body is too long, or has no length.")
            return self._door.answer(head.method, head.path, head.by_name, b"".join(stream.body(head.length, BODY_MAX)))
        if not self._rules.allows(head):
            return answered({"code": "forbidden", "message": f"{head.method} {head.path} is not allowed."}, FORBIDDEN)
        if head.length is not None and head.length > self._rules.body_max:
            return answered(
                {"code": "invalid", "message": "the body is too long."}, HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            )
        proof = proof_from(head.by_name)
        if proof is None and head.method not in NEEDS_NO_FENCE:
            return no_fence()
        body = self._body(head, stream)
        headers = [pair for pair in passed_on(head.headers) if not pair[0].startswith((PREFIX, *OVERRIDES))]
        headers += list(proof_headers(proof).items()) if proof else []
        forward = Forward(self._upstream, self._clock, stream.deadline_ns)
        is_writer = proof is not None and head.method not in NEEDS_NO_FENCE
        with self._door.enter(proof) if proof is not None and is_writer else nullcontext() as passage:
            forward.connect()  # nothing was sent before this, so an upstream that is away leaves no doubt
            if passage is not None:
                passage.depart(self._rules.deadline_seconds + self._rules.closed_seconds)
            forward.send(head, headers, body)
            forward.relay(head, stream)
            if passage is not None:
                passage.arrived()
        return None

    def _body(self, head: Head, stream: RequestStream) -> Iterable[bytes]:
        """Return the body; a small one is taken in first, so that a sender that was frozen meanwhile holds up no other request."""
        if "expect" in head.by_name:
            stream.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        chunks = stream.body(head.length, self._rules.body_max)
        return list(chunks) if head.length is not None and head.length <= BUFFER_BYTES else chunks


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = False  # at the end, requests in flight are waited for

    def __init__(self, listen: tuple[str, int], handle: object, connections_max: int) -> None:
        self._handle = handle
        self._room = BoundedSemaphore(connections_max)
        super().__init__(listen, socketserver.BaseRequestHandler)

    def process_request(self, request: object, client_address: object) -> None:
        """Wait for room, then serve in a thread."""
        self._room.acquire()
        super().process_request(request, client_address)  # type: ignore[arg-type]  # handed on as it came

    def process_request_thread(self, request: object, client_address: object) -> None:
        """Serve, and give the room back."""
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self._room.release()

    def finish_request(self, request: object, client_address: object) -> None:
        """Serve one connection."""
        del client_address
        assert callable(self._handle)
        self._handle(request)


def parse_listen(text: str) -> tuple[str, int]:
    """Read HOST:PORT; without a host, loopback."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
        raise Invalid(f"{text!r} is no address to listen on; write 127.0.0.1:7421.")
    return host.strip("[]") or "127.0.0.1", int(port)


def parse_allow(text: str) -> tuple[str, str]:
    """Read a rule such as `POST /orders/*`."""
    method, blank, pattern = text.partition(" ")
    if not blank or not pattern.startswith("/"):
        raise Invalid(f"{text!r} is no rule; write a method, or *, and a pattern of a path: 'POST /orders/*'.")
    return method, pattern


def _upstream(url: str) -> SplitResult:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise Invalid(f"{url!r} is no upstream; write http://host:port or https://host.")
    return parts


def _reply(answer: GateAnswer, stream: RequestStream) -> None:
    pairs = [("Content-Type", "application/json"), ("Content-Length", str(len(answer.body))), *answer.headers]
    try:
        stream.begin(answer.status, pairs)
        stream.send(answer.body)
        stream.linger()
    except OSError:
        return  # the client is gone; what it was told does not matter any more
