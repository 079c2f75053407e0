"""What people who look after a server ask of the HTTP API: links, the audit's export, tests of targets, notes."""

import json
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

import pytest

from fencepost.flow.notary import Notary
from fencepost.model.definition import AgentDefinition
from fencepost.model.lease import Granted
from fencepost.operations.audit_verification import export_audit
from fencepost.web.api import notices
from fencepost.wiring import audit_sealing
from tests.stores.rig import HOST as TOWER
from tests.stores.rig import claim
from tests.support.receiver import receiver
from tests.support.runtime import DEAD
from tests.support.webdoor import API, HOST, WebDoor, asking


@pytest.fixture
def busy(web_on_both: WebDoor) -> WebDoor:
    web_on_both.runtime.apply(AgentDefinition("digest", command=("true",)))
    return web_on_both


def test_a_login_link_is_made_once_and_lets_one_browser_in(busy: WebDoor) -> None:
    ask = asking(busy)
    shown = {"Idempotency-Key": "for ada"}
    made = ask("POST", "/keys/link", 201, json={"role": "trigger"}, headers=shown)
    again = ask("POST", "/keys/link", 200, json={"role": "trigger"}, headers=shown)
    start, _, secret = made["url"].partition("?link=")
    enters = [busy.ask("POST", "/login", data={"secret": secret}).status_code for _ in range(2)]

    assert (start, made["kind"], made["role"]) == (f"http://{HOST}/login", "link", "trigger")
    assert made["expires_at"] > made["created_at"]
    assert (again["id"], again["url"]) == (made["id"], None)
    assert ask("POST", "/keys/link", 409, json={"role": "read"}, headers=shown)["code"] == "key_reused"
    assert enters == [303, 401]


def test_a_login_link_leads_to_where_browsers_reach_the_server(busy: WebDoor) -> None:
    ask = asking(busy)
    named = ask("POST", "/keys/link", 201, json={"at": "https://fencepost.example.com/"})
    behind_tls = ask("POST", "/keys/link", 201, json={}, headers={"X-Forwarded-Proto": "https"})

    assert named["url"].startswith("https://fencepost.example.com/login?link=fp")
    assert behind_tls["url"].startswith(f"https://{HOST}/login?link=fp")
    ask("POST", "/keys/link", 422, json={"at": "javascript:alert(1)//"})
    for role in ("read", "trigger"):
        assert asking(busy, role)("POST", "/keys/link", 403, json={})["code"] == "forbidden"


def test_a_link_that_was_revoked_lets_nobody_in(busy: WebDoor) -> None:
    ask = asking(busy)
    made = ask("POST", "/keys/link", 201, json={})
    ask("DELETE", f"/keys/{made['id']}")

    assert busy.ask("POST", "/login", data={"secret": made["url"].partition("=")[2]}).status_code == 401


def test_the_audit_is_exported_in_parts_as_the_command_line_prints_it(busy: WebDoor) -> None:
    ask, store = asking(busy), busy.store
    assert "nothing is sealed yet" in ask("GET", "/audit/export", 400, params={"head": True})["detail"]
    notary = Notary(store.audit_chain(), b"k" * 32, store.clock_us, lambda _: None, batch=2)
    for _ in range(3):
        ask("POST", "/runs", 202, json={"target": "digest"})
        notary.step()
    ask("POST", "/runs", 202, json={"target": "digest"})
    shown = busy.bearer("read")
    wanted = list(export_audit(store, "default"))
    parts, path = [], f"{API}/audit/export?limit=3"
    while path:
        answer = busy.ask("GET", path, headers=shown)
        assert answer.headers["content-type"].startswith("application/x-ndjson")
        parts.append(answer.text.splitlines())
        path = answer.links.get("next", {}).get("url", "")

    assert [line for part in parts for line in part] == wanted
    assert [len(part) for part in parts[:-1]] == [3, 3], "two entries and their seal"
    assert wanted[-1].startswith('{"audit"'), "what is loose comes last"
    head = busy.ask("GET", f"{API}/audit/export?head=true", headers=shown).text
    assert head == [f"{line}\n" for line in wanted if "fencepost_audit_head" in line][-1]
    theirs = busy.ask("GET", f"{API}/audit/export", headers=busy.bearer("read", "theirs")).text
    assert {json.loads(line)["audit"]["tenant"] for line in theirs.splitlines()} == {"theirs"}


def test_a_head_that_was_kept_elsewhere_shows_that_the_end_was_cut_off(
    busy: WebDoor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    key, store, ask = audit_sealing.audit_key(create=True), busy.store, asking(busy, "read")
    assert key is not None
    Notary(store.audit_chain(), key, store.clock_us, lambda _: None).step()
    kept = busy.ask("GET", f"{API}/audit/export", headers=busy.bearer("read")).text
    head = json.loads(next(line for line in kept.splitlines() if "fencepost_audit_head" in line))
    beyond = json.dumps({**head, "number": head["number"] + 1})  # what a longer chain would have exported

    whole = ask("POST", "/audit/verify", json={"heads": kept})
    assert (whole["good"], whole["heads_compared"]) == (True, 1)
    cut = ask("POST", "/audit/verify", json={"heads": f"{kept}{beyond}\n"})
    assert (cut["good"], cut["completeness"], cut["heads_compared"]) == (False, "bad", 2)
    for wrong in ("so much", "[" * 100_000, '{"fencepost_audit_head": 1}'):
        assert ask("POST", "/audit/verify", 400, json={"heads": wrong})["code"] == "invalid"


def configure(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the server a configuration with a target at this address."""
    file, secret = folder / "fencepost.toml", folder / "secret"
    secret.write_text("a secret of at least sixteen bytes")
    target = f'[notifications.desk]\nkind = "webhook"\nurl = "{url}"\nsecret = "file:{secret}"\n'
    file.write_text(f'[fencepost]\nhttp_allow = ["127.0.0.1"]\n{target}')
    monkeypatch.setenv("FENCEPOST_CONFIG", str(file))


def test_a_target_is_tried_now_by_the_server_of_its_tenant(
    web: WebDoor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = asking(web)
    with receiver() as server:
        configure(tmp_path, server.url, monkeypatch)
        assert ask("POST", "/notices/desk/test") == {"name": "desk", "told": True, "error": None}
        server.answers[:] = [500]
        told = ask("POST", "/notices/desk/test")
        assert "did you mean" in ask("POST", "/notices/des/test", 404)["detail"].lower()
        assert asking(web, tenant="theirs")("POST", "/notices/desk/test", 404)["code"] == "unknown"
        assert asking(web, "trigger")("POST", "/notices/desk/test", 403)["code"] == "forbidden"

    assert (told["told"], "answered 500" in told["error"]) == (False, True)
    assert [heard.json["type"] for heard in server.heard] == ["test", "test"]


def test_a_receiver_that_does_not_answer_holds_a_request_up_not_for_long(
    web: WebDoor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "TRY_SECONDS", 0.5)
    with receiver() as server:
        configure(tmp_path, server.url, monkeypatch)
        server.open.clear()
        told = asking(web)("POST", "/notices/desk/test")
        server.open.set()

    assert told == {"name": "desk", "told": False, "error": "no answer in time"}


def test_few_targets_are_tried_at_once(web: WebDoor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "TRIED_AT_ONCE", BoundedSemaphore(1))
    with receiver() as server:
        configure(tmp_path, server.url, monkeypatch)
        with notices.TRIED_AT_ONCE:
            assert asking(web)("POST", "/notices/desk/test", 429)["code"] == "queue_full"
        assert asking(web)("POST", "/notices/desk/test")["told"] is True


def test_a_dead_letter_is_discarded_with_a_note_or_without(busy: WebDoor) -> None:
    ask = asking(busy, "trigger")
    runs = []
    bodies: list[dict[str, Any]] = [{"json": {"note": "closed that day"}}, {"json": {}}, {}]
    for body in bodies:
        run = ask("POST", "/runs", 202, json={"target": "digest"})["id"]
        busy.runtime.work(DEAD)
        runs.append(ask("POST", f"/runs/{run}/discard", **body)["id"])
    entries = [ask("GET", "/audit", params={"verb": "discard", "subject": f"run:{run}"})["items"] for run in runs]

    assert ask("GET", "/dead")["items"] == []
    assert ["closed that day" in json.dumps(found) for (found,) in entries] == [True, False, False]


def test_a_lease_that_is_lost_for_good_is_listed_and_forgotten_by_its_tenant_alone(busy: WebDoor) -> None:
    lost = busy.store.acquire(claim("lock:left"))
    assert isinstance(lost, Granted)
    busy.store.release(lost.lease, clean=False)
    ask, host = asking(busy), TOWER.name
    assert ask("GET", "/leases?resource=lock:left")["items"] == []
    assert [one["lost"] for one in ask("GET", f"/leases?lost=true&resource=lock:left&host={host}")["items"]] == [True]
    assert asking(busy, tenant="theirs")("GET", "/leases?lost=true")["items"] == []

    for body in ({}, {"host": host, "resource": "lock:left"}, {"gate": "file:/x"}):
        assert "name a resource" in ask("POST", "/leases/forget", 400, json=body)["detail"]
    asking(busy, tenant="theirs")("POST", "/leases/forget", 404, json={"host": host})
    assert ask("POST", "/leases/forget", json={"host": host}) == {"done": True}

    assert ask("GET", "/leases?lost=true")["items"] == []


def test_the_debt_to_a_gate_that_is_gone_is_forgotten_by_an_admin(busy: WebDoor) -> None:
    store, wanted = busy.store, claim("lock:z")._replace(gates=("file:/gone",))
    lost = store.acquire(wanted)
    assert isinstance(lost, Granted)
    store.start(lost.lease)
    store.release(lost.lease, clean=False)
    gone = {"resource": "lock:z", "gate": "file:/gone"}

    assert asking(busy, "trigger")("POST", "/leases/forget", 403, json=gone)["code"] == "forbidden"
    asking(busy, tenant="theirs")("POST", "/leases/forget", 404, json=gone)
    assert asking(busy)("POST", "/leases/forget", json=gone) == {"done": True}
    assert "owes file:/gone nothing" in asking(busy)("POST", "/leases/forget", 404, json=gone)["detail"]
    after = store.acquire(claim("lock:z"))
    assert isinstance(after, Granted)
    assert after.lease.gates == ()
