"""The server as a process, before clients that are slow, greedy or many, and a store that swallows what it is told."""

import resource
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen

import httpx
import pytest

from tests.support.proxy import FaultyProxy, Pass, Silence
from tests.support.site import Site, greeted

SLOW, HEAVY = 500, 60
MEBIBYTE = 1_048_576
CONFIG = """
[agents.a]
command = ["true"]
[hooks.push]
agent = "a"
scheme = "github"
secret = "env:HOOK_SECRET"
"""


@pytest.fixture(autouse=True)
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4_096 if hard == resource.RLIM_INFINITY else min(4_096, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def memory_kib(process: Popen[bytes]) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def is_cut_off(connection: socket.socket) -> bool:
    try:
        return connection.recv(100) == b""
    except ConnectionResetError:
        return True


def send_most(port: int, one: socket.socket) -> bytes:
    """Send all of a large body but its last byte, and return what is said about it."""
    head = f"POST /hooks/default/push HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {MEBIBYTE}\r\n\r\n"
    one.settimeout(30)
    try:
        one.sendall(head.encode() + b"x" * (MEBIBYTE - 1))
        return one.recv(100)
    except OSError:
        return b"cut off"


def test_slow_and_heavy_clients_are_cut_off_within_bounds_and_others_served_meanwhile(site: Site) -> None:
    """F61, F64, W-3."""
    site.configure(CONFIG)
    server = site.up("--port", "0", command="web")
    port, _ = greeted(site)
    assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
    before = memory_kib(server)
    with ExitStack() as stack, ThreadPoolExecutor(HEAVY) as threads:
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(SLOW)]
        for one in slow:
            one.settimeout(30)
            one.sendall(b"POST /hooks/default/push HTTP/1.1\r\nHo")
        assert memory_kib(server) - before < 32 * 1024
        heavy = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(HEAVY)]
        sending = [threads.submit(send_most, port, one) for one in heavy]
        for _ in range(20):
            assert httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=10).status_code == 200
        for one in slow[:100]:
            one.sendall(b"s")  # a byte now and then does not move the deadline
        answers = [one.result() for one in sending]
        assert memory_kib(server) - before < 64 * 1024, "not so many megabytes as were sent"
        assert all(is_cut_off(one) for one in slow)
    told = [one for one in answers if b" 503 " in one or one == b"cut off"]
    late = [one for one in answers if b" 408 " in one]
    assert told, answers
    assert late, "those that were let in are cut off after ten seconds"
    assert len(told) + len(late) == len(answers), answers
    announced = httpx.post(f"http://127.0.0.1:{port}/hooks/default/push", content=b"x" * (2 * MEBIBYTE))
    assert announced.status_code == 413


def test_a_body_whose_length_is_said_in_two_ways_is_refused_and_nothing_after_it_is_read(site: Site) -> None:
    site.configure(CONFIG)
    site.up("--port", "0", command="web")
    port, _ = greeted(site)
    smuggled = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
    head = f"POST /login HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port)) as one:
        one.settimeout(30)
        one.sendall((head + "0\r\n\r\n" + smuggled).encode())
        answer = b""
        while part := one.recv(10_000):
            answer += part
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1, answer


def test_one_address_does_not_take_all_connections(site: Site) -> None:
    site.configure(CONFIG)
    site.up("--port", "0", command="web")
    port, _ = greeted(site)
    with ExitStack() as stack:
        crowd = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(700)]
        crowd[-1].settimeout(30)
        assert is_cut_off(crowd[-1])
        elsewhere = stack.enter_context(socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0)))
        elsewhere.settimeout(30)
        elsewhere.sendall(f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        assert b"200" in elsewhere.recv(100)


def test_a_store_that_swallows_everything_is_a_503_and_not_a_hang(tmp_path: Path, faulty_proxy: FaultyProxy) -> None:
    """T-1, F46."""
    site = Site(tmp_path, faulty_proxy.url)
    try:
        site.configure(CONFIG)
        key = site.fencepost("key", "create", "k").strip()
        site.up("--port", "0", command="web")
        port, _ = greeted(site)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            shown = {"Authorization": f"Bearer {key}"}
            assert client.get("/api/v1/runs", headers=shown).status_code == 200
            faulty_proxy.switch(Silence())
            start = time.monotonic()  # noqa: TID251  # how long a caller waits is the point
            answer = client.get("/api/v1/runs", headers=shown)
            waited = time.monotonic() - start  # noqa: TID251
            assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
            assert waited < 15
            assert client.get("/healthz").status_code == 200, "this asks nobody else"
            faulty_proxy.switch(Pass())
            faulty_proxy.cut_all()
            site.until(lambda: client.get("/api/v1/runs", headers=shown).status_code == 200)
    finally:
        site.close()
