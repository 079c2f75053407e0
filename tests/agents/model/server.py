"""One small model server on loopback: four protocols, streaming, tool calls and faults, for the real agent CLIs.

What the model does is asked for in the prompt (see `script`), so that agents side by side do not get into each other's way.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Event, Thread
from types import ModuleType
from typing import Any, NamedTuple

from tests.agents.model import anthropic, gemini, openai_chat, openai_responses
from tests.agents.model.script import FAULT, Asked, answer_to

KEY = "sk-of-a-test"
WORDS = {401: "invalid x-api-key", 429: "rate limit of the test reached", 500: "the model of the test broke"}
PROTOCOLS = (anthropic, openai_responses, openai_chat)
SLOW_SECONDS, HOLD_SECONDS = 60.0, 0.1


class Request(NamedTuple):
    """What an agent asked the model."""

    path: str
    body: dict[str, Any]
    asked: Asked
    key: str = ""  # that it showed


class Model:
    """The server in a test's hands: where it is, and what it was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[Request] = []
        self.others: list[str] = []  # paths that no protocol knows
        self.numbers = count(1)
        self.faults: Counter[str] = Counter()
        self.released: list[str] = []  # words of prompts that were held
        self.closing = Event()

    def asked_for(self, word: str) -> list[Request]:
        """Return the requests whose conversation has a word in it."""
        return [one for one in self.requests if word in json.dumps(one.body)]

    def hold(self, text: str) -> None:
        """Wait until the test releases a word of this text."""
        while not (any(word in text for word in self.released) or self.closing.wait(HOLD_SECONDS)):
            pass


@contextmanager
def model_server() -> Iterator[Model]:
    """Serve until the block ends."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        model = Model(f"http://127.0.0.1:{server.server_address[1]}")
        server.model = model  # type: ignore[attr-defined]  # a handler finds it there
        Thread(target=server.serve_forever, daemon=True).start()
        yield model
        model.closing.set()
        server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def model(self) -> Model:
        found: Model = self.server.model  # type: ignore[attr-defined]
        return found

    def log_message(self, *_: object) -> None:
        """Be quiet."""

    def do_HEAD(self) -> None:
        self._send(200, {})

    def do_GET(self) -> None:
        if self.path.partition("?")[0].endswith("/models"):
            self._send(200, {"object": "list", "data": [{"id": "test", "object": "model"}], "models": []})
        else:
            self.model.others.append(self.path)
            self._send(404, {"error": {"message": f"there is no {self.path} here"}})

    def do_POST(self) -> None:
        body = self._body()
        path = self.path.partition("?")[0]
        if path.startswith(gemini.PATH):
            if path.endswith(gemini.COUNTS):
                self._send(200, {"totalTokens": 1})
                return
            self._serve(gemini, Request(path, body, gemini.asked(body, path)))
            return
        for protocol in PROTOCOLS:
            if path == protocol.PATH:
                self._serve(protocol, Request(path, body, protocol.asked(body)))
                return
        self.model.others.append(path)
        self._send(404, {"error": {"message": f"there is no {path} here"}})

    def _key(self) -> str:
        """Return the key that was shown, wherever the protocol wants it."""
        bearer = self.headers.get("authorization", "").partition(" ")[2]
        return str(self.headers.get("x-api-key") or self.headers.get("x-goog-api-key") or bearer)

    def _body(self) -> dict[str, Any]:
        size = int(self.headers.get("content-length") or 0)
        if size or "chunked" not in self.headers.get("transfer-encoding", ""):
            return dict(json.loads(self.rfile.read(size) or b"{}"))
        parts = []
        while length := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(length))
            self.rfile.readline()
        self.rfile.readline()
        return dict(json.loads(b"".join(parts)))

    def _serve(self, protocol: ModuleType, request: Request) -> None:
        self.model.requests.append(request._replace(key=self._key()))
        fault = self._fault(request.asked.text)
        if fault.isdigit():
            self._send(int(fault), protocol.error(int(fault), WORDS[int(fault)]))
            return
        if fault == "SLOW":
            self.model.closing.wait(SLOW_SECONDS)
        if fault == "HELD":
            self.model.hold(request.asked.text)
        said, number = answer_to(request.asked, json.dumps(request.body)), next(self.model.numbers)
        with suppress(BrokenPipeError, ConnectionResetError):
            if request.asked.streams:
                self._stream(protocol.stream(said, request.asked.model, number), cut=fault == "CUT")
            else:
                self._send(200, protocol.whole(said, request.asked.model, number))

    def _fault(self, text: str) -> str:
        """Return what shall go wrong with this request, if anything."""
        found = FAULT.search(text)
        if found is None:
            return ""
        self.model.faults[text] += 1
        return "" if found[2] and self.model.faults[text] > 1 else found[1]

    def _stream(self, events: Iterator[bytes], *, cut: bool) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for place, event in enumerate(events):
            if cut and place == 2:  # in the middle of every protocol
                self.close_connection = True
                self.connection.close()
                return
            self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
