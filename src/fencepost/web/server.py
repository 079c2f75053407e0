"""Serves the application: a port that is free, deadlines that uvicorn lacks, and an end with the parent."""

import asyncio
import errno
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Coroutine
from threading import Event
from typing import ClassVar, NamedTuple

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from fencepost import wiring
from fencepost.model.errors import Misconfigured, StoreUnavailable
from fencepost.operations.phrases import plain
from fencepost.operations.run_queries import Store
from fencepost.operations.web_keys import create_link, link_url
from fencepost.web.app import create_app, create_mcp_app
from fencepost.web.door import Door
from fencepost.web.security import Gatekeeper
from fencepost.web.store_threads import StoreThreads
from fencepost.wiring import machine_facts, state_folders, tenant_secrets

PORT = 7420
PORTS_TRIED = 20
HEAD_SECONDS = 10.0
HEAD_BYTES_MAX = 16_384
CONNECTIONS_MAX = 1_000
PER_ADDRESS_MAX = 600
PARENT_SECONDS = 0.5
PREDECESSOR_SECONDS = 3.0  # for the web door of a killed `up` to notice, and to give its port back
GREET_SECONDS, GREET_MAX_SECONDS = 0.5, 5.0
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class WebAddress(NamedTuple):
    """Where to listen, and by which other names the door is reached."""

    host: str = "127.0.0.1"
    port: int | None = None  # None: 7420, or the next that is free
    names: tuple[str, ...] = ()
    how: str = "--port P"  # to choose another port


class TimedProtocol(HttpToolsProtocol):
    """A connection whose request line and headers come in time and within bounds, or which is closed."""

    _head: asyncio.TimerHandle | None = None
    _unread = 0  # bytes since a head, or a part of a body, was last complete
    _address = ""
    _by_address: ClassVar[Counter[str]] = Counter()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request; a client with too many connections gets no further one."""
        super().connection_made(transport)
        self._address = str((transport.get_extra_info("peername") or ("",))[0])
        self._by_address[self._address] += 1
        if self._by_address[self._address] > PER_ADDRESS_MAX:
            transport.close()
        else:
            self._await_head()

    def data_received(self, data: bytes) -> None:
        """Take what came; a head that comes byte by byte does not move its deadline."""
        self._unread += len(data)
        super().data_received(data)
        if self._unread > HEAD_BYTES_MAX:
            self.send_400_response("Headers too long.")
        if self._is_busy():
            self._stop_waiting()
        else:
            self._await_head()

    def on_headers_complete(self) -> None:
        """Begin to answer."""
        if not self.url.startswith(b"/"):
            raise ValueError("an address that names a host of its own")  # only the header Host is checked
        self._unread = 0
        super().on_headers_complete()
        self.headers = []  # what trailers say goes nowhere
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False  # what follows may be in another language

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._unread = 0
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP; behind a request that is still to be answered, it would be taken for that answer."""
        if self._is_busy() and (self.pipeline or self.cycle.response_started or not self.cycle.more_body):
            self.transport.close()
        else:
            super().send_400_response(msg)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        self._by_address[self._address] -= 1
        if not self._by_address[self._address]:
            del self._by_address[self._address]
        super().connection_lost(exc)

    def _is_busy(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request, whatever uvicorn says
        return cycle is not None and not cycle.response_complete

    def _await_head(self) -> None:
        if self._head is None:
            self._head = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _too_slow(self) -> None:
        self._head = None
        if not self._is_busy():
            self.transport.close()


class ServedApp(NamedTuple):
    """What is served: the application, and what is said to the parent, once the store is there."""

    name: str
    app: Callable[[Door, frozenset[str]], Gatekeeper]
    greet: Callable[[Store, str], str]  # given where it is served


def serve(url: str, tenant: str, address: WebAddress, *, parent: int | None = None) -> int:
    """Serve the whole door until asked to stop, or until the parent is gone."""

    def greet(store: Store, where: str) -> str:
        if not os.isatty(2):  # a log has more readers than a terminal, and the link makes its reader the administrator
            return f"web: {where}; to log in, ask for a link: fencepost key link --tenant {tenant} --at {where}"
        made = create_link(store.keys(), tenant=tenant, by="web")
        return f"web: log in within the hour, once: {link_url(where, made.secret)}"

    def app(door: Door, hosts: frozenset[str]) -> Gatekeeper:
        return create_app(door, hosts=hosts, tell=wiring.say)

    return _serve(url, address, ServedApp("web", app, greet), parent=parent)


def serve_mcp(url: str, address: WebAddress, *, acts: bool) -> int:
    """Serve the MCP door alone until asked to stop."""

    def greet(_: Store, where: str) -> str:
        return f"mcp: {where}/mcp, for holders of a key; make one with: fencepost key create NAME --role trigger"

    def app(door: Door, hosts: frozenset[str]) -> Gatekeeper:
        return create_mcp_app(door, hosts=hosts, tell=wiring.say, acts=acts)

    return _serve(url, address, ServedApp("mcp", app, greet))


def _serve(url: str, address: WebAddress, offer: ServedApp, *, parent: int | None = None) -> int:
    machine_facts.keep_to_ourselves()
    rights = tenant_secrets.own_rights()
    listener = listen(address, patience=0 if parent is None else PREDECESSOR_SECONDS)
    port = int(listener.getsockname()[1])

    group = wiring.commit_group(url)

    def open_store() -> Store:
        return wiring.open_runtime(url, group=group)

    def is_leaving() -> bool:
        return server.should_exit

    door = Door(
        StoreThreads(open_store),
        wiring.new_run_ids,
        state_folders.log_folder(),
        machine_facts.now_us,
        lambda reference, tenant: tenant_secrets.fetch_secret(reference, tenant, rights),
        open_store,
        is_leaving=is_leaving,
        rights=lambda: rights,
        tell=wiring.say,
    )
    _hear_others()
    server = uvicorn.Server(
        uvicorn.Config(
            offer.app(door, names_of(address, port)),
            http=TimedProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=5,
        )
    )
    where = f"http://{_spelled(address.host)}:{port}"
    asyncio.run(_run(server, listener, parent, _greet(door.desk, offer, where)))
    return 0


def names_of(address: WebAddress, port: int) -> frozenset[str]:
    """Return the exact Host headers that this server answers to."""
    own = [f"{name}:{port}" for name in (_spelled(address.host), *LOOPBACK)]
    return frozenset(name.lower() for name in (*own, *address.names))


def _spelled(host: str) -> str:
    """Spell an address as it stands in a URL."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


class _Saying(logging.Handler):
    """Tells what the libraries have to say the way that we tell things: on lines that only we begin."""

    def emit(self, record: logging.LogRecord) -> None:
        """Tell one of them."""
        lines = self.format(record).splitlines() or [""]
        wiring.say("\n".join([f"warning: web: {plain(lines[0])}", *(f"  {plain(line)}" for line in lines[1:])]))


def _hear_others() -> None:
    logging.basicConfig(level=logging.WARNING, handlers=[_Saying()], format="%(name)s: %(message)s", force=True)


async def _run(
    server: uvicorn.Server, listener: socket.socket, parent: int | None, greeting: Coroutine[None, None, None]
) -> None:
    watch = asyncio.create_task(_watch(server, parent, os.getppid)) if parent is not None else None
    greeted = asyncio.create_task(greeting)
    greeted.add_done_callback(lambda task: _end_unless_well(server, task))
    try:
        await server.serve(sockets=[listener])
    finally:
        if watch is not None:
            watch.cancel()
        if not greeted.cancel():
            greeted.result()  # what cannot be mended by waiting is told by the parent


def _end_unless_well(server: uvicorn.Server, task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and task.exception() is not None:
        server.should_exit = True


async def _greet(desk: StoreThreads, offer: ServedApp, where: str) -> None:
    """Say where the door is, with what lets the first one in; as soon as the store is there."""
    pause = GREET_SECONDS
    while True:
        try:
            wiring.say(await desk.ask(offer.greet, where))
        except StoreUnavailable as error:
            if pause == GREET_SECONDS:
                wiring.say(f"{offer.name}: {where} is served. The store is out of reach, trying again: {error}")
            await asyncio.sleep(pause)
            pause = min(2 * pause, GREET_MAX_SECONDS)
        else:
            return


async def _watch(server: uvicorn.Server, parent: int, parent_now: Callable[[], int]) -> None:
    """End with the process that started us, however it ended."""
    while parent_now() == parent:  # noqa: ASYNC110  # there is no event for it; we have to look
        await asyncio.sleep(PARENT_SECONDS)
    server.should_exit = True


def listen(address: WebAddress, *, patience: float) -> socket.socket:
    """Listen at the first port that is free. The first of them may be our predecessor's still, and is waited for."""
    ports = [address.port] if address.port is not None else range(PORT, PORT + PORTS_TRIED)
    for _ in range(round(patience / PARENT_SECONDS)):
        try:
            return _bound(address, ports[0])
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                break
        Event().wait(PARENT_SECONDS)
    why = ""
    for port in ports:
        try:
            return _bound(address, port)
        except OSError as error:
            why = error.strerror or str(error)
    tried = f"port {ports[0]}" if len(ports) == 1 else f"ports {ports[0]} to {ports[-1]}"
    raise Misconfigured(
        f"the web server cannot listen on {address.host}, {tried}: {why}. Choose another: {address.how}"
    )


def _bound(address: WebAddress, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # With the protocol named, asyncio sends at once: else an answer's body waits 40 ms for a word about its head.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address.host.strip("[]"), port))
        listener.listen(2048)
    except OSError:
        listener.close()
        raise
    return listener
