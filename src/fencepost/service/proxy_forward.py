"""The service's side of the proxy: a request is sent, and its answer read to the end, or the outcome is unknown."""

from collections.abc import Iterable
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import SplitResult

from fencepost.gates.http.request import Head, passed_on
from fencepost.model.errors import FencepostError, GateUnreachable
from fencepost.ports.clock import Clock
from fencepost.service.proxy_stream import RequestStream

CHUNK = 65_536
NO_BODY = (204, 304)


class EffectUnknown(Exception):  # says what is the case
    """It is not known whether the request had its effect."""


class Forward:
    """One request to the service, over a connection of its own."""

    def __init__(self, upstream: SplitResult, clock: Clock, deadline_ns: int) -> None:
        kind = HTTPSConnection if upstream.scheme == "https" else HTTPConnection
        self._host = upstream.netloc.rpartition("@")[2]
        self._clock = clock
        self._deadline_ns = deadline_ns
        self._connection = kind(upstream.hostname or "", upstream.port, timeout=self._rest())

    def connect(self) -> None:
        """Reach the service, or raise GateUnreachable: nothing was sent."""
        try:
            self._connection.connect()
        except OSError as error:
            raise GateUnreachable(f"the service does not answer: {error}. Nothing was sent.") from None

    def send(self, head: Head, headers: Iterable[tuple[str, str]], body: Iterable[bytes]) -> None:
        """Send the request, or raise Unknown."""
        connection = self._connection
        try:
            connection.putrequest(head.method, head.target, skip_host=True, skip_accept_encoding=True)
            connection.putheader("Host", self._host)
            for name, value in headers:
                connection.putheader(name, value)
            connection.putheader("Connection", "close")
            if head.length is None:
                connection.putheader("Transfer-Encoding", "chunked")
            elif head.length or head.method in ("POST", "PUT", "PATCH"):
                connection.putheader("Content-Length", str(head.length))
            connection.endheaders()
            for chunk in body:
                self._wait_at_most()
                connection.send(_framed(chunk) if head.length is None else chunk)
            if head.length is None:
                connection.send(b"0\r\n\r\n")
        except (OSError, HTTPException, FencepostError) as error:
            raise self._unknown(error) from None

    def relay(self, head: Head, stream: RequestStream) -> None:
        """Hand the answer on as it comes, and read it to its end though the client may be gone, or raise Unknown."""
        try:
            self._wait_at_most()
            response = self._connection.getresponse()
        except (OSError, HTTPException) as error:
            raise self._unknown(error) from None
        pairs, chunked = _framing(head, response)
        with suppress(OSError):  # read on though the client is gone: the outcome matters to the next run
            stream.begin(response.status, pairs)
        self._relay_body(response, stream, chunked=chunked)

    def _relay_body(self, response: HTTPResponse, stream: RequestStream, *, chunked: bool) -> None:
        try:
            while True:
                self._wait_at_most()
                data = response.read1(CHUNK)
                if not data:
                    break
                stream.try_to_send(_framed(data) if chunked else data)
            if response.length:
                raise ConnectionAbortedError("the answer ended too early")  # as if the socket had said so
        except (OSError, HTTPException, ValueError) as error:
            self._connection.close()
            raise Unfinished(str(error)) from None
        if chunked:
            stream.try_to_send(b"0\r\n\r\n")
        self._connection.close()

    def _unknown(self, error: Exception) -> EffectUnknown:
        self._connection.close()
        return EffectUnknown(
            f"it is not known whether this request had its effect: {str(error) or type(error).__name__}"
        )

    def _wait_at_most(self) -> None:
        if self._connection.sock is not None:
            self._connection.sock.settimeout(self._rest())

    def _rest(self) -> float:
        rest = (self._deadline_ns - self._clock.awake_ns()) / 1e9
        if rest <= 0:
            raise TimeoutError("the time for this request is over")
        return rest


class Unfinished(ConnectionAbortedError):
    """An answer broke off after its head was handed on: the client sees it end, and the outcome stays unknown."""


def _framing(head: Head, response: HTTPResponse) -> tuple[list[tuple[str, str]], bool]:
    """Return the answer's headers with our own framing, and whether that is chunked."""
    pairs = passed_on(response.getheaders())
    length = response.getheader("Content-Length")
    if head.method == "HEAD" or response.status in NO_BODY:
        return [*pairs, *([("Content-Length", length)] if length and head.method == "HEAD" else [])], False
    if length is not None and not response.chunked:
        return [*pairs, ("Content-Length", length)], False
    return [*pairs, ("Transfer-Encoding", "chunked")], True


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
