"""One HTTP request at a time, over a connection of its own: for stores that are asked by HTTP."""

from __future__ import annotations

import ssl
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from socket import SHUT_RDWR, socket
from typing import NamedTuple

from fencepost.cells.time_limit import within
from fencepost.model.errors import StoreUnavailable

BODY_MAX = 16_777_216


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]  # names in small letters
    body: bytes


class NotSent(Exception):
    """The server was not reached: it knows nothing of the request."""


class NoReply(Exception):
    """The request was sent, and no whole answer came: it may have been carried out."""


class Server:
    """A server by its name, port and scheme."""

    def __init__(self, host: str, port: int, *, tls: bool, shown: str) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._shown = shown

    def ask(self, method: str, path: str, *, headers: dict[str, str], body: bytes = b"", seconds: float) -> Reply:
        """Send a request and return its answer, or raise NotSent or NoReply."""
        connection = self._connection(seconds)
        line = _Line()

        def ask() -> Reply:
            try:
                connection.connect()
            except (OSError, ssl.SSLError) as error:
                raise NotSent(_first(error)) from None
            line.opened(connection.sock)
            try:
                connection.request(method, path, body or None, headers)
                with connection.getresponse() as response:
                    found = {name.lower(): value for name, value in response.getheaders()}
                    reply = Reply(response.status, found, response.read(BODY_MAX))
                    missing = response.length  # of what was announced
            except (OSError, HTTPException) as error:
                raise NoReply(_first(error)) from None
            finally:
                connection.close()
            if missing:
                raise NoReply("no whole answer")
            return reply

        try:
            return within(seconds, ask, hang_up=line.hang_up)
        except TimeoutError as error:
            raise NoReply(str(error)) from None

    def read(self, method: str, path: str, *, headers: dict[str, str], body: bytes = b"", seconds: float) -> Reply:
        """Ask what changes nothing; a server that does not answer is StoreUnavailable."""
        try:
            return self.ask(method, path, headers=headers, body=body, seconds=seconds)
        except (NotSent, NoReply) as error:
            raise self.unreachable(error) from None

    def unreachable(self, error: Exception) -> StoreUnavailable:
        """Say that nothing came back."""
        return StoreUnavailable(f"{self._shown} cannot be reached: {error}.")

    def _connection(self, seconds: float) -> HTTPConnection:
        if self._tls:
            return HTTPSConnection(self._host, self._port, timeout=seconds, context=ssl.create_default_context())
        return HTTPConnection(self._host, self._port, timeout=seconds)


class _Line:
    """The socket of a request, which can be cut from outside: also one that is opened too late."""

    def __init__(self) -> None:
        self._socket: socket | None = None
        self._is_cut = False

    def opened(self, line: socket) -> None:
        self._socket = line
        if self._is_cut:
            self.hang_up()

    def hang_up(self) -> None:
        self._is_cut = True
        if self._socket is not None:
            with suppress(OSError):  # it is over at this very moment
                self._socket.shutdown(SHUT_RDWR)


def _first(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
