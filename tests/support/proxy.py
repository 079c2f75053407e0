"""A TCP proxy on loopback between a client and PostgreSQL that misbehaves on request."""

import re
import select
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from queue import SimpleQueue
from threading import Thread
from typing import Self
from urllib.parse import SplitResult, urlsplit

from tests.support.scratch import free_port

# A simple query, or the statement of an extended one, that is COMMIT and nothing else.
COMMIT = re.compile(rb"(?:Q.{4}|P.{4}[^\0]*\0)\s*COMMIT\s*;?\s*\0", re.DOTALL | re.IGNORECASE)

# PostgreSQL says that it waits for the next command, in no transaction: what came before is committed, or has failed.
READY_AND_IDLE = b"Z\x00\x00\x00\x05I"


class Direction(StrEnum):
    TO_SERVER = "to server"
    TO_CLIENT = "to client"


class Moment(StrEnum):
    BEFORE = "the server never sees the statement"
    AFTER = "the server has carried it out, the client never learns of it"


@dataclass(frozen=True, slots=True)
class Pass:
    """Forward everything."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Refuse new connections; those that exist go on."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Accept connections and move no byte in either direction, nor tell either side that the other has gone."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Move no byte in one direction."""

    direction: Direction


@dataclass(frozen=True, slots=True)
class Delay:
    """Let each message of the client wait before it goes on to the server."""

    seconds: float


@dataclass(frozen=True, slots=True)
class CutAfter:
    """Forward so many more bytes in one direction, then cut that connection; once."""

    count: int
    direction: Direction = Direction.TO_SERVER


@dataclass(frozen=True, slots=True)
class CutAt:
    """Cut the connection on which the client sends this, by default COMMIT; once.

    AFTER waits for the server's answer, so it is meant for what ends a transaction: COMMIT, or a statement alone.
    """

    moment: Moment
    pattern: re.Pattern[bytes] = COMMIT


@dataclass(frozen=True, slots=True)
class Fail:
    """Answer the statement with this SQLSTATE instead of forwarding it; once."""

    sqlstate: str
    pattern: re.Pattern[bytes]


@dataclass(frozen=True, slots=True)
class Reset:
    """Reset (RST) every connection, those that exist and those to come."""


Mode = Pass | Refuse | Silence | Hold | Delay | CutAfter | CutAt | Fail | Reset


@dataclass(slots=True, eq=False)
class Lane:
    """One direction of one connection."""

    direction: Direction
    source: socket.socket
    sink: socket.socket
    waiting: bytes = b""
    not_before: float = 0.0
    ending: bool = False
    """Nothing more is read; the connection is closed when what waits has been sent."""


@dataclass(slots=True, eq=False)
class Link:
    """One client's connection and ours to the server on its behalf."""

    client: socket.socket
    server: socket.socket
    lanes: tuple[Lane, Lane] = field(init=False)
    withheld: bytes | None = None
    """What the server answered to the statement that the client must not learn about."""
    idle: bool = True
    """The server said last that no transaction is open."""

    def __post_init__(self) -> None:
        for end in (self.client, self.server):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.lanes = (
            Lane(Direction.TO_SERVER, self.client, self.server),
            Lane(Direction.TO_CLIENT, self.server, self.client),
        )

    def close(self, *, reset: bool = False) -> None:
        for end in (self.client, self.server):
            _close(end, reset=reset)


class FaultyProxy:
    """Stands before the server of one URL; connect to `url` instead and `switch` at will.

    One thread owns all sockets and carries out what other threads ask between two events. So when `switch` returns,
    no byte moves under the old mode any more. What is held in `Silence` or `Hold` stays in the kernel's buffers and
    flows when the mode changes, as after a partition that heals: a COMMIT may arrive long after its client gave up.
    """

    def __init__(self, server_url: str) -> None:
        server = urlsplit(server_url)
        self._server = (server.hostname or "127.0.0.1", server.port or 5432)
        self._port = free_port()
        self.url = _readable_through(server, f"127.0.0.1:{self._port}")
        self.bites = 0
        """How many connections were cut, reset or lied to: a test can prove that its fault was injected at all."""
        self._mode: Mode = Pass()
        self._left = 0
        self._links: list[Link] = []
        self._undialled: list[socket.socket] = []
        self._listener: socket.socket | None = None
        self._orders: SimpleQueue[tuple[Callable[[], None], Future[None]]] = SimpleQueue()
        self._wake, self._bell = socket.socketpair()
        self._stopped = False
        self._thread = Thread(target=self._serve, name="faulty-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._listen()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._order(self._stop)
        self._thread.join()
        self._wake.close()
        self._bell.close()

    def switch(self, mode: Mode) -> None:
        """Change the mode for every connection, and return when it counts."""
        self._order(lambda: self._switch(mode))

    def cut_all(self, *, reset: bool = False) -> None:
        """Close all connections now, politely or with RST; new ones are as welcome as before."""
        self._order(lambda: self._cut_all(reset=reset))

    def _order(self, work: Callable[[], None]) -> None:
        done = Future[None]()
        self._orders.put((work, done))
        self._bell.send(b"!")
        done.result(timeout=30)

    def _serve(self) -> None:
        while not self._stopped:
            readable, writable = self._wait()
            for link in tuple(self._links):
                self._move(link, readable, writable)
            if self._listener in readable:
                self._accept()
            if self._wake in readable:
                self._carry_out_orders()
            self._dial()

    def _wait(self) -> tuple[set[socket.socket], set[socket.socket]]:
        now = _now()
        lanes = [lane for link in self._links for lane in link.lanes if not self._holds(lane.direction)]
        sources = [lane.source for lane in lanes if not lane.waiting and not lane.ending]
        delays = [self._delay(lane, now) for lane in lanes if lane.waiting]
        sinks = [lane.sink for lane in lanes if lane.waiting and not self._delay(lane, now)]
        ours = [end for end in (self._listener, self._wake) if end]
        readable, writable, _ = select.select([*ours, *sources], sinks, [], min(delays, default=None))
        return set(readable), set(writable)

    def _holds(self, direction: Direction) -> bool:
        return self._mode == Silence() or self._mode == Hold(direction)

    def _delay(self, lane: Lane, now: float) -> float:
        return max(0.0, lane.not_before - now) if isinstance(self._mode, Delay) else 0.0

    def _move(self, link: Link, readable: set[socket.socket], writable: set[socket.socket]) -> None:
        for lane in link.lanes:
            if lane.sink in writable:
                self._send(lane)
            if lane.source in readable:
                self._receive(link, lane)
        if any(lane.ending and not lane.waiting for lane in link.lanes):
            self._links.remove(link)
            link.close()

    def _send(self, lane: Lane) -> None:
        try:
            lane.waiting = lane.waiting[lane.sink.send(lane.waiting) :]
        except OSError:  # the other side has gone
            lane.waiting, lane.ending = b"", True

    def _receive(self, link: Link, lane: Lane) -> None:
        try:
            chunk = lane.source.recv(65536)
        except OSError:  # this side was reset
            chunk = b""
        if not chunk:
            lane.ending = True
        elif lane.direction is Direction.TO_SERVER:
            lane.waiting = self._from_client(link, lane, chunk)
        else:
            lane.waiting = self._from_server(link, lane, chunk)

    def _from_client(self, link: Link, lane: Lane, chunk: bytes) -> bytes:
        match self._mode:
            case Delay(seconds):
                lane.not_before = _now() + seconds
            case CutAfter(direction=Direction.TO_SERVER):
                return self._cut_after(lane, chunk)
            case CutAt(Moment.BEFORE, pattern) if found := pattern.search(chunk):
                self._bite()
                lane.ending = True
                return chunk[: found.start()]
            case CutAt(Moment.AFTER, pattern) if pattern.search(chunk):
                self._bite()
                link.withheld = b""
            case Fail(sqlstate, pattern) if pattern.search(chunk):
                self._bite()
                link.lanes[1].waiting += _error(sqlstate) + _ready(idle=link.idle)
                return b""
        return chunk

    def _from_server(self, link: Link, lane: Lane, chunk: bytes) -> bytes:
        if link.withheld is not None:
            link.withheld += chunk
            lane.ending = READY_AND_IDLE in link.withheld
            return b""
        _, ready, status = chunk.rpartition(READY_AND_IDLE[:-1])
        link.idle = status.startswith(b"I") if ready else link.idle
        if isinstance(self._mode, CutAfter) and self._mode.direction is Direction.TO_CLIENT:
            return self._cut_after(lane, chunk)
        return chunk

    def _cut_after(self, lane: Lane, chunk: bytes) -> bytes:
        forwarded = chunk[: self._left]
        self._left -= len(forwarded)
        if self._left == 0:
            self._bite()
            lane.ending = True
        return forwarded

    def _bite(self) -> None:
        self.bites += 1
        self._mode = Pass()

    def _accept(self) -> None:
        assert self._listener
        with suppress(OSError):  # the client did not wait
            client, _ = self._listener.accept()
            if isinstance(self._mode, Reset):
                self.bites += 1
                _close(client, reset=True)
            else:
                self._undialled.append(client)

    def _dial(self) -> None:
        if self._holds(Direction.TO_SERVER):
            return
        for client in self._undialled:
            try:
                self._links.append(Link(client, socket.create_connection(self._server, timeout=10)))
            except OSError:
                _close(client, reset=True)
        self._undialled.clear()

    def _carry_out_orders(self) -> None:
        self._wake.recv(1)
        work, done = self._orders.get()
        try:
            work()
        except OSError as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    def _switch(self, mode: Mode) -> None:
        self._mode = mode
        self._left = mode.count if isinstance(mode, CutAfter) else 0
        if isinstance(mode, Reset):
            self._cut_all(reset=True)
        if isinstance(mode, Refuse):
            self._stop_listening()
        elif not self._listener:
            self._listen()

    def _cut_all(self, *, reset: bool) -> None:
        self.bites += len(self._links)
        for link in self._links:
            link.close(reset=reset)
        for client in self._undialled:
            _close(client, reset=reset)
        self._links.clear()
        self._undialled.clear()

    def _listen(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self._port), backlog=100)
        self._listener.setblocking(False)

    def _stop_listening(self) -> None:
        if self._listener:
            self._listener.close()
        self._listener = None

    def _stop(self) -> None:
        self._stop_listening()
        self._cut_all(reset=False)
        self._stopped = True


def _readable_through(server: SplitResult, address: str) -> str:
    """Return the URL with another address and without TLS, through which the proxy could recognise nothing."""
    user, at, _ = server.netloc.rpartition("@")
    query = "&".join(filter(None, (server.query, "sslmode=disable")))
    return server._replace(netloc=f"{user}{at}{address}", query=query).geturl()


def _close(end: socket.socket, *, reset: bool) -> None:
    if reset:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    else:
        with suppress(OSError):  # it was closed from afar
            end.shutdown(socket.SHUT_RDWR)  # without it, unread bytes would turn the close into a reset
    end.close()


def _error(sqlstate: str) -> bytes:
    fields = f"SERROR\0VERROR\0C{sqlstate}\0Minjected by the test\0\0".encode()
    return b"E" + struct.pack("!i", len(fields) + 4) + fields


def _ready(*, idle: bool) -> bytes:
    return READY_AND_IDLE if idle else READY_AND_IDLE[:-1] + b"E"


def _now() -> float:
    return time.monotonic()  # noqa: TID251  # a delay of the proxy is real time; no clock of the product is meant
