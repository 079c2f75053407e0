"""A web server on this machine that remembers what it was sent, and answers as it is told to."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Heard(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401  # whatever was sent
        return json.loads(self.body)


class Receiver:
    """What arrived, oldest first; `answers` are the next status codes, then 200 for ever."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self._server = server
        self.heard: list[Heard] = []
        self.answers: list[int] = []
        self.location = ""
        self.open = threading.Event()  # until it is set, nobody gets an answer
        self.open.set()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def receiver(port: int = 0) -> Iterator[Receiver]:
    """Listen; with a port, where another one has listened before."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            found.heard.append(Heard(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            found.open.wait(60)
            self.send_response(found.answers.pop(0) if found.answers else 200)
            if found.location:
                self.send_header("Location", found.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    found = Receiver(server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.open.set()
        server.shutdown()
        server.server_close()
        thread.join()
