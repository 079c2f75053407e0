"""Serves the application: a port that is free, deadlines that uvicorn lacks, and an end with the parent."""

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from fencepost import wiring
from fencepost.model.errors import Misconfigured, StoreUnavailable
from fencepost.operations.keys import create_link
from fencepost.operations.looking import Store
from fencepost.operations.words import plain
from fencepost.web.app import create_app
from fencepost.web.desk import Desk
from fencepost.web.door import Door

PORT = 7420
PORTS_TRIED = 20
HEAD_SECONDS = 10.0
HEAD_BYTES_MAX = 16_384
CONNECTIONS_MAX = 1_000
PER_ADDRESS_MAX = 600
PARENT_SECONDS = 0.5
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Address(NamedTuple):
    """Where to listen, and by which other names the door is reached."""

    host: str = "127.0.0.1"
    port: int | None = None  # None: 7420, or the next that is free
    names: tuple[str, ...] = ()


class Protocol(H11Protocol):
    """A connection whose request line and headers come in time, or which is closed."""

    _head: asyncio.TimerHandle | None = None
    _address = ""
    _by_address: ClassVar[Counter[str]] = Counter()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request; whoever has too many connections gets no further one."""
        super().connection_made(transport)
        self._address = str((transport.get_extra_info("peername") or ("",))[0])
        self._by_address[self._address] += 1
        if self._by_address[self._address] > PER_ADDRESS_MAX:
            transport.close()
        else:
            self._await_head()

    def data_received(self, data: bytes) -> None:
        """Take what came; a head that comes byte by byte does not move its deadline."""
        super().data_received(data)
        if self._is_busy():
            self._stop_waiting()
        else:
            self._await_head()

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


def serve(url: str, tenant: str, address: Address, *, parent: int | None = None) -> int:
    """Serve until asked to stop, or until the parent is gone."""
    listener = _listen(address)
    port = int(listener.getsockname()[1])

    def open_store() -> Store:
        return wiring.open_runtime(url)

    def is_leaving() -> bool:
        return server.should_exit

    door = Door(
        Desk(open_store),
        wiring.new_run_id,
        wiring.log_folder(),
        wiring.now_us,
        wiring.fetch_secret,
        open_store,
        is_leaving=is_leaving,
        allowed=wiring.tenant_rights,
    )
    _hear_others()
    app = create_app(door, hosts=names_of(address, port), tell=wiring.say)
    _greet(url, tenant, f"http://{_spelled(address.host)}:{port}")
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http=Protocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=CONNECTIONS_MAX,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=5,
        )
    )
    asyncio.run(_serve(server, listener, parent))
    return 0


def names_of(address: Address, port: int) -> frozenset[str]:
    """Return the exact Host headers that this server answers to."""
    own = [f"{name}:{port}" for name in (_spelled(address.host), *LOOPBACK)]
    return frozenset(name.lower() for name in (*own, *address.names))


def _spelled(host: str) -> str:
    """Spell an address as it stands in a URL."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


class _Saying(logging.Handler):
    """Tells what the libraries have to say the way that we tell things: on lines that nobody else can begin."""

    def emit(self, record: logging.LogRecord) -> None:
        """Tell one of them."""
        lines = self.format(record).splitlines() or [""]
        wiring.say("\n".join([f"warning: web: {plain(lines[0])}", *(f"  {plain(line)}" for line in lines[1:])]))


def _hear_others() -> None:
    logging.basicConfig(level=logging.WARNING, handlers=[_Saying()], format="%(name)s: %(message)s", force=True)


async def _serve(server: uvicorn.Server, listener: socket.socket, parent: int | None) -> None:
    watch = asyncio.create_task(_watch(server, parent, os.getppid)) if parent is not None else None
    try:
        await server.serve(sockets=[listener])
    finally:
        if watch is not None:
            watch.cancel()


async def _watch(server: uvicorn.Server, parent: int, parent_now: Callable[[], int]) -> None:
    """End with the process that started us, however it ended."""
    while parent_now() == parent:  # noqa: ASYNC110  # nobody tells us; we have to look
        await asyncio.sleep(PARENT_SECONDS)
    server.should_exit = True


def _listen(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    ports = [address.port] if address.port is not None else range(PORT, PORT + PORTS_TRIED)
    why = ""
    for port in ports:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address.host.strip("[]"), port))
            listener.listen(2048)
        except OSError as error:
            listener.close()
            why = error.strerror or str(error)
        else:
            return listener
    tried = f"port {ports[0]}" if len(ports) == 1 else f"ports {ports[0]} to {ports[-1]}"
    raise Misconfigured(f"the web server cannot listen on {address.host}, {tried}: {why}. Choose another: --port P")


def _greet(url: str, tenant: str, where: str) -> None:
    """Say where the door is, with a link that lets one browser in."""
    try:
        store = wiring.open_runtime(url)
    except StoreUnavailable as error:
        wiring.say(f"web: {where}. The store is out of reach ({error}); later: fencepost key link")
        return
    try:
        made = create_link(store.keys(), tenant=tenant, by="web")
    finally:
        store.close()
    wiring.say(f"web: log in within the hour, once: {where}/login?link={made.secret.text}")
