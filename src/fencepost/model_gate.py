"""The model gate's own program: one process per user and host, outside of every run's tree, that outlives workers.

Guards tell it, on a private socket, until when their runs' leases may be trusted. A guard that falls silent is taken at its last
word; one whose connection ends is gone, and so is its run's pass. It keeps no log: nothing of a prompt is ever written down.
"""

import asyncio
import json
import os
import socket
import sys
from contextlib import suppress
from typing import Any

from fencepost.gates.model.passes import Pass, Passes, Terms
from fencepost.gates.model.prices import listed_prices
from fencepost.host.clock import SystemClock
from fencepost.host.life_lock import try_life_lock
from fencepost.host.unreadable_process import become_unreadable
from fencepost.service.model_gate_client import LAST_PORT_FILE, PORT_FILE, PROTOCOL, SOCKET_FILE

LINE_MAX = 1_048_576
IDLE_SECONDS = 120.0
LOOK_SECONDS = 5.0
MISSING = "the model gate needs more packages: pip install 'fencepost[model]'"


def main(argv: list[str]) -> int:
    """Serve in a folder of the state until there has been nothing to do for a while."""
    folder, prices = argv[0], argv[1] if len(argv) > 1 else ""
    lock = try_life_lock(os.path.join(folder, "lock"), str(os.getpid()))
    if lock is None:
        return 0  # another one is there already
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, PORT_FILE))  # of one that was killed: we do not listen yet
    become_unreadable()
    try:
        import uvicorn

        from fencepost.gates.model.app import ModelGate
    except ImportError:
        sys.stderr.write(f"{MISSING}\n")
        return 78
    listener = _listen(os.path.join(folder, LAST_PORT_FILE))
    port = int(listener.getsockname()[1])
    hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))
    passes = Passes(SystemClock())
    gate = ModelGate(passes, listed_prices(prices), hosts)
    config = uvicorn.Config(
        gate.app,
        log_config=None,
        access_log=False,
        lifespan="off",
        http="h11",
        ws="none",
        server_header=False,
        date_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
    )
    asyncio.run(_serve(uvicorn.Server(config), listener, Desk(passes, port), folder))
    return 0


def _listen(last: str) -> socket.socket:
    """Listen where the last gate did, for agents that it died under; elsewhere, if that is taken."""
    try:
        with open(last, encoding="ascii") as file:
            known = int(file.read())
    except (OSError, ValueError):
        known = 0
    try:
        listener = _listener(known)
    except OSError:
        listener = _listener(0)
    _write(last, str(listener.getsockname()[1]))
    return listener


def _listener(port: int) -> socket.socket:
    # With the protocol named, asyncio switches Nagle's algorithm off: it would hold back the first byte for 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the killed one's connections linger
        listener.bind(("127.0.0.1", port))
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


async def _serve(server: Any, listener: socket.socket, desk: "Desk", folder: str) -> None:  # noqa: ANN401  # uvicorn's
    path = os.path.join(folder, SOCKET_FILE)
    with suppress(FileNotFoundError):
        os.unlink(path)
    control = await asyncio.start_unix_server(desk.meet, path, limit=LINE_MAX)
    _write(os.path.join(folder, PORT_FILE), str(desk.port))
    leaving = asyncio.create_task(_leave_when_idle(server, desk))
    try:
        await server.serve(sockets=[listener])
    finally:
        leaving.cancel()
        control.close()
        for name in (SOCKET_FILE, PORT_FILE):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))


async def _leave_when_idle(server: Any, desk: "Desk") -> None:  # noqa: ANN401  # uvicorn's
    idle = 0.0
    while idle < IDLE_SECONDS:
        await asyncio.sleep(LOOK_SECONDS)
        idle = 0.0 if desk.is_busy else idle + LOOK_SECONDS
    server.should_exit = True


class Desk:
    """Where workers and guards speak with the gate: one JSON object per line."""

    def __init__(self, passes: Passes, port: int) -> None:
        self._passes = passes
        self._guests = 0
        self.port = port

    @property
    def is_busy(self) -> bool:
        """Whether there is a run that may come."""
        return bool(len(self._passes) or self._guests)

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hear one of them out; the pass that it keeps ends with its connection."""
        kept: Pass | None = None
        self._guests += 1
        try:
            while line := await reader.readline():
                message = json.loads(line)
                if "open" in message:
                    terms, keeper = Terms(**message["terms"]), str(message.get("keeper", ""))
                    opened = self._passes.open(str(message["open"]), terms, keeper)
                    _say(writer, {"opened": opened, "port": self.port if opened else 0, "protocol": PROTOCOL})
                if "keep" in message:
                    kept = self._passes.find_kept(str(message["keep"]), str(message.get("keeper", "")))
                if kept is not None:
                    self._hear(message, kept, writer)
        except (ValueError, OSError, KeyError, TypeError):
            pass  # a stranger, or a guard that was killed in the middle of a word
        finally:
            self._guests -= 1
            if kept is not None:
                self._passes.remove(kept)
            writer.close()

    def _hear(self, message: dict[str, Any], kept: Pass, writer: asyncio.StreamWriter) -> None:
        if "deadline_ns" in message:
            kept.extend(int(message["deadline_ns"]))
        if "close" in message:
            kept.close()
        if "keep" in message:
            kept.tell = lambda told: _say(writer, told)
            _say(writer, {"kept": True})


def _say(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    if not writer.is_closing():
        writer.write(json.dumps(message).encode() + b"\n")


def _write(path: str, text: str) -> None:
    draft = f"{path}.{os.getpid()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(text)
    os.replace(draft, path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
