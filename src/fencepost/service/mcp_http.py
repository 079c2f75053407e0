"""An MCP server that is reached over streamable HTTP: each message is a request, answers come as JSON or as events."""

from collections.abc import Callable, Iterable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Event as Flag
from threading import Semaphore, Thread
from typing import Any
from urllib.parse import urlsplit

from fencepost.model import mcp
from fencepost.model.errors import Invalid
from fencepost.model.mcp_frame import Unreadable, one_line, read_answers, read_frame
from fencepost.model.mcp_http_messages import (
    EventReader,
    is_response_to,
    message_headers,
    protocol_of,
    schemas_of,
)
from fencepost.service.tool_gate import ToolGate

CONNECT_SECONDS = 30.0
ANSWER_SECONDS = 3600.0  # of silence; a tool may take long, and the agent has its own patience
AT_ONCE_MAX = 64
LEAVE_SECONDS = 2.0
LISTEN_AGAIN_SECONDS = 5.0
ACCEPTED, OK, REFUSED_FROM, FAILED_FROM = 202, 200, 400, 500
BOTH_KINDS = "application/json, text/event-stream"
SET_BY_US = ("content-type", "content-length", "accept", "host", "connection", "mcp-session-id")


def headers_of(texts: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Read --header NAME=VALUE; a value env:NAME stands in the environment, where no process list shows it."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.replace("-", "").isalnum() or name.lower() in SET_BY_US:
            raise Invalid(f"--header is NAME=VALUE, such as Authorization=env:MCP_AUTHORIZATION; not {name!r}.")
        if value.startswith("env:"):
            if value[4:] not in environ:
                raise Invalid(f"--header {name}: {value[4:]} is not set.")
            value = environ[value[4:]]
        if not value.isascii() or not value.isprintable():
            raise Invalid(f"--header {name}: the value has characters that a header cannot have.")
        found[name] = value
    return found


class RemoteServer:
    """A server at a URL."""

    def __init__(self, url: str, headers: Mapping[str, str], gate: ToolGate) -> None:
        try:
            at = urlsplit(url)
            self._host, self._port = at.hostname or "", at.port
        except ValueError:
            raise Invalid(f"{url!r} is no URL of a server.") from None
        if at.scheme not in ("http", "https") or not self._host:
            raise Invalid(f"{url!r} is no URL of a server; write https://host/mcp.")
        self._secure = at.scheme == "https"
        self._path = (at.path or "/") + (f"?{at.query}" if at.query else "")
        self._headers = dict(headers)
        self._gate = gate
        self._session: dict[str, str] = {}  # what the server told us to repeat
        self._schemas: dict[str, Any] = {}
        self._room = Semaphore(AT_ONCE_MAX)
        self._begun, self._over = Flag(), Flag()
        self._threads: list[Thread] = []

    def start(self, receive: Callable[[bytes], None], ended: Callable[[str], None]) -> None:
        """Remember the client to tell."""
        self._receive = receive
        self._ended = ended

    def send(self, frame: bytes, interrupted: Callable[[], None]) -> None:
        """Post a message: a request in a thread of its own, what has no answer here and now, to keep the order."""
        try:
            messages = read_frame(frame).messages
        except Unreadable:
            messages = []
        requests = [one for one in messages if "method" in one and mcp.id_of(one)]
        if not requests:
            self._post(frame, messages, requests)
            return
        while not self._room.acquire(timeout=LEAVE_SECONDS):
            interrupted()
        thread = Thread(target=self._post_and_leave, args=(frame, messages, requests), daemon=True)
        self._threads = [one for one in self._threads if one.is_alive()]
        self._threads.append(thread)
        thread.start()
        if any(one["method"] == "initialize" for one in requests):
            while thread.is_alive() and not self._begun.wait(0.1):  # what comes next needs the session that this begins
                interrupted()

    def finish(self, *, patient: bool) -> int:
        """Wait a little for answers that are under way, and end the session."""
        for thread in self._threads if patient else ():
            thread.join(LEAVE_SECONDS)
        self._over.set()
        if "Mcp-Session-Id" in self._session:
            try:
                connection = self._open(LEAVE_SECONDS)
                connection.request("DELETE", self._path, headers={**self._headers, **self._session})
                connection.getresponse().close()
            except (OSError, HTTPException):
                pass  # it ends by itself
        return 0

    def _post_and_leave(self, frame: bytes, messages: list[mcp.Message], requests: list[mcp.Message]) -> None:
        try:
            self._post(frame, messages, requests)
        finally:
            self._room.release()

    def _post(self, frame: bytes, messages: list[mcp.Message], requests: list[mcp.Message]) -> None:
        """Post one frame and hand on what comes back; a request that gets no answer is told so."""
        left = {mcp.id_of(one): one for one in requests}
        sent = False
        try:
            connection = self._open(CONNECT_SECONDS)
            connection.connect()
            connection.sock.settimeout(ANSWER_SECONDS)
            sent = True
            connection.request("POST", self._path, body=frame.strip(), headers=self._message_headers(messages))
            answer = connection.getresponse()
            why, sent = self._take(answer, left)
        except (OSError, HTTPException, ValueError) as error:
            why = f"the server at {self._host} did not answer: {str(error) or type(error).__name__}."
        for call_id in left:
            self._receive(self._gate.unanswered(call_id, why, sent=sent))

    def _take(self, answer: HTTPResponse, left: dict[str, mcp.Message]) -> tuple[str, bool]:
        """Hand on an answer; return what to say to requests that it leaves open, and whether they may have been heard."""
        if answer.status >= REFUSED_FROM or (answer.status > ACCEPTED):
            refused = REFUSED_FROM <= answer.status < FAILED_FROM
            self._take_json(answer, left)
            return f"the server at {self._host} answered {answer.status} {answer.reason}.", not refused
        session = answer.getheader("Mcp-Session-Id")
        if session:
            self._session["Mcp-Session-Id"] = session
        if answer.getheader("Content-Type", "").partition(";")[0].strip().lower() == "text/event-stream":
            self._take_events(answer, left)
        elif answer.status == OK:
            self._take_json(answer, left)
        return f"the server at {self._host} ended its answer early.", True

    def _take_json(self, answer: HTTPResponse, left: dict[str, mcp.Message]) -> None:
        body = answer.read(mcp.FRAME_MAX + 1)
        if len(body) > mcp.FRAME_MAX:
            raise ValueError(f"its answer has more than {mcp.FRAME_MAX:,} bytes")
        if not body.strip():
            return
        frame = read_answers(body)
        if frame is None:
            return  # a page for people; the status says it all
        if all("jsonrpc" in one for one in frame.messages) and any(mcp.id_of(one) for one in frame.messages):
            self._hand_on(frame.line, frame.messages, left)

    def _take_events(self, answer: HTTPResponse, left: dict[str, mcp.Message]) -> None:
        reader = EventReader()
        while not self._over.is_set() and (line := answer.readline(mcp.FRAME_MAX + 1)):
            if len(line) > mcp.FRAME_MAX:
                raise ValueError(f"an event has more than {mcp.FRAME_MAX:,} bytes")
            event = reader.feed(line)
            if event is None:
                continue
            frame = read_answers(event.data)
            self._hand_on(frame.line if frame else one_line(event.data), frame.messages if frame else [], left)

    def _hand_on(self, frame: bytes, messages: list[mcp.Message], left: dict[str, mcp.Message]) -> None:
        """Learn what an answer tells about the connection, then pass it on."""
        for message in messages:
            for call_id, request in list(left.items()):
                if is_response_to(message, request.get("id")):
                    del left[call_id]
                    self._learn(request, message)
        self._receive(frame)

    def _learn(self, request: mcp.Message, message: mcp.Message) -> None:
        if request["method"] == "tools/list":
            self._schemas.update(schemas_of(message.get("result")))
        if request["method"] == "initialize" and protocol_of(message):
            self._session["MCP-Protocol-Version"] = protocol_of(message)
            self._begun.set()
            Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        """Hear what the server says of its own accord, if it offers that; the stream is opened again when it ends."""
        while not self._over.is_set():
            try:
                connection = self._open(CONNECT_SECONDS)
                connection.connect()
                connection.sock.settimeout(ANSWER_SECONDS)
                headers = {**self._headers, **self._session, "Accept": "text/event-stream"}
                connection.request("GET", self._path, headers=headers)
                answer = connection.getresponse()
                if answer.status != OK:
                    return
                self._take_events(answer, {})
            except (OSError, HTTPException, ValueError):
                pass  # it comes back, or it does not: no caller waits for an answer here
            self._over.wait(LISTEN_AGAIN_SECONDS)

    def _message_headers(self, messages: list[mcp.Message]) -> dict[str, str]:
        own = message_headers(messages[0], self._schemas) if len(messages) == 1 else {}
        return {"Content-Type": "application/json", "Accept": BOTH_KINDS, **self._headers, **self._session, **own}

    def _open(self, seconds: float) -> HTTPConnection:
        if not self._secure:
            return HTTPConnection(self._host, self._port, timeout=seconds)
        import ssl

        return HTTPSConnection(self._host, self._port, timeout=seconds, context=ssl.create_default_context())
