"""The MCP gateway at work: frames from the agent to the server and back, until one of them is gone."""

import os
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Protocol

from fencepost.model.mcp import FRAME_MAX
from fencepost.service.message_pipe import readable
from fencepost.service.signals import ONLY_TO_AGENT, Mailbox
from fencepost.service.tool_gate import ToolGate

CHUNK = 65_536


class Over(Exception):
    """It ends here, for this reason."""


class Upstream(Protocol):
    """A server, however it is reached."""

    def start(self, receive: Callable[[bytes], None], ended: Callable[[str], None]) -> None:
        """Begin to hand on what the server says, from threads; call `ended` when it will say no more."""
        ...

    def send(self, frame: bytes, interrupted: Callable[[], None]) -> None:
        """Hand a frame to the server; `interrupted` is called while waiting and raises when that must stop."""
        ...

    def finish(self, *, patient: bool) -> int:
        """Let the server go, at once or when it has answered what it has; return the exit code to leave with."""
        ...


class Splitter:
    """Cuts a stream into lines, each with its own end, and holds no more than one frame may have."""

    def __init__(self) -> None:
        self._part = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that are complete by now; raise Over for one that is too long."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            line = bytes(self._part) + data[start : end + 1]
            self._part.clear()
            start = end + 1
            yield _bounded(line)
        self._part += data[start:]
        _bounded(self._part)

    def rest(self) -> bytes:
        """Return what is left without an end."""
        return bytes(self._part)


def _bounded(line: bytes | bytearray) -> bytes:
    if len(line) > FRAME_MAX:
        raise Over(f"a message of more than {FRAME_MAX:,} bytes is not passed on.")
    return line if isinstance(line, bytes) else b""


class Gateway:
    """Stands between an agent and a server."""

    def __init__(self, gate: ToolGate, upstream: Upstream, mailbox: Mailbox, say: Callable[[str], None]) -> None:
        self._gate = gate
        self._upstream = upstream
        self._mailbox = mailbox
        self._say = say
        self._writing = Lock()
        self._over = ""  # why, once the server or the agent's reading end is gone

    def run(self, source: int, sink: int) -> int:
        """Pass frames until the agent, the server or a signal ends it; return the exit code to leave with."""
        self._sink = sink
        self._upstream.start(self._back, self._ended)
        patient, why = False, "the gateway ended"
        try:
            self._pump(source)
            patient, why = True, "the agent closed the connection"
        except Over as over:
            why = str(over)
            self._say(why)
        finally:
            code = self._upstream.finish(patient=patient)
            self._gate.end(f"{why} before the answer came")
        return code

    def _pump(self, source: int) -> None:
        splitter = Splitter()
        while True:
            ready = readable([source, self._mailbox.fd])
            self._interrupted()
            if source not in ready:
                continue
            data = os.read(source, CHUNK)
            for line in splitter.feed(data) if data else [splitter.rest()]:
                self._forward(line)
            if not data:
                return

    def _forward(self, line: bytes) -> None:
        passage = self._gate.from_agent(line)
        if passage.back:
            self._write(passage.back)
        if passage.onward:
            self._upstream.send(passage.onward, self._interrupted)

    def _back(self, line: bytes) -> None:
        self._write(self._gate.from_server(line))

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        with self._writing:
            try:
                while view:
                    view = view[os.write(self._sink, view) :]
            except OSError:
                self._ended("the agent does not read any more")

    def _ended(self, why: str) -> None:
        self._over = self._over or why
        self._mailbox.nudge()

    def _interrupted(self) -> None:
        """Raise Over if a signal, the server or the agent says so."""
        for number in self._mailbox.collect():
            if number not in ONLY_TO_AGENT:
                raise Over(f"signal {number}")
        if self._over:
            raise Over(self._over)
