"""Programs on a machine of their own, as far as Linux can make one: processes, name and network are not ours.

The only way out of such a network is a listener that the program makes inside and hands to us; what comes in there is
passed on to the server of the same port on our own loopback.
"""

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path
from threading import Thread

NAMESPACES = ("--pid", "--uts", "--net", "--mount-proc", "--fork", "--kill-child")
AS_ROOT = () if os.geteuid() == 0 else ("--user", "--map-root-user")
SIOCSIFFLAGS, UP = 0x8914, 0x41
CHUNK = 65_536


class Apart:
    """One machine with a program in it."""

    def __init__(
        self, module: str, *words: str, name: str, port: int | None, env: Mapping[str, str], log: Path
    ) -> None:
        ours, theirs = socket.socketpair()
        inside = [sys.executable, "-m", module, name, str(theirs.fileno()), str(port or 0), *words]
        with log.open("ab") as said, theirs:
            self.process = subprocess.Popen(
                ["unshare", *AS_ROOT, *NAMESPACES, *inside],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._way: Way | None = None
        with ours:
            _, descriptors, _, _ = socket.recv_fds(ours, 1, 1) if port else (b"", [], 0, None)
        if port:
            assert descriptors, log.read_text()
            self._way = Way(socket.socket(fileno=descriptors[0]), port)

    def close(self) -> None:
        """Switch it off."""
        self.process.kill()
        self.process.wait(30)
        if self._way:
            self._way.close()


class Way:
    """Passes on what comes to a listener inside of a machine, to a port of ours."""

    def __init__(self, listener: socket.socket, port: int) -> None:
        self._listener = listener
        self._port = port
        self._threads = [Thread(target=self._serve)]
        self._threads[0].start()

    def close(self) -> None:
        """End it; the connections end with the machine."""
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(30)
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                inside, _ = self._listener.accept()
                thread = Thread(target=self._carry, args=(inside,))
                thread.start()
                self._threads = [one for one in self._threads if one.is_alive()] + [thread]

    def _carry(self, inside: socket.socket) -> None:
        with inside, suppress(OSError), socket.create_connection(("127.0.0.1", self._port)) as outside:
            back = Thread(target=_pass_on, args=(outside, inside))
            back.start()
            _pass_on(inside, outside)
            back.join()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(CHUNK):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def enter(name: str, descriptor: int, port: int) -> None:
    """Be that machine, inside of it: take its name, and make the way out."""
    socket.sethostname(name)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as some:
        ioctl(some, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", UP))
    if port:
        with socket.socket(fileno=descriptor) as line, socket.create_server(("127.0.0.1", port)) as listener:
            socket.send_fds(line, [b"!"], [listener.fileno()])
    else:
        os.close(descriptor)
