"""Whatever a stranger shows is compared by hmac.compare_digest, and by nothing else (S-2, W-1).

A clock cannot show that on a busy machine. A comparison that calls everything equal can: where it opens the door to
what is wrong, nobody else has compared; where one that calls everything different shuts it to what is right, nobody
gets by.
"""

import hmac
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.gates.http.door import ServiceDoor as HttpGate
from fencepost.host.clock import SystemClock
from fencepost.model import access, signature, webhook
from fencepost.model.webhook import is_genuine
from fencepost.service.run_socket import RunSocket
from fencepost.web import security
from tests.support.webdoor import API, WebDoor
from tests.web.test_sessions import ORIGIN, log_in
from tests.web.test_webhooks import BODY, SCHEMES, SECRET, signed

NOW = 1_800_000_000
OTHER = "another-secret-that-is-as-long"


@pytest.fixture
def comparing(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Let every comparison of secrets say the same."""

    def say(answer: bool) -> None:  # noqa: FBT001  # the one thing that it says
        def compare(one: object, other: object) -> bool:
            assert type(one) is type(other)
            return answer

        monkeypatch.setattr(hmac, "compare_digest", compare)
        for module in (access, signature, webhook, security):
            monkeypatch.setattr(module, "compare_digest", compare)

    return say


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_signature_of_a_webhook(scheme: str, comparing: Callable[[bool], None]) -> None:
    def genuine(secret: str) -> bool:
        shown = {name.lower(): value for name, value in signed(scheme, BODY, NOW, secret=secret).items()}
        return is_genuine(scheme, [SECRET], shown, BODY, now_seconds=NOW)

    assert (genuine(SECRET), genuine(OTHER)) == (True, False)
    comparing(True)
    assert genuine(OTHER)
    comparing(False)
    assert not genuine(SECRET)


@pytest.mark.parametrize("scheme", ["standard", "stripe"])
def test_all_signatures_are_compared_with_all_secrets(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(1)
        return one == other

    for module in (signature, webhook):
        monkeypatch.setattr(module, "compare_digest", compare)
    shown = {name.lower(): value for name, value in signed(scheme, BODY, NOW).items()}
    assert is_genuine(scheme, [SECRET, OTHER], shown, BODY, now_seconds=NOW)
    assert len(compared) == (2 if scheme == "standard" else 4)


def test_keys_links_sessions_and_what_their_pages_show(web: WebDoor, comparing: Callable[[bool], None]) -> None:
    key, link = web.key().secret.text, web.link()
    session = log_in(web, web.link())

    def wrong(text: str) -> str:
        return f"{text[:-4]}{'0000' if text[-4:] != '0000' else '1111'}"

    def asked(headers: dict[str, str]) -> int:
        return web.ask("GET", f"{API}/runs", headers=headers).status_code

    def offered(secret: str) -> int:
        return web.ask("GET", "/login", params={"link": secret}).status_code

    def left(token: str) -> int:
        return web.ask("POST", "/logout", headers={**ORIGIN, **session, "X-CSRF-Token": token}).status_code

    shown = {"Authorization": f"Bearer {wrong(key)}"}, {"Cookie": wrong(session["Cookie"])}
    assert [asked(one) for one in shown] == [401, 401]
    assert (offered(wrong(link)), left("0" * 64)) == (401, 403)
    comparing(False)
    assert [asked(one) for one in ({"Authorization": f"Bearer {key}"}, session)] == [401, 401]
    assert offered(link) == 401
    assert web.ask("POST", "/login", data={"secret": link}, headers=ORIGIN).status_code == 401
    comparing(True)
    assert [asked(one) for one in shown] == [200, 200]
    assert offered(wrong(link)) == 200
    assert left("0" * 64) == 204


def test_the_key_of_a_run(tmp_path: Path, comparing: Callable[[bool], None]) -> None:
    ear = RunSocket(str(tmp_path / "s"), "k" * 32, lambda: {"check": lambda _: {"ok": True}})
    right, wrong = (f'{{"key": "{one * 32}", "verb": "check"}}'.encode() for one in "kx")

    def is_let_in(request: bytes) -> bool:
        answer = ear._answer(request, lambda _: None)
        return answer is not None and bool(answer["ok"])

    try:
        assert (is_let_in(right), is_let_in(wrong)) == (True, False)
        comparing(True)
        assert is_let_in(wrong)
        comparing(False)
        assert not is_let_in(right)
    finally:
        ear.close()


def test_the_key_of_a_gate_by_http(tmp_path: Path, comparing: Callable[[bool], None]) -> None:
    gate = HttpGate(str(tmp_path), SECRET, clock=SystemClock())

    def status(key: str) -> int:
        return gate.answer("POST", "/.fencepost/status", {"authorization": f"Bearer {key}"}, b"").status

    assert (status(SECRET), status(OTHER)) == (200, 403)
    comparing(True)
    assert status(OTHER) == 200
    comparing(False)
    assert status(SECRET) == 403


def test_no_other_door_compares_what_is_shown_itself() -> None:
    """Who adds a place where a secret is compared adds it here."""
    source = Path(access.__file__).parents[1]
    found = {str(path.relative_to(source)) for path in source.rglob("*.py") if "compare_digest" in path.read_text()}
    assert found == {
        "gates/http/door.py",
        "gates/model/passes.py",
        "model/access.py",
        "model/audit_chain.py",
        "model/signature.py",
        "model/webhook.py",
        "service/run_guard.py",
        "service/run_socket.py",
        "web/security.py",
    }
