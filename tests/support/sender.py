"""One connection to the web door that makes signed deliveries to a hook."""

import asyncio
import json

ANSWER_SECONDS = 60
SECRET = "a-secret-of-enough-length"


def posted(port: int, path: str, name: str) -> bytes:
    """Spell a delivery as it is sent."""
    content = json.dumps({"n": name})
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {SECRET}\r\n"
        f"Idempotency-Key: {name}\r\nContent-Length: {len(content)}\r\n\r\n{content}"
    ).encode()


class Sender:
    """One connection that posts and reads the answer, and no more: a library of many uses costs more than the server."""

    def __init__(self, port: int, path: str) -> None:
        self._port = port
        self._path = path
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, name: str) -> tuple[int, bytes]:
        """Return the status and the body; raise OSError or EOFError when the server is gone."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        try:
            writer.write(posted(self._port, self._path, name))
            async with asyncio.timeout(ANSWER_SECONDS):
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(head.partition("content-length:")[2].partition("\r\n")[0])
                return int(head.split(maxsplit=2)[1]), await reader.readexactly(length)
        except (OSError, EOFError):
            self.close()
            raise

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
