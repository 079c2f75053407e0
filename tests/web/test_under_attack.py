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
from tests.support.sender import SECRET
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


HOOK = "POST /hooks/default/push HTTP/1.1\r\nHost: HOST\r\n"
LOOK = "GET /healthz HTTP/1.1\r\nHost: HOST\r\n"
TWO_WAYS = {  # what two servers could read in two ways, so that a second request hides in the first
    "a length and chunks": HOOK + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": HOOK + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nab",
    "one length twice": HOOK + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nab",
    "lengths in a list": HOOK + "Content-Length: 2, 2\r\n\r\nab",
    "a signed length": HOOK + "Content-Length: +2\r\n\r\nab",
    "chunks twice": HOOK + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks that are not last": HOOK + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "an unknown encoding": HOOK + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a chunk without a size": HOOK + "Transfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n0\r\n\r\n",
    "a chunk's bare line feed": HOOK + "Transfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n",
    "a bare line feed": LOOK.replace("HOST\r\n", "HOST\n") + "X-A: b\r\n\r\n",
    "a bare carriage return": LOOK + "X-A: b\rX-C: d\r\n\r\n",
    "a folded header": LOOK + "X-A: b\r\n c\r\n\r\n",
    "a space before the colon": LOOK + "X-A : b\r\n\r\n",
    "a head without its end": LOOK + "\rX",
    "a NUL": LOOK + "X-A: b\0c\r\n\r\n",
    "a host in the address": LOOK.replace("/healthz", "http://elsewhere/healthz") + "\r\n",
    "a tunnel": "CONNECT elsewhere:80 HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "another version": LOOK.replace("1.1", "9.9") + "\r\n",
}


def told(port: int, text: str) -> bytes:
    """Send something and return all that is said until the server has closed the connection."""
    with socket.create_connection(("127.0.0.1", port)) as one:
        one.settimeout(30)
        one.sendall(text.replace("HOST", f"127.0.0.1:{port}").encode())
        answer = b""
        while part := one.recv(10_000):
            answer += part
    return answer


def test_what_can_be_read_in_two_ways_is_refused_and_nothing_after_it_is_read(site: Site) -> None:
    site.configure(CONFIG)
    site.up("--port", "0", command="web")
    port, _ = greeted(site)
    for name, text in TWO_WAYS.items():
        answer = told(port, text + LOOK + "\r\n")
        assert answer.startswith(b"HTTP/1.1 400 "), (name, answer)
        assert answer.count(b"HTTP/1.1 ") == 1, (name, answer)


def test_nothing_is_taken_for_the_answer_to_the_request_before_it(site: Site) -> None:
    site.configure(CONFIG)
    site.up("--port", "0", command="web")
    port, _ = greeted(site)
    whole = HOOK + "Content-Length: 2\r\n\r\nab"

    assert told(port, whole + "no request") == b""
    switched = told(port, LOOK + "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + LOOK + "\r\n")
    assert switched.startswith(b"HTTP/1.1 200 ")
    assert switched.count(b"HTTP/1.1 ") == 1, "what follows may be in another language"


def test_a_trailer_is_no_header(tmp_path: Path) -> None:
    site = Site(tmp_path)
    try:
        (tmp_path / "secret").write_text(SECRET)
        (tmp_path / "secret").chmod(0o600)
        site.configure(CONFIG.replace("github", "bearer").replace("env:HOOK_SECRET", f"file:{tmp_path}/secret"))
        site.up("--port", "0", command="web")
        port, _ = greeted(site)
        shown = f"Authorization: Bearer {SECRET}\r\n"
        head = HOOK + "Connection: close\r\nTransfer-Encoding: chunked\r\n"
        assert told(port, f"{head}\r\n2\r\n{{}}\r\n0\r\n{shown}\r\n").startswith(b"HTTP/1.1 401 ")
        assert told(port, f"{head}{shown}\r\n2\r\n{{}}\r\n0\r\n\r\n").startswith(b"HTTP/1.1 202 ")
    finally:
        site.close()


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
