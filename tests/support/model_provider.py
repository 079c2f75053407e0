"""A provider of models on loopback that speaks as Anthropic, OpenAI and Gemini do: streams, counts, and waits when asked to."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, ClassVar

REAL_KEY = "sk-real-key-of-the-provider"
INPUT, OUTPUT, CACHED = 1000, 500, 200


class Provider:
    """A server in our hands: where it is, and what it was asked. LONG-WINDED in a prompt makes an answer of many parts."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[dict[str, Any]] = []  # path, headers and body of each request
        self.go_on = Event()  # what a request with the word SLOW waits for in the middle of its answer
        self.left = Event()  # a caller has gone away in the middle


@contextmanager
def model_provider() -> Iterator[Provider]:
    """Serve until the block ends."""

    class Handler(_Handler):
        pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        provider = Handler.provider = Provider(f"http://127.0.0.1:{server.server_address[1]}")
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield provider
        finally:
            provider.go_on.set()
            server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    provider: ClassVar[Provider]

    def log_message(self, *_: object) -> None:
        """Be quiet."""

    def do_GET(self) -> None:
        self._note(b"")
        self._whole({"data": []})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self._note(body)
        said = json.loads(body)
        if "REDIRECT" in body.decode():
            self.send_response(302)
            self.send_header("location", "http://127.0.0.1:1/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()
        elif said.get("stream") or "streamGenerateContent" in self.path:
            first, second, *rest = _events(self.path, said)
            wordy = [_little(self.path)] * 400 if "LONG-WINDED" in body.decode() else []
            self._stream([first, second, *wordy, *rest], slow="SLOW" in body.decode())
        else:
            self._whole(_answer(self.path, said))

    def _note(self, body: bytes) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.provider.asked.append({"path": self.path, "headers": headers, "body": body.decode()})

    def _whole(self, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, events: list[bytes], *, slow: bool) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            for number, event in enumerate(events):
                if slow and number == len(events) - 1:
                    self._wait(events[-2])
                self._chunk(event)
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.provider.left.set()
            self.close_connection = True

    def _wait(self, event: bytes) -> None:
        """Go on with the same event, slowly, until told to end, or until the caller is gone."""
        while not self.provider.go_on.wait(0.05):
            self._chunk(event)

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


def _answer(path: str, said: dict[str, Any]) -> dict[str, Any]:
    if "/messages" in path:
        usage: dict[str, Any] = {"input_tokens": INPUT, "output_tokens": OUTPUT, "cache_read_input_tokens": CACHED}
        if "HOUR" in json.dumps(said):
            kept = {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 300}
            usage |= {"cache_creation_input_tokens": 400, "cache_creation": kept}
        text = [{"type": "text", "text": "hello"}]
        return {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": said["model"],
            "content": text,
            "usage": usage,
        }
    if path.endswith("/chat/completions"):
        usage = {"prompt_tokens": INPUT + CACHED, "completion_tokens": OUTPUT}
        return {"choices": [], "usage": {**usage, "prompt_tokens_details": {"cached_tokens": CACHED}}}
    if path.endswith("/responses"):
        return {"id": "r", "output": [], "usage": _response_usage()}
    return {"candidates": [], "usageMetadata": _gemini_usage()}


def _response_usage() -> dict[str, Any]:
    details = {"cached_tokens": CACHED}
    counts = {"input_tokens": INPUT + CACHED, "output_tokens": OUTPUT, "total_tokens": INPUT + CACHED + OUTPUT}
    return {**counts, "input_tokens_details": details, "output_tokens_details": {"reasoning_tokens": 0}}


def _gemini_usage() -> dict[str, int]:
    counts = {"promptTokenCount": INPUT + CACHED, "candidatesTokenCount": OUTPUT - 100, "thoughtsTokenCount": 100}
    return {**counts, "cachedContentTokenCount": CACHED}


def _events(path: str, said: dict[str, Any]) -> Iterator[bytes]:
    if "/messages" in path:
        usage = {"input_tokens": INPUT, "cache_read_input_tokens": CACHED, "output_tokens": 1}
        yield _named("message_start", {"message": {"id": "m", "model": said["model"], "usage": usage}})
        yield _named("content_block_delta", {"delta": {"type": "text_delta", "text": "hello " * 100}})
        yield _named("message_delta", {"usage": {"output_tokens": OUTPUT}})
        return
    if path.endswith("/chat/completions"):
        yield _data({"choices": [{"delta": {"content": "hello"}}]})
        if said.get("stream_options", {}).get("include_usage"):
            yield _data(_answer(path, said))
        yield b"data: [DONE]\n\n"
        return
    if path.endswith("/responses"):
        part = {"type": "output_text", "text": "hello", "annotations": []}
        item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
        yield _named("response.created", {"response": {"id": "r", "output": []}})
        yield _named("response.output_item.done", {"output_index": 0, "item": item})
        yield _named("response.completed", {"response": {"id": "r", "output": [item], "usage": _response_usage()}})
        return
    yield _data({"candidates": [{"content": {"parts": [{"text": "hello"}]}}]})
    yield _data({"candidates": [], "usageMetadata": _gemini_usage()})


def _little(path: str) -> bytes:
    """Return a part of an answer that has one letter, and much around it, as parts of real ones have."""
    around = {"id": "x" * 100, "object": "x" * 100, "obfuscation": "x" * 100}
    if "/messages" in path:
        return _named("content_block_delta", {"delta": {"type": "text_delta", "text": "a"}, **around})
    if path.endswith("/chat/completions"):
        return _data({"choices": [{"delta": {"role": "assistant", "content": "a"}}], **around})
    if path.endswith("/responses"):
        return _named("response.output_text.delta", {"delta": "a", **around})
    return _data({"candidates": [{"content": {"role": "model", "parts": [{"text": "a"}]}}], **around})


def _named(kind: str, document: dict[str, Any]) -> bytes:
    return f"event: {kind}\n".encode() + _data({"type": kind, **document})


def _data(document: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(document)}\n\n".encode()
