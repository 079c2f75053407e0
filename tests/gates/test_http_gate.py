"""The HTTP gate: what a service with the middleware lets in, whom a raise waits for, and who may raise."""

import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from fencepost.gates.http.gate import HttpGate
from fencepost.gates.http.marks import RequestMarks
from fencepost.host.clock import SystemClock
from fencepost.host.secrets import own_secret
from fencepost.integrations.asgi import FenceMiddleware as AsgiMiddleware
from fencepost.integrations.httpx import AsyncFenceTransport, FenceTransport
from fencepost.integrations.wsgi import FenceMiddleware as WsgiMiddleware
from fencepost.model.errors import FenceRefused, GateUnreachable, Invalid, Misconfigured
from fencepost.model.gate import FENCE_MAX
from fencepost.model.target import parse_target
from tests.gates.proofs import proof
from tests.support.scratch import free_port
from tests.support.services import GATE_KEY, Report, asgi_app, asgi_served, wsgi_app, wsgi_served

FENCED = {"Fencepost-Fence": "5", "Fencepost-Resource": "lock:z"}


class Service:
    """A service behind its gate."""

    def __init__(self, url: str, report: Report) -> None:
        self.url = url
        self.report = report
        self.gate = gate_at(url)

    def put(self, text: str = "text", **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()} or FENCED
        return httpx.put(f"{self.url}/report", content=text, headers=named, timeout=30)


def gate_at(url: str) -> HttpGate:
    return HttpGate(parse_target(f"http:{url}#key=env:GATE_KEY"), fetch=own_secret)


@contextmanager
def serving(kind: str, folder: Path) -> Iterator[Service]:
    report = Report()
    settings: dict[str, Any] = {"marks": str(folder / "fences"), "key": GATE_KEY, "wait_seconds": 0.5}
    served: AbstractContextManager[str]
    if kind == "asgi":
        served = asgi_served(AsgiMiddleware(asgi_app(report), **settings))
    else:
        served = wsgi_served(WsgiMiddleware(wsgi_app(report), **settings))
    with served as url:
        yield Service(url, report)


@pytest.fixture(params=["asgi", "wsgi"])
def service(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("GATE_KEY", GATE_KEY)
    with serving(request.param, tmp_path) as made:
        yield made


def test_a_write_without_a_fence_is_told_which_headers_it_needs(service: Service) -> None:
    service.gate.raise_fence(proof(5))

    answer = service.put(Accept="*/*")

    assert (answer.status_code, answer.headers["Fencepost-Refused"]) == (428, "no_fence")
    assert "Fencepost-Fence and Fencepost-Resource" in answer.json()["message"]
    assert service.report.text is None


@pytest.mark.parametrize(
    "fence", ["0", "-1", "5, 9", "5.0", "\N{ARABIC-INDIC DIGIT FIVE}", "9" * 30, str(2**63 - 1), str(FENCE_MAX + 1)]
)
def test_a_broken_fence_is_no_fence(service: Service, fence: str) -> None:
    service.gate.raise_fence(proof(5))

    answer = httpx.put(
        f"{service.url}/report",
        content="x",
        headers=[(b"Fencepost-Fence", fence.encode()), (b"Fencepost-Resource", b"lock:z")],
    )

    assert answer.status_code == 400
    assert service.report.text is None


def test_two_fences_in_one_request_are_refused(service: Service) -> None:
    service.gate.raise_fence(proof(5))
    headers = [("Fencepost-Fence", "4"), ("Fencepost-Fence", "9"), ("Fencepost-Resource", "lock:z")]

    assert httpx.put(f"{service.url}/report", content="x", headers=headers).status_code == 400


def test_a_request_with_two_lengths_is_refused(service: Service) -> None:
    """Servers take one of them; a proxy before them may have taken the other, and reads a second request in the rest."""
    service.gate.raise_fence(proof(5))
    head = "PUT /report HTTP/1.1\r\nHost: x\r\nFencepost-Fence: 5\r\nFencepost-Resource: lock:z\r\n"
    body = "Content-Length: 4\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n4\r\ntext\r\n0\r\n\r\n"
    host, _, port = service.url.removeprefix("http://").partition(":")

    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall((head + body).encode())
        answer = client.recv(65_536)

    assert b" 400 " in answer.splitlines()[0]
    assert service.report.text is None


def test_reading_needs_no_fence(service: Service) -> None:
    service.gate.raise_fence(proof(5))
    service.put("text")

    assert httpx.get(f"{service.url}/report").text == "text"


def test_a_stale_request_gets_409_with_the_sentence_and_does_nothing(service: Service) -> None:
    service.gate.raise_fence(proof(6))

    answer = service.put()

    assert (answer.status_code, answer.headers["Fencepost-Refused"]) == (409, "fence_refused")
    assert "a newer run has started" in answer.json()["message"]
    assert service.report.text is None


def test_before_the_first_raise_nobody_writes(service: Service) -> None:
    assert service.put().status_code == 503
    assert service.report.text is None


@pytest.mark.parametrize(
    "shown",
    [
        {"Fencepost-Fence": "6"},
        {"Fencepost-Fence": str(FENCE_MAX)},
        {"Fencepost-Resource": "lock:invented"},
        {"Fencepost-Resource": "lock:z lock:invented"},
        {"Fencepost-Tenant": "invented"},
    ],
    ids=str,
)
def test_a_request_lifts_no_mark_and_an_invented_name_leaves_no_trace(
    service: Service, tmp_path: Path, shown: dict[str, str]
) -> None:
    service.gate.raise_fence(proof(5))
    before = {path.name: path.read_bytes() for path in (tmp_path / "fences").iterdir()}

    answer = httpx.put(f"{service.url}/report", content="x", headers={**FENCED, **shown})

    assert answer.status_code == 503
    assert "a request does not raise it" in answer.json()["message"]
    assert service.report.text is None
    assert {path.name: path.read_bytes() for path in (tmp_path / "fences").iterdir()} == before
    assert service.put("still mine").status_code == 200


def test_a_raise_waits_for_requests_in_flight_and_later_ones_are_refused_at_once(service: Service) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slowly() -> None:
        inside.set()
        go_on.wait(30)

    service.report.before_write = slowly
    service.gate.raise_fence(proof(5))
    writing = threading.Thread(target=service.put, args=("in flight",))
    writing.start()
    assert inside.wait(30)

    with pytest.raises(GateUnreachable, match="still under way"):
        service.gate.raise_fence(proof(6))
    assert service.put("another").status_code == 409, "the mark is lifted first, so nobody follows"
    service.gate.raise_fence(proof(3, "lock:other"))
    go_on.set()
    writing.join(30)
    service.gate.raise_fence(proof(6))

    assert service.report.text == b"in flight"


def test_a_request_whose_application_fails_is_no_longer_inside(service: Service) -> None:
    def fail() -> None:
        raise RuntimeError("the application is broken")

    service.report.before_write = fail
    service.gate.raise_fence(proof(5))
    assert service.put().status_code == 500

    service.gate.raise_fence(proof(6))


@pytest.mark.parametrize("key", ["", "wrong"])
def test_without_the_key_nobody_raises(service: Service, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    service.gate.raise_fence(proof(5))
    monkeypatch.setenv("GATE_KEY", key or "x")

    for verb in ("raise_fence", "check"):
        with pytest.raises(Misconfigured, match="answered 403"):
            getattr(service.gate, verb)(proof(9))
    with pytest.raises(Misconfigured, match="needs the gate's key"):
        HttpGate(parse_target(f"http:{service.url}"), fetch=own_secret).status()
    assert service.put("still mine").status_code == 200


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"target": "x", "proof": {"fence": "9"}}', b"\xff"])
def test_what_is_no_proof_lifts_no_mark(service: Service, body: bytes) -> None:
    answer = httpx.post(
        f"{service.url}/.fencepost/raise", content=body, headers={"Authorization": f"Bearer {GATE_KEY}"}
    )

    assert answer.status_code == 400
    assert service.gate.status().marks == {}


def test_a_short_key_is_refused_when_the_service_starts(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="at least 16"):
        WsgiMiddleware(wsgi_app(Report()), marks=str(tmp_path), key="short")


def test_a_service_that_is_away_or_is_no_gate_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_KEY", GATE_KEY)
    with pytest.raises(GateUnreachable):
        gate_at(f"http://127.0.0.1:{free_port()}").raise_fence(proof(5))
    with wsgi_served(wsgi_app(Report())) as plain, pytest.raises(Misconfigured, match="Is the middleware"):
        gate_at(plain).raise_fence(proof(5))


def test_a_program_in_a_run_shows_the_fence_of_its_environment(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FENCEPOST_FENCE", "5")
    monkeypatch.setenv("FENCEPOST_RESOURCE", "lock:z")
    service.gate.raise_fence(proof(5)._replace(store=None))

    with httpx.Client(transport=FenceTransport()) as client:
        assert client.put(f"{service.url}/report", content=b"text").status_code == 200
        service.gate.raise_fence(proof(6)._replace(store=None))
        with pytest.raises(FenceRefused, match="a newer run has started"):
            client.put(f"{service.url}/report", content=b"late")

    assert service.report.text == b"text"


def test_an_async_program_is_refused_the_same_way(service: Service) -> None:
    async def write(fence: int) -> int:
        async with httpx.AsyncClient(transport=AsyncFenceTransport(proof(fence))) as client:
            return (await client.put(f"{service.url}/report", content=b"text")).status_code

    service.gate.raise_fence(proof(5))
    assert anyio.run(write, 5) == 200
    service.gate.raise_fence(proof(6))
    with pytest.raises(FenceRefused):
        anyio.run(write, 5)


def test_what_is_under_way_elsewhere_keeps_the_gate_closed_for_its_time_even_after_a_crash(tmp_path: Path) -> None:
    marks = RequestMarks(str(tmp_path), clock=SystemClock(), wait_seconds=0.2)
    marks.raise_fence(proof(5), "here")
    with marks.enter(proof(5), "here") as passage:
        passage.depart(3600)

    again = RequestMarks(str(tmp_path), clock=SystemClock(), wait_seconds=0.2)
    with pytest.raises(GateUnreachable, match="it is not known whether"):
        again.raise_fence(proof(6), "here")
    again.raise_fence(proof(6, "lock:other"), "here")

    passage.arrived()
    again.raise_fence(proof(6), "here")


def test_marks_that_cannot_be_read_let_nobody_pass(tmp_path: Path) -> None:
    marks = RequestMarks(str(tmp_path), clock=SystemClock(), wait_seconds=0.2)
    marks.raise_fence(proof(5), "here")
    (tmp_path / "marks.json").write_text("{")

    for attempt in (marks.enter, marks.raise_fence):
        with pytest.raises(Misconfigured, match="cannot be read"):
            attempt(proof(9), "here")
