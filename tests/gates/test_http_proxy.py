"""The fencing proxy: what it refuses to hand on, what it hands on unchanged, and what a doubt does to the next run."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from fencepost.gates.http.gate import HttpGate
from fencepost.gates.http.request import parse_head
from fencepost.host.secrets import own_secret
from fencepost.model.errors import GateUnreachable, Invalid
from fencepost.model.gate import Proof
from fencepost.model.target import parse_target
from tests.support.scratch import free_port
from tests.support.services import GATE_KEY, Report, asgi_app, asgi_served, proxy_before, wsgi_app, wsgi_served

FENCED = {"Fencepost-Fence": "5", "Fencepost-Resource": "lock:z"}
HEAD = b"PUT /report HTTP/1.1\r\nHost: x\r\nFencepost-Fence: 5\r\nFencepost-Resource: lock:z\r\n"


def proof(fence: int) -> Proof:
    return Proof("default", ("lock:z",), fence, None, "host-1", "")


def raise_at(url: str, fence: int) -> None:
    HttpGate(parse_target(f"http:{url}#key=env:GATE_KEY"), fetch=own_secret).raise_fence(proof(fence))


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_KEY", GATE_KEY)


@pytest.fixture
def report() -> Report:
    return Report()


@pytest.fixture
def proxy(report: Report, tmp_path: Path) -> Iterator[str]:
    with wsgi_served(wsgi_app(report)) as upstream, proxy_before(upstream, tmp_path) as url:
        raise_at(url, 5)
        yield url


def raw(url: str, request: bytes) -> bytes:
    """Send bytes as they are, and return all that comes back."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        answer = b""
        while data := client.recv(65_536):
            answer += data
    return answer


@pytest.mark.parametrize(
    "request_bytes",
    [
        HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\ntext",
        HEAD + b"Content-Length: 4, 4\r\n\r\ntext",
        HEAD + b"Content-Length: +4\r\n\r\ntext",
        HEAD + b"Content-Length: 0x4\r\n\r\ntext",
        HEAD + b"X-Folded: a\r\n b\r\nContent-Length: 4\r\n\r\ntext",
        HEAD + b"Fencepost-Fence: 9\r\nContent-Length: 4\r\n\r\ntext",
        HEAD.replace(b"\r\nHost", b"\nHost") + b"Content-Length: 4\r\n\r\ntext",
        HEAD.replace(b"Host: x\r\n", b"") + b"Content-Length: 4\r\n\r\ntext",
        HEAD.replace(b"/report", b"http://other/report") + b"Content-Length: 4\r\n\r\ntext",
        HEAD.replace(b"/report", b"/a/../report") + b"Content-Length: 4\r\n\r\ntext",
        HEAD.replace(b"/report", b"/a/%252e%252e/report") + b"Content-Length: 4\r\n\r\ntext",
        HEAD.replace(b"/report", b"//report") + b"Content-Length: 4\r\n\r\ntext",
        HEAD.replace(b"/report", b"/public/..;/report") + b"Content-Length: 4\r\n\r\ntext",
        HEAD.replace(b"/report", b"/public/..;a=b/report") + b"Content-Length: 4\r\n\r\ntext",
        HEAD.replace(b"/report", b"/public/%2e%2e%3b/report") + b"Content-Length: 4\r\n\r\ntext",
        HEAD.replace(b"/report", b"/public/.;/report") + b"Content-Length: 4\r\n\r\ntext",
        HEAD.replace(b"/report", b"/;/report") + b"Content-Length: 4\r\n\r\ntext",
        HEAD.replace(b"/report", b"/public/%c0%ae%c0%ae/report") + b"Content-Length: 4\r\n\r\ntext",
        HEAD.replace(b"/report", b"/public/%ef%bc%8e%ef%bc%8e/report") + b"Content-Length: 4\r\n\r\ntext",
        HEAD + b"Fencepost_Fence: 9\r\nContent-Length: 4\r\n\r\ntext",
        HEAD.replace(b"Fencepost-Fence", b"Fencepost_Fence") + b"Content-Length: 4\r\n\r\ntext",
        HEAD + b"Fencepost-Store_Id: B\r\nContent-Length: 4\r\n\r\ntext",
        HEAD + b"Content-Length: 4\r\nTransfer_Encoding: chunked\r\n\r\ntext",
        HEAD + b"Content_Length: 0\r\nContent-Length: 4\r\n\r\ntext",
        HEAD + b"X_HTTP_Method_Override: DELETE\r\nContent-Length: 4\r\n\r\ntext",
        HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Content-Length: 4\r\n\r\ntext",
        HEAD.replace(b"PUT /report", b"CONNECT other:443") + b"\r\n",
        HEAD + b"X: \x00\r\nContent-Length: 4\r\n\r\ntext",
    ],
)
def test_what_two_servers_could_read_in_two_ways_is_handed_to_nobody(
    proxy: str, report: Report, request_bytes: bytes
) -> None:
    assert raw(proxy, request_bytes).startswith(b"HTTP/1.1 400 ")
    assert report.seen == []


def test_a_path_with_parameters_and_a_name_with_an_underscore_pass_where_they_mean_what_they_say(
    proxy: str, report: Report
) -> None:
    head = HEAD.replace(b"/report", b"/report;v=1/x.y;z") + b"X_Trace_Id: 7\r\nContent-Length: 4\r\n\r\ntext"

    assert raw(proxy, head).startswith(b"HTTP/1.1 200 ")
    assert (report.text, report.seen[0]["x-trace-id"]) == (b"text", "7")


def test_what_follows_a_request_on_its_connection_is_never_a_second_one(proxy: str, report: Report) -> None:
    smuggled = HEAD + b"Content-Length: 4\r\n\r\nlate"

    answer = raw(proxy, HEAD + b"Content-Length: 4\r\n\r\ntext" + smuggled)

    assert answer.count(b"HTTP/1.1 ") == 1
    assert (len(report.seen), report.text) == (1, b"text")


def test_the_service_sees_the_fence_that_was_compared_and_nothing_about_the_connection(
    proxy: str, report: Report
) -> None:
    named = {
        **FENCED,
        "Connection": "close, X-Secret",
        "X-Secret": "1",
        "Keep-Alive": "5",
        "Fencepost-Other": "1",
        "X-Kept": "1",
    }
    assert httpx.put(f"{proxy}/report", content="text", headers=named).status_code == 200

    [seen] = report.seen
    assert (seen["fencepost-fence"], seen["fencepost-resource"], seen["x-kept"]) == ("5", "lock:z", "1")
    assert not {"x-secret", "keep-alive", "fencepost-other", "transfer-encoding"} & seen.keys()


def test_a_request_cannot_become_another_one_behind_the_proxy(proxy: str, report: Report) -> None:
    named = {**FENCED, "X-HTTP-Method-Override": "DELETE", "X-HTTP-Method": "DELETE", "X-Method-Override": "DELETE"}
    assert httpx.put(f"{proxy}/report", content="text", headers=named).status_code == 200

    [seen] = report.seen
    assert not [name for name in seen if "method" in name]


def test_bodies_stream_both_ways_in_chunks(tmp_path: Path) -> None:
    report, size = Report(), 5_000_000
    with asgi_served(asgi_app(report)) as upstream, proxy_before(upstream, tmp_path) as url:
        raise_at(url, 5)
        chunks = (b"x" * 100_000 for _ in range(size // 100_000))
        assert httpx.put(f"{url}/report", content=chunks, headers=FENCED, timeout=30).status_code == 200
        got = httpx.get(f"{url}/report", timeout=30)

    assert (len(report.text or b""), len(got.content)) == (size, size)


def test_only_what_is_allowed_passes(report: Report, tmp_path: Path) -> None:
    allow = (("PUT", "/report"), ("GET", "/public/*"))
    with wsgi_served(wsgi_app(report)) as upstream, proxy_before(upstream, tmp_path, allow=allow, body_max=10) as url:
        raise_at(url, 5)
        codes = [
            httpx.put(f"{url}/report", content="text", headers=FENCED).status_code,
            httpx.put(f"{url}/admin", content="text", headers=FENCED).status_code,
            httpx.get(f"{url}/report").status_code,
            httpx.get(f"{url}/public/x").status_code,
            httpx.put(f"{url}/report", content="x" * 11, headers=FENCED).status_code,
        ]

    assert codes == [200, 403, 403, 200, 413]


def test_a_service_that_is_away_leaves_no_doubt(tmp_path: Path) -> None:
    with proxy_before(f"http://127.0.0.1:{free_port()}", tmp_path) as url:
        raise_at(url, 5)
        assert httpx.put(f"{url}/report", content="text", headers=FENCED).status_code == 503

        raise_at(url, 6)


@contextmanager
def mute_service(*, answer: bytes) -> Iterator[str]:
    """A service that takes a request, says this much, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client:
                client.recv(65_536)
                client.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"])
def test_an_unknown_outcome_closes_the_resource_for_its_time(tmp_path: Path, answer: bytes) -> None:
    rules = {"deadline_seconds": 2.0, "closed_seconds": 1.0}
    with mute_service(answer=answer) as upstream, proxy_before(upstream, tmp_path, **rules) as url:
        raise_at(url, 5)
        said = raw(url, HEAD + b"Content-Length: 4\r\n\r\ntext")
        assert said.startswith(b"HTTP/1.1 504" if not answer else b"HTTP/1.1 200")

        with pytest.raises(GateUnreachable, match="it is not known whether"):
            raise_at(url, 6)
        for _ in range(60):
            try:
                raise_at(url, 6)
            except GateUnreachable:
                threading.Event().wait(0.1)
            else:
                return
    pytest.fail("it never opened again")


def test_the_command_serves_on_loopback_and_finishes_when_asked(report: Report, tmp_path: Path) -> None:
    with wsgi_served(wsgi_app(report)) as upstream:
        words = ["gate", "proxy", "--upstream", upstream, "--marks", str(tmp_path / "f"), "--key", "env:GATE_KEY"]
        process = subprocess.Popen(
            [sys.executable, "-m", "fencepost", *words, "--listen", ":0"], stderr=subprocess.PIPE, text=True
        )
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            found = re.search(r"at (127\.0\.0\.1:\d+)$", said.strip())
            assert found, said
            raise_at(f"http://{found[1]}", 5)
            assert httpx.put(f"http://{found[1]}/report", content="text", headers=FENCED).status_code == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()
            process.communicate()
    assert report.text == b"text"


def test_inside_of_a_run_there_is_no_proxy() -> None:
    words = ["gate", "proxy", "--upstream", "http://127.0.0.1:1", "--marks", "f", "--key", "env:GATE_KEY"]
    ran = subprocess.run(
        [sys.executable, "-m", "fencepost", *words],
        env={**os.environ, "FENCEPOST_RUN_ID": "r"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ran.returncode, "start it outside" in ran.stderr) == (78, True)


def test_a_plain_request_is_read_as_it_is() -> None:
    head = parse_head(b"POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nX-Y:  z \r\n\r\n")

    assert (head.method, head.target, head.path, head.length) == ("POST", "/a?b=c", "/a", 3)
    assert head.by_name["x-y"] == "z"
    with pytest.raises(Invalid):
        parse_head(b"POST /a HTTP/1.1\r\nHost: x\r\n")
