"""Stands in for Anthropic's Messages API on loopback, so that the real Claude Code and the real SDK can run in tests.

It streams as the API's reference documents it: message_start with the input's tokens, content blocks, message_delta with
the output's tokens. Every answer costs the same. What the "model" does is asked for in the prompt, by one word.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread
from typing import Any, ClassVar

INPUT_TOKENS, OUTPUT_TOKENS = 10, 7
# What a word in the prompt makes the model do first: a tool, and what it is called with.
CALLS: dict[str, tuple[str, dict[str, str]]] = {
    "WRITE": ("Bash", {"command": "echo written > written"}),
    "STAY": ("Bash", {"command": "echo half > draft; tail -f /dev/null"}),
    "DIE": ("Bash", {"command": "kill -9 $PPID"}),
    "NOTE": ("mcp__notes__add", {"line": "a note"}),
}


class MessagesApi:
    """A server in our hands: where it is, and what it was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[list[dict[str, Any]]] = []  # the conversation, as each request had it

    @property
    def environment(self) -> dict[str, str]:
        """What leads an agent here, and nowhere else."""
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "sk-ant-of-a-test",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }

    def tool_answers(self) -> list[str]:
        """Return what tools answered in the last conversation."""
        blocks = [block for message in self.asked[-1] for block in _blocks(message)]
        return [json.dumps(block.get("content")) for block in blocks if block.get("type") == "tool_result"]


@contextmanager
def messages_api() -> Iterator[MessagesApi]:
    """Serve until the block ends."""

    class Handler(_Handler):
        numbers: ClassVar[Iterator[int]] = count(1)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        api = MessagesApi(f"http://127.0.0.1:{server.server_address[1]}")
        Handler.asked = api.asked
        Thread(target=server.serve_forever, daemon=True).start()
        yield api
        server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    asked: ClassVar[list[list[dict[str, Any]]]]
    numbers: ClassVar[Iterator[int]]

    def log_message(self, *_: object) -> None:
        """Be quiet."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path.partition("?")[0] != "/v1/messages":
            self._send("application/json", b"{}", status=404)
            return
        self.asked.append(request["messages"])
        number = next(self.numbers)
        content, stop = _answer(request, number)
        usage = {"input_tokens": INPUT_TOKENS, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
        message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": request["model"]}
        if request.get("stream"):
            start = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
            self._send("text/event-stream", b"".join(_stream(start, content, stop)))
        else:
            whole = {**message, "content": [content], "stop_reason": stop, "usage": {**usage, "output_tokens": 7}}
            self._send("application/json", json.dumps(whole).encode())

    def _send(self, kind: str, body: bytes, *, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _answer(request: dict[str, Any], number: int) -> tuple[dict[str, Any], str]:
    """Say what the model says: a tool call that the prompt asks for, or the end of the turn."""
    blocks = [block for message in _since_its_last(request["messages"]) for block in _blocks(message)]
    results = [place for place, block in enumerate(blocks) if block.get("type") == "tool_result"]
    answered = bool(results)
    text = " ".join(
        block.get("text", "") for block in blocks[max(results, default=-1) + 1 :]
    )  # a resumed one may ask anew
    word = next((one for one in CALLS if one in text), None)
    if word is None or not request.get("tools"):
        return {"type": "text", "text": "done" if answered else "went on"}, "end_turn"
    tool, arguments = CALLS[word]
    return {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": arguments}, "tool_use"


def _since_its_last(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what came after the model's last word: the prompt, and what agents put around it."""
    last = max((number for number, one in enumerate(messages) if one["role"] == "assistant"), default=-1)
    return messages[last + 1 :]


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _stream(start: dict[str, Any], content: dict[str, Any], stop: str) -> Iterator[bytes]:
    begun: dict[str, Any] = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": content.get("text")}
    if content["type"] != "text":
        begun = {**content, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(content["input"])}
    ended = {"stop_reason": stop, "stop_sequence": None}
    for event in (
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": begun},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": OUTPUT_TOKENS}},
        {"type": "message_stop"},
    ):
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
