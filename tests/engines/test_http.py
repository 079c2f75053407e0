"""The http engine from end to end: a real receiver on the loopback, under the real daemon."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import httpx
import pytest

from fencepost import wiring
from fencepost.host.clock import SystemClock
from fencepost.model.errors import FenceRefused, Invalid, Unauthorised
from fencepost.model.signature import is_signed, sign
from fencepost.operations.completion import complete_run
from fencepost.ports.runs import RunRow
from tests.support.scratch import free_port
from tests.support.site import Site

SECRET = "a-signing-secret-of-32-characters"
NOW = 1_800_000_000

Answer = tuple[int, dict[str, str], bytes] | None


class Receiver:
    """Takes requests and answers as the test says."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.answer: Callable[[], Answer] = lambda: (200, {}, b"ok")
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.requests.append((self.path, headers, body))
                answer = receiver.answer()
                if answer is None:  # hang up without a word
                    self.connection.close()
                    return
                self.send_response(answer[0])
                for name, value in {**answer[1], "Content-Length": str(len(answer[2]))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer[2])

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base's own word
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/run?x=1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def configure(site: Site, url: str, *, allow: str = '["127.0.0.1"]', **settings: str) -> None:
    (site.folder / "secret").write_text(SECRET)
    (site.folder / "key").write_text("Bearer hush-hush")
    more = "".join(f"{name} = {value}\n" for name, value in settings.items())
    site.configure(
        f'http_allow = {allow}\n[agents.remote]\nengine = "http"\nurl = "{url}"\nsecret = "file:{site.folder}/secret"\n'
        f'headers = {{ Authorization = "file:{site.folder}/key", X-Team = "ops" }}\n{more}'
    )


def run(site: Site, *, code: int | None = 0) -> RunRow:
    site.up("--workers", "1", "--ttl", "5s")
    site.fencepost("run", "remote", "--wait", "--payload", '{"n": 1}', code=code)
    (found,) = site.runs()
    return found


def test_a_run_is_posted_with_its_fence_its_key_and_a_signature(site: Site, receiver: Receiver) -> None:
    answer = {"summary": "42 rows", "cost_usd": 0.25, "turns": 2, "usage": {"input": 7}}
    receiver.answer = lambda: (200, {"Content-Type": "application/json"}, json.dumps(answer).encode())
    configure(site, receiver.url)

    done = run(site)
    ((path, headers, body),) = receiver.requests
    at = int(headers["webhook-timestamp"])

    assert (done.state, done.summary, done.cost_micro) == ("succeeded", "42 rows", 250_000)
    assert path == "/run?x=1"
    assert headers["fencepost-fence"] == str(done.fence)
    assert headers["idempotency-key"] == done.idempotency_key
    assert (headers["authorization"], headers["x-team"]) == ("Bearer hush-hush", "ops")
    assert is_signed([SECRET], headers, body, now_seconds=at)
    assert json.loads(body)["payload"] == {"n": 1}
    assert json.loads(body)["fence"] == done.fence
    assert "hush-hush" not in Path(done.log or "").read_text()


def test_an_answer_that_is_no_success_is_a_failure(site: Site, receiver: Receiver) -> None:
    answers = iter([500, 404, 302])
    receiver.answer = lambda: (next(answers), {"Location": receiver.url}, b"sorry")
    configure(site, receiver.url)
    site.up("--workers", "1", "--ttl", "5s")
    for _ in range(3):
        site.fencepost("run", "remote", "--wait", code=None)
    moved, gone, broken = site.runs()

    assert [one.state for one in site.runs()] == ["dead"] * 3
    assert [one.reason for one in (moved, gone, broken)] == ["misconfigured", "misconfigured", "agent_error"]
    assert broken.summary == "answered 500: sorry"
    assert gone.summary == "answered 404: sorry"
    assert moved.summary == "answered 302: redirects are not followed; write the final url."
    assert len(receiver.requests) == 3


def test_no_answer_to_what_was_sent_goes_to_a_person_and_is_not_sent_again(site: Site, receiver: Receiver) -> None:
    receiver.answer = lambda: None
    configure(site, receiver.url, max_attempts="3", backoff='"100ms"')

    done = run(site, code=None)

    assert (done.state, done.reason) == ("dead", "ambiguous")
    assert len(receiver.requests) == 1


def test_the_own_network_is_not_reached_unless_the_worker_allows_it(site: Site, receiver: Receiver) -> None:
    hosts = ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"]
    agents = [
        f'[agents.a{place}]\nengine = "http"\nurl = "{receiver.url.replace("127.0.0.1", host)}"\n'
        for place, host in enumerate(hosts)
    ]
    site.configure('http_allow = ["10.9.9.9"]\n' + "".join(agents))
    site.up("--workers", "2", "--ttl", "5s")
    for place in range(len(hosts)):
        site.fencepost("run", f"a{place}")
    site.until(lambda: len(site.runs(state="dead")) == len(hosts))

    assert all("not sent" in (one.summary or "") for one in site.runs())
    assert receiver.requests == []


def said(site: Site, run_id: str, *, fence: int | None, status: str, secret: str = SECRET, **more: object) -> str:
    """Report from outside, as the receiver would through the door."""
    body = json.dumps({"fence": fence, "status": status, **more}).encode()
    headers = sign(secret, message_id="m1", at_seconds=NOW, body=body)
    store = wiring.open_runtime(site.store)
    try:
        return complete_run(
            store, run_id, tenant="default", headers=headers, body=body, now_seconds=NOW,
            fetch_secret=lambda reference, _: Path(reference.removeprefix("file:")).read_text(),
        ).state  # fmt: skip
    finally:
        store.close()


def accepted(site: Site, receiver: Receiver, **settings: str) -> RunRow:
    receiver.answer = lambda: (202, {}, b"")
    configure(site, receiver.url, **settings)
    site.fencepost("run", "remote")
    site.until(lambda: receiver.requests)
    (found,) = site.runs()
    return found


def test_after_a_202_the_signed_word_of_the_receiver_ends_the_run(site: Site, receiver: Receiver) -> None:
    site.configure("")
    site.up("--workers", "1", "--ttl", "5s", command="worker")
    found = accepted(site, receiver)
    fence = found.fence

    with pytest.raises(Unauthorised):
        said(site, found.id, fence=fence, status="succeeded", secret="somebody-elses-secret")
    with pytest.raises(Unauthorised):
        said(site, "r-unknown", fence=fence, status="succeeded")
    with pytest.raises(FenceRefused):
        said(site, found.id, fence=(fence or 0) - 1, status="succeeded")
    with pytest.raises(Invalid):
        said(site, found.id, fence=fence, status="great")
    assert said(site, found.id, fence=fence, status="running") == "running"
    assert said(site, found.id, fence=fence, status="succeeded", summary="all sent", cost_usd=1.5) == "succeeded"
    assert said(site, found.id, fence=fence, status="failed") == "succeeded"  # the end stands, whatever comes later
    site.until(lambda: site.runs(state="succeeded"))

    assert (site.runs()[0].summary, site.runs()[0].cost_micro) == ("all sent", 1_500_000)
    with pytest.raises(FenceRefused):
        said(site, found.id, fence=fence, status="running")


def test_a_receiver_reports_to_the_web_door_by_the_address_that_it_was_told(site: Site, receiver: Receiver) -> None:
    port = free_port()
    door = f'"http://127.0.0.1:{port}/completions/{{tenant}}/{{run_id}}"'
    configure(site, receiver.url, callback_url=door, stall_timeout='"5s"')
    receiver.answer = lambda: (202, {}, b"")
    site.up("--workers", "1", "--ttl", "5s", "--port", str(port), web=True)
    site.until(lambda: f"127.0.0.1:{port}" in site.said())
    site.fencepost("run", "remote")
    site.until(lambda: receiver.requests)
    told = json.loads(receiver.requests[0][2])

    def report(status: str, *, fence: int = told["fence"], secret: str = SECRET) -> httpx.Response:
        body = json.dumps({"fence": fence, "status": status, "summary": "all sent", "cost_usd": 0.25}).encode()
        headers = sign(secret, message_id="m1", at_seconds=SystemClock().wall_us() // 1_000_000, body=body)
        return httpx.post(told["callback_url"], content=body, headers=headers)

    assert report("succeeded", secret="somebody-elses-secret-of-32-chars").status_code == 401
    assert report("succeeded", fence=told["fence"] - 1).status_code == 409
    for _ in range(4):  # longer than it may be silent
        assert report("running").json() == {"run_id": told["run_id"], "state": "running"}
        Event().wait(1.5)
    assert report("succeeded").json()["state"] == "succeeded"
    site.until(lambda: site.runs(state="succeeded"))

    assert (site.runs()[0].summary, site.runs()[0].cost_micro) == ("all sent", 250_000)
    assert report("running").status_code == 409, "it is over"


def test_heartbeats_keep_a_run_alive_and_silence_ends_it(site: Site, receiver: Receiver) -> None:
    site.configure("")
    site.up("--workers", "1", "--ttl", "5s", command="worker")
    found = accepted(site, receiver, stall_timeout='"6s"')
    for _ in range(3):
        said(site, found.id, fence=found.fence, status="running")
        Event().wait(1.6)
    assert site.runs()[0].state == "running"

    site.until(lambda: site.runs(state="dead"))

    assert site.runs()[0].reason == "stall_timeout"


def test_a_deploy_posts_again_with_the_same_key_and_a_new_fence(site: Site, receiver: Receiver) -> None:
    site.configure("")
    daemon = site.up("--workers", "1", "--ttl", "5s", command="worker")
    found = accepted(site, receiver)
    site.until(lambda: "accepted" in Path(_log(site)).read_text())

    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(30) == 0
    site.up("--workers", "1", "--ttl", "5s", command="worker")
    site.until(lambda: len(receiver.requests) == 2)
    (_, first, _), (_, second, body) = receiver.requests
    with pytest.raises(FenceRefused):
        said(site, found.id, fence=int(first["fencepost-fence"]), status="succeeded")
    said(site, found.id, fence=int(second["fencepost-fence"]), status="succeeded")
    site.until(lambda: site.runs(state="succeeded"))

    assert first["idempotency-key"] == second["idempotency-key"]
    assert int(first["fencepost-fence"]) < int(second["fencepost-fence"])
    assert json.loads(body)["resume"] is True
    assert site.runs()[0].attempt == 1


def _log(site: Site) -> str:
    (path,) = (site.folder / "state").glob("fencepost/logs/*.log")
    return os.fspath(path)
