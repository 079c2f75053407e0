"""The client's side of the proxy: one request in, one answer out, all within one deadline."""

import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http import HTTPStatus

from fencepost.gates.http.request import HEAD_MAX
from fencepost.model.errors import Invalid
from fencepost.ports.clock import Clock

CHUNK = 65_536
CHUNK_LINE_MAX = 1024
LINGER_SECONDS, LINGER_READS = 1.0, 64


class RequestStream:
    """A connection that carries one request."""

    def __init__(self, client: socket.socket, clock: Clock, seconds: float) -> None:
        self._client = client
        self._clock = clock
        self.deadline_ns = clock.awake_ns() + int(seconds * 1e9)
        self._read = b""

    def head(self) -> bytes:
        """Return everything up to the empty line."""
        while b"\r\n\r\n" not in self._read:
            if len(self._read) > HEAD_MAX:
                raise Invalid("the head of this request is too long.")
            self._more()
        head, end, self._read = self._read.partition(b"\r\n\r\n")
        return head + end

    def body(self, length: int | None, size_max: int) -> Iterator[bytes]:
        """Yield the body as it comes; a chunked one without its framing."""
        if length is not None:
            yield from self._exactly(length)
            return
        size = 0
        while (chunk_size := self._chunk_size()) > 0:
            size += chunk_size
            if size > size_max:
                raise Invalid("the body is too long.")
            yield from self._exactly(chunk_size)
            if b"".join(self._exactly(2)) != b"\r\n":
                raise Invalid("a chunk is not as long as it says.")
        if self._line() != b"":
            raise Invalid("trailers are not handed on.")

    def begin(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """Send the head of the answer; the connection ends with it."""
        phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
        lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers), "Connection: close"]
        self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")

    def send(self, data: bytes) -> None:
        """Send to the client."""
        self._client.settimeout(self._rest())
        self._client.sendall(data)

    def linger(self) -> None:
        """Read on for a moment: closing with unread data would take the answer away from the client."""
        self._client.shutdown(socket.SHUT_WR)
        self._client.settimeout(LINGER_SECONDS)
        for _ in range(LINGER_READS):
            if not self._client.recv(CHUNK):
                return

    def try_to_send(self, data: bytes) -> None:
        """Send to the client if it is still there: an answer is read to its end all the same."""
        with suppress(OSError):
            self.send(data)

    def _chunk_size(self) -> int:
        text = self._line().partition(b";")[0]
        if not text or len(text) > 8 or text.strip(b"0123456789abcdefABCDEF"):  # noqa: PLR2004  # hexadecimal digits of 4 GB
            raise Invalid("a chunk begins with its size.")
        return int(text, 16)

    def _line(self) -> bytes:
        while b"\r\n" not in self._read:
            if len(self._read) > CHUNK_LINE_MAX:
                raise Invalid("a chunk begins with its size.")
            self._more()
        line, _, self._read = self._read.partition(b"\r\n")
        return line

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            if not self._read:
                self._more()
            piece, self._read = self._read[:size], self._read[size:]
            size -= len(piece)
            yield piece

    def _more(self) -> None:
        self._client.settimeout(self._rest())
        data = self._client.recv(CHUNK)
        if not data:
            raise ConnectionAbortedError("the client is gone")
        self._read += data

    def _rest(self) -> float:
        rest = (self.deadline_ns - self._clock.awake_ns()) / 1e9
        if rest <= 0:
            raise TimeoutError("the time for this request is over")
        return rest
