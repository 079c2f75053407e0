"""Answers the agent's questions on a private unix socket: one JSON line in, one JSON line out.

The agent has no access to the store. What it may know and do goes through here, authorised by the
run's key, and ends with the lease.
"""

from __future__ import annotations

from _socket import AF_UNIX, SOCK_STREAM, socket  # the module `socket` would cost more than all the rest

from fencepost.model import fast_json as json
from fencepost.model.fast_typing import Any, Callable

Answer = dict[str, Any]
Handler = Callable[[Answer], Answer]
Handlers = Callable[[], dict[str, Handler]]
Relay = Callable[[Answer, Callable[[Answer], None]], None]

REQUEST_MAX = 524_288  # 64 KB of text with every character escaped, and a little around it
REPLY_SECONDS = 0.5  # a caller that does not take its answer in is not waited for longer
RECEIVE_MAX = 65_536
CONNECTIONS_MAX = 256
BACKLOG = 1024  # a caller that finds it full takes that for a refusal


class RunSocket:
    """The listening end; call `serve` with the descriptors that select found ready."""

    def __init__(self, path: str, key: str, handlers: Handlers, relay: Relay | None = None) -> None:
        """`handlers` says at the first question who answers which verb: most commands ask nothing.

        `relay` takes what no handler knows, together with a way to answer later.
        """
        self._key = key
        self._find_handlers = handlers
        self._handlers: dict[str, Handler] | None = None
        self._relay = relay
        self._partial: dict[int, tuple[socket, bytes]] = {}
        self._listener = socket(AF_UNIX, SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(BACKLOG)
        self._listener.setblocking(False)

    def fds(self) -> list[int]:
        """Return what to wait for."""
        return [self._listener.fileno(), *self._partial]

    def serve(self, ready: list[int]) -> None:
        """Accept, read and answer as far as that goes without waiting."""
        for descriptor in ready:
            if descriptor in self._partial:
                self._read(descriptor)
        if self._listener.fileno() in ready:
            self._accept()

    def close(self) -> None:
        """Stop answering; from now on every question goes unanswered, which means no."""
        for connection, _ in self._partial.values():
            connection.close()
        self._partial.clear()
        self._listener.close()

    def _accept(self) -> None:
        """Take in the callers that wait, though not without end: the run has other things to attend to."""
        for _ in range(CONNECTIONS_MAX):
            try:
                descriptor, _address = self._listener._accept()  # type: ignore[attr-defined]  # noqa: SLF001  # as accept()
            except OSError:
                return  # no caller is left, or we are out of descriptors
            connection = socket(fileno=descriptor)
            connection.setblocking(False)
            if len(self._partial) >= CONNECTIONS_MAX:
                oldest = next(iter(self._partial))
                self._partial.pop(oldest)[0].close()
            self._partial[descriptor] = (connection, b"")
            self._read(descriptor)

    def _read(self, descriptor: int) -> None:
        connection, before = self._partial[descriptor]
        try:
            data = connection.recv(RECEIVE_MAX)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        request = before + data
        if data and b"\n" not in request and len(request) < REQUEST_MAX:
            self._partial[descriptor] = (connection, request)
            return
        del self._partial[descriptor]
        if b"\n" not in request:
            connection.close()
            return
        answer = self._answer(request.partition(b"\n")[0], lambda later: self._reply(connection, later))
        if answer is not None:
            self._reply(connection, answer)

    def _reply(self, connection: socket, answer: Answer) -> None:
        try:
            connection.settimeout(REPLY_SECONDS)  # an answer may be longer than what the socket takes at once
            connection.sendall(json.dumps(answer).encode() + b"\n")
        except OSError:
            pass  # the caller did not wait for the answer, so it got none, which means no
        connection.close()

    def _answer(self, line: bytes, reply: Callable[[Answer], None]) -> Answer | None:
        """Return the answer, or None if it comes later."""
        from hmac import compare_digest

        try:
            request = json.loads(line)
            key, verb = str(request["key"]), str(request["verb"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return {"ok": False, "code": "invalid", "message": "a request is one JSON object with key and verb."}
        if not compare_digest(key.encode(errors="replace"), self._key.encode()):
            return {"ok": False, "code": "unauthorised", "message": "the run key is not this run's."}
        if self._handlers is None:
            self._handlers = self._find_handlers()
        handler = self._handlers.get(verb)
        if handler is None and self._relay is not None:
            self._relay(request, reply)
            return None
        if handler is None:
            return {"ok": False, "code": "invalid", "message": f"this supervisor does not know the verb {verb!r}."}
        return handler(request)
