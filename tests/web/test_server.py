"""The server as a process: its port, its link, its deadlines, and its end with the parent."""

import asyncio
import os
import pty
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from fencepost.model.own_program import own_program
from fencepost.web.server import WebAddress, listen
from tests.support.site import LINK, SERVED, Site, greeted


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path)
    found.configure('[agents.a]\ncommand = ["true"]\n')
    yield found
    found.close()


@pytest.mark.parametrize("command", ["web", "up"])
def test_a_link_is_printed_on_a_terminal_alone(site: Site, command: str) -> None:
    ours, theirs = pty.openpty()
    words = [command, "--port", "0", *(["--workers", "0"] if command == "up" else [])]
    with os.fdopen(ours, "rb", 0) as terminal:
        process = subprocess.Popen([*own_program(), *words], cwd=site.folder, env=site.environment(), stderr=theirs)
        os.close(theirs)
        said = b""
        while not LINK.search(said.decode()):
            said += terminal.read(4096)
        process.terminate()
        process.wait(30)

    site.up("--port", "0", command=command, web=True)  # its standard error is a file, as under any manager of services
    greeted(site)
    assert "fpl_" not in site.said()


def test_the_link_that_one_asks_for_lets_a_browser_in(site: Site) -> None:
    site.up("--port", "0", command="web")
    port, secret = greeted(site)

    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as browser:
        assert browser.get("/healthz").json() == {"status": "ok"}
        assert browser.get("/readyz").status_code == 401
        assert browser.post("/login", data={"secret": secret}).status_code == 303
        assert browser.get("/readyz").status_code == 200
        assert "server" not in browser.get("/healthz").headers


def test_headers_without_an_end_are_refused(site: Site) -> None:
    site.up("--port", "0", command="web")
    port, _ = greeted(site)
    with socket.create_connection(("127.0.0.1", port)) as flood:
        flood.settimeout(30)
        flood.sendall(b"GET /healthz HTTP/1.1\r\nX-A: " + b"a" * 40_000)
        assert b"400" in flood.recv(100)


def test_an_answer_is_sent_at_once_and_waits_for_no_word_about_its_head() -> None:
    async def sends_at_once() -> int:
        accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        class Noting(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                served: socket.socket = transport.get_extra_info("socket")
                accepted.set_result(served.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

        listener = listen(WebAddress(port=0), patience=0)
        async with await asyncio.get_running_loop().create_server(Noting, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            found = await accepted
            writer.close()
        return found

    assert asyncio.run(sends_at_once())


def test_a_taken_port_is_said_and_the_default_looks_for_the_next(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert site.up("--port", str(port), command="web").wait(30) == 78
    assert f"port {port}" in site.said()
    assert "--port P" in site.said()


def test_up_serves_the_door_beside_itself_and_takes_it_along_when_it_ends(site: Site) -> None:
    up = site.up("--port", "0", "--workers", "1", web=True)
    port, _ = greeted(site)
    assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200

    up.terminate()
    assert up.wait(30) == 0
    site.until(lambda: is_gone(port))


def test_up_starts_the_door_again_when_it_dies_and_still_ends_with_it(site: Site) -> None:
    up = site.up("--port", "0", "--workers", "0", web=True)
    port, _ = greeted(site)
    (child,) = [one for one in children(up.pid) if "fencepost web" in one[1]]
    os.kill(child[0], signal.SIGKILL)  # noqa: TID251  # our own child's child, by its number

    site.until(lambda: len(SERVED.findall(site.said())) == 2)
    assert "it ended with code -9; it is started again" in site.said()
    again, _ = SERVED.findall(site.said())[-1]
    site.until(lambda: httpx.get(f"http://127.0.0.1:{again}/healthz").status_code == 200)
    up.terminate()
    assert up.wait(30) == 0
    site.until(lambda: is_gone(int(again)))
    assert is_gone(port)


def children(parent: int) -> list[tuple[int, str]]:
    """Return the processes that one has started, with their command lines."""
    table = subprocess.run(["ps", "-eww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in table.splitlines()]
    return [(int(row[0]), row[2]) for row in rows if int(row[1]) == parent]


def test_the_door_does_not_outlive_a_parent_that_was_killed(site: Site) -> None:
    up = site.up("--port", "0", "--workers", "0", web=True)
    port, _ = greeted(site)
    up.kill()
    up.wait(30)

    site.until(lambda: is_gone(port))


def test_the_next_up_has_the_port_of_one_that_was_killed(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    first = site.up("--port", str(port), "--workers", "0", web=True)
    greeted(site)
    (door,) = [pid for pid, line in children(first.pid) if "fencepost web" in line]
    os.kill(door, signal.SIGSTOP)  # noqa: TID251  # our own child's child: it still has the port when the next one asks
    first.kill()
    first.wait(30)

    second = site.up("--port", str(port), "--workers", "0", web=True)
    site.until(lambda: any("fencepost web" in line for _, line in children(second.pid)))
    os.kill(door, signal.SIGCONT)  # noqa: TID251
    site.until(lambda: len(SERVED.findall(site.said())) == 2)

    assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200


def is_gone(port: int) -> bool:
    try:
        httpx.get(f"http://127.0.0.1:{port}/healthz")
    except httpx.TransportError:
        return True
    return False
