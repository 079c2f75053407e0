"""The proxy as a process of its own, killed in the middle of a request: what nobody knows keeps the next run out."""

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from fencepost.gates.http.gate import HttpGate
from fencepost.host.secrets import own_secret
from fencepost.model.errors import FenceRefused, GateUnreachable
from fencepost.model.gate import Proof
from fencepost.model.target import parse_target
from tests.support.services import GATE_KEY, Report, wsgi_app, wsgi_served

DEADLINE_SECONDS, AFTER_SECONDS = 3.0, 2.0  # for the request, and after it
PATIENCE_SECONDS = 60.0


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_KEY", GATE_KEY)


def raise_at(url: str, fence: int) -> None:
    proof = Proof("default", ("lock:z",), fence, None, "host-1", "")
    HttpGate(parse_target(f"http:{url}#key=env:GATE_KEY"), fetch=own_secret).raise_fence(proof)


def put(url: str, fence: int, text: str) -> int:
    headers = {"Fencepost-Fence": str(fence), "Fencepost-Resource": "lock:z"}
    return httpx.put(f"{url}/report", content=text, headers=headers, timeout=PATIENCE_SECONDS).status_code


@contextmanager
def proxy(upstream: str, folder: Path) -> "Iterator[tuple[str, subprocess.Popen[str]]]":
    words = ["gate", "proxy", "--upstream", upstream, "--marks", str(folder), "--key", "env:GATE_KEY"]
    limits = ["--deadline", f"{DEADLINE_SECONDS}s", "--closed", str(AFTER_SECONDS), "--listen", ":0"]
    process = subprocess.Popen([sys.executable, "-m", "fencepost", *words, *limits], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.search(r"at (127\.0\.0\.1:\d+)$", said.strip())
        assert found, said
        yield f"http://{found[1]}", process
    finally:
        process.kill()
        process.communicate()


def test_a_proxy_that_was_killed_in_the_middle_comes_back_closed_for_the_stated_time(tmp_path: Path) -> None:
    report, arrived, go_on = Report(), threading.Event(), threading.Event()

    def slowly() -> None:
        arrived.set()
        assert go_on.wait(PATIENCE_SECONDS)

    report.before_write = slowly
    with wsgi_served(wsgi_app(report)) as upstream:
        with proxy(upstream, tmp_path / "marks") as (url, process):
            raise_at(url, 5)
            sending = threading.Thread(target=lambda: _try_to_put(url))
            sending.start()
            assert arrived.wait(PATIENCE_SECONDS)
            process.kill()
            sending.join(PATIENCE_SECONDS)
        [flight] = (tmp_path / "marks").glob("flight-*")
        departed = flight.stat().st_mtime

        with proxy(upstream, tmp_path / "marks") as (url, _):
            refusals = closed_until_open(url, 6, meanwhile=go_on.set)
            (tmp_path / "opened").touch()

            assert refusals > 0
            closed_for = (tmp_path / "opened").stat().st_mtime - departed
            assert closed_for > DEADLINE_SECONDS + AFTER_SECONDS - 0.1, "counted from before the request was sent"
            assert report.text == b"old", "what was on its way has landed before the next run may start"
            assert put(url, 5, "zombie") == 409
            report.before_write = lambda: None
            assert put(url, 6, "new") == 200
    assert report.text == b"new"


def _try_to_put(url: str) -> None:
    with suppress(httpx.HTTPError):  # it hears nothing
        put(url, 5, "old")


def closed_until_open(url: str, fence: int, *, meanwhile: Callable[[], None]) -> int:
    """Raise until it is possible; return how often it was refused."""
    refusals = 0
    for _ in range(600):
        try:
            raise_at(url, fence)
        except GateUnreachable as error:
            refusals += "it is not known whether" in str(error)
            meanwhile()
            threading.Event().wait(0.1)
        else:
            return refusals
    pytest.fail("it never opened again")


def test_a_request_that_was_answered_leaves_nothing_behind_though_the_proxy_is_killed_later(tmp_path: Path) -> None:
    report = Report()
    with wsgi_served(wsgi_app(report)) as upstream:
        with proxy(upstream, tmp_path / "marks") as (url, process):
            raise_at(url, 5)
            assert put(url, 5, "old") == 200
            raise_at(url, 5)  # waits for whatever is in flight: the answer may be here before it is written down there
            process.kill()

        with proxy(upstream, tmp_path / "marks") as (url, _):
            raise_at(url, 6)
            with pytest.raises(FenceRefused):
                raise_at(url, 5)
            assert put(url, 5, "zombie") == 409
    assert report.text == b"old"
