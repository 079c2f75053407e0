"""How workers and guards reach the model gate: start it, open a pass for a run, and keep it open as long as the lease holds."""

import json
import os
import subprocess
from _socket import AF_UNIX, SOCK_STREAM, socket
from collections.abc import Mapping
from typing import Any

from fencepost.host.life_lock import is_life_over
from fencepost.model.errors import GateUnreachable
from fencepost.model.fast_typing import NamedTuple
from fencepost.model.own_program import own_program
from fencepost.ports.clock import Clock
from fencepost.service.channel import Channel

PROTOCOL = 1
PORT_FILE, SOCKET_FILE, TROUBLE_FILE = "port", "socket", "trouble"
LAST_PORT_FILE = "last_port"  # which running agents know, if the gate was killed under them
PAUSE_SECONDS = 2.0  # between two tries to start it
ANSWER_SECONDS = 10.0
KEEP_SECONDS = 2.0  # a guard has other things to look after
# What a program of ours needs to reach a provider: none of the worker's secrets.
HANDED_ON = (
    "PATH",
    "HOME",
    "LANG",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTPS_PROXY",
    "https_proxy",
    "NO_PROXY",
    "no_proxy",
)
ALSO = ("PYTHONPATH", "PYTHONUSERBASE")


class ModelOrder(NamedTuple):
    """What a guard needs to keep the pass of its run."""

    folder: str  # of the gate
    port: int
    shown: str  # the key that the agent gets
    terms: dict[str, Any]
    keeper: str = ""  # what its guard alone knows

    def on(self, *, counts_sleep: bool) -> "ModelOrder":
        """Return the order with the clock of the lease's store, which only its holder knows."""
        return self._replace(terms={**self.terms, "counts_sleep": counts_sleep})

    @property
    def socket(self) -> str:
        """Where the gate listens to guards."""
        return os.path.join(self.folder, SOCKET_FILE)


class ModelGateStarter:
    """The worker's view: is the gate there, and where."""

    def __init__(self, folder: str, prices: str, clock: Clock) -> None:
        self.folder = folder
        self._prices = prices
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._next_ns = 0
        self.trouble = ""  # why it could not be started, if it could not

    def port(self) -> int | None:
        """Return the gate's port; None while it starts: then ask again a little later."""
        try:
            with open(os.path.join(self.folder, PORT_FILE), encoding="ascii") as file:
                port = int(file.read())
        except (OSError, ValueError):
            port = 0
        if port and not is_life_over(os.path.join(self.folder, "lock")):
            self.trouble = ""
            return port
        self._start()
        return None

    def _start(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            self.trouble = self._words() if self._process.returncode > 0 else ""  # not where it was killed
            self._process = None
        if self._process is not None or self._clock.awake_ns() < self._next_ns:
            return
        self._next_ns = self._clock.awake_ns() + round(PAUSE_SECONDS * 1e9)
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        with open(os.path.join(self.folder, TROUBLE_FILE), "wb") as trouble:
            self._process = subprocess.Popen(
                [*own_program("fencepost.model_gate"), self.folder, self._prices],
                env=_handed_on(os.environ),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=trouble,
                start_new_session=True,  # it outlives us, as guards do
            )

    def _words(self) -> str:
        try:
            with open(os.path.join(self.folder, TROUBLE_FILE), encoding="utf-8", errors="replace") as file:
                lines = file.read().strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "the model gate does not start."


def open_pass(order: ModelOrder) -> None:
    """Have the gate make a pass, or raise GateUnreachable; it opens with the guard's first deadline."""
    connection = socket(AF_UNIX, SOCK_STREAM)
    try:
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(order.socket)
        connection.sendall(
            json.dumps({"open": order.shown, "keeper": order.keeper, "terms": order.terms}).encode() + b"\n"
        )
        answer = json.loads(connection.recv(4096) or b"{}")
    except (OSError, ValueError) as error:
        raise GateUnreachable(f"the model gate does not answer: {error}") from None
    finally:
        connection.close()
    if answer.get("port") != order.port:
        raise GateUnreachable("the model gate was started anew meanwhile.")


def keep_pass(order: ModelOrder, deadline_ns: int) -> Channel | None:
    """Become the keeper of a pass, and open it until a deadline; None if the gate is gone or knows of no such pass."""
    connection = socket(AF_UNIX, SOCK_STREAM)
    try:
        connection.settimeout(KEEP_SECONDS)
        connection.connect(order.socket)
        said = {"keep": order.shown, "keeper": order.keeper, "deadline_ns": deadline_ns}
        connection.sendall(json.dumps(said).encode() + b"\n")
        if json.loads(connection.recv(4096) or b"{}").get("kept"):
            return Channel(connection)
    except (OSError, ValueError):
        pass  # it is gone, and the run is tried again later
    connection.close()
    return None


def _handed_on(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in (*HANDED_ON, *ALSO) if name in environ}
