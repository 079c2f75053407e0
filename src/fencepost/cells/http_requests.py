"""One HTTP request at a time, over a connection of its own: for stores that are asked by HTTP."""

from __future__ import annotations

import ssl
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from socket import SHUT_RDWR
from threading import Event, Timer
from typing import NamedTuple

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
        try:
            try:
                connection.connect()
            except (OSError, ssl.SSLError) as error:
                raise NotSent(_first(error)) from None
            with _Bounded(connection, seconds) as late:
                try:
                    connection.request(method, path, body or None, headers)
                    response = connection.getresponse()
                    found = {name.lower(): value for name, value in response.getheaders()}
                    reply = Reply(response.status, found, response.read(BODY_MAX))
                except (OSError, HTTPException) as error:
                    raise NoReply("no whole answer in time" if late.is_set() else _first(error)) from None
            if late.is_set() or response.length:  # what is missing of the length that was announced
                raise NoReply("no whole answer")
            return reply
        finally:
            connection.close()

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


class _Bounded:
    """Hangs up on a server that keeps sending, a little at a time: the time-out of a socket begins anew with each byte."""

    def __init__(self, connection: HTTPConnection, seconds: float) -> None:
        self._socket = connection.sock  # an answer that ends with the connection takes it away from there
        self._late = Event()
        self._timer = Timer(seconds, self._hang_up)
        self._timer.daemon = True

    def __enter__(self) -> Event:
        self._timer.start()
        return self._late

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _hang_up(self) -> None:
        self._late.set()
        with suppress(OSError):  # it is over at this very moment
            self._socket.shutdown(SHUT_RDWR)


def _first(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
