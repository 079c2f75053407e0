"""A browser logs in with a link, once, and is known by its session until that ends."""

import json
from pathlib import Path

import pytest

from fencepost.model.access import csrf_of, read_secret
from fencepost.operations.run_queries import list_audit
from fencepost.operations.web_keys import SESSION_FOR, revoke_key
from fencepost.web.security import cookie_name
from tests.support.webdoor import HOST, WebDoor

ORIGIN = {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "same-origin"}


def log_in(web: WebDoor, secret: str) -> dict[str, str]:
    answer = web.ask("POST", "/login", data={"secret": secret}, headers=ORIGIN)
    assert answer.status_code == 303, answer.text
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    return {"Cookie": cookie.partition(";")[0]}


def test_a_link_is_good_once_and_looking_at_it_does_not_use_it_up(web_on_both: WebDoor) -> None:
    web = web_on_both
    link = web.link()
    for _ in range(2):
        page = web.ask("GET", "/login", params={"link": link})
        assert page.status_code == 200
        assert "<script" not in page.text

    session = log_in(web, link)

    assert web.ask("GET", "/readyz", headers=session).status_code == 200
    assert web.ask("POST", "/login", data={"secret": link}, headers=ORIGIN).status_code == 401
    assert web.ask("GET", "/login", params={"link": link}).status_code == 401


@pytest.mark.parametrize(("origin", "secure"), [(f"https://{HOST}", True), (f"http://{HOST}", False)])
def test_the_cookie_is_for_tls_alone_where_the_browser_came_by_tls(web: WebDoor, origin: str, *, secure: bool) -> None:
    answer = web.ask("POST", "/login", data={"secret": web.link()}, headers={"Origin": origin})

    assert answer.status_code == 303
    assert ("Secure" in answer.headers["set-cookie"]) is secure


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("127.0.0.1:7420", "fencepost_session_7420"),
        ("[::1]:7421", "fencepost_session_7421"),
        ("fencepost.example.com", "fencepost_session"),
        ("[::1]", "fencepost_session"),
    ],
)
def test_two_doors_on_one_host_have_cookies_of_their_own(host: str, name: str) -> None:
    assert cookie_name(host) == name


def test_the_cookie_of_another_port_is_none_of_ours(web: WebDoor) -> None:
    session = log_in(web, web.link())
    value = session["Cookie"].partition("=")[2]

    assert session["Cookie"].startswith("fencepost_session_7420=")
    both = {"Cookie": f"fencepost_session_7421=fps_other; fencepost_session_7420={value}"}
    assert web.ask("GET", "/readyz", headers=both).status_code == 200
    assert web.ask("GET", "/readyz", headers={"Cookie": f"fencepost_session_7421={value}"}).status_code == 401


def test_a_form_with_too_many_fields_says_nothing(web: WebDoor) -> None:
    many = "&".join(f"f{number}=x" for number in range(1_000))
    session = log_in(web, web.link())
    form = {"Content-Type": "application/x-www-form-urlencoded"}

    assert web.ask("POST", "/login", content=many, headers={**ORIGIN, **form}).status_code == 401
    assert web.ask("POST", "/logout", content=many, headers={**ORIGIN, **form, **session}).status_code == 403


def test_of_many_that_use_a_link_at_once_one_gets_in(web_on_both: WebDoor) -> None:
    link = web_on_both.link()
    answers = web_on_both.ask_all([("POST", "/login", {"data": {"secret": link}, "headers": ORIGIN})] * 8)

    assert sorted(one.status_code for one in answers) == [303] + [401] * 7


def test_a_link_is_good_for_an_hour(web: WebDoor) -> None:
    link = web.link()
    web.runtime.pass_time(3601)

    assert web.ask("POST", "/login", data={"secret": link}, headers=ORIGIN).status_code == 401


def test_a_session_ends_by_itself_and_with_the_key_that_it_came_from(web_on_both: WebDoor) -> None:
    web = web_on_both
    key = web.key("read")
    first, second = log_in(web, key.secret.text), log_in(web, web.link())
    revoke_key(web.store.keys(), key.row.id, tenant="default", by="test")

    assert web.ask("GET", "/readyz", headers=first).status_code == 401
    assert web.ask("GET", "/readyz", headers=second).status_code == 200
    web.runtime.pass_time(SESSION_FOR.total_seconds() + 1)
    assert web.ask("GET", "/readyz", headers=second).status_code == 401


def test_a_session_changes_something_only_with_its_own_token(web: WebDoor) -> None:
    session, other = log_in(web, web.link()), log_in(web, web.link())
    token = {}
    for name, cookie in (("own", session), ("other", other)):
        secret = read_secret(cookie["Cookie"].partition("=")[2], "session")
        assert secret is not None
        token[name] = csrf_of(secret)

    assert web.ask("POST", "/logout", headers={**session, **ORIGIN}).status_code == 403
    wrong = web.ask("POST", "/logout", headers={**session, **ORIGIN, "X-CSRF-Token": token["other"]})
    assert wrong.json()["code"] == "csrf"
    assert web.ask("POST", "/logout", headers={**session, **ORIGIN}, data={"csrf": token["own"]}).status_code == 204
    assert web.ask("GET", "/readyz", headers=session).status_code == 401
    assert web.ask("GET", "/readyz", headers=other).status_code == 200


def test_the_store_has_no_key_in_clear(web: WebDoor, tmp_path: Path) -> None:
    made = web.key()
    link = web.link()
    session = log_in(web, link)["Cookie"].partition("=")[2]
    web.store.close()
    content = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    assert made.row.id.encode() in content
    for secret in (made.secret.text, link, session):
        assert secret.rpartition("_")[2].encode() not in content


def test_a_key_of_one_tenant_is_nothing_to_another(web_on_both: WebDoor) -> None:
    store = web_on_both.store
    made = web_on_both.key(tenant="theirs")

    assert store.keys().revoke_key(made.row.id, tenant="default", by="test") is None
    assert [row.id for row in store.keys().keys("theirs", limit=10)] == [made.row.id]
    assert store.keys().keys("default", limit=10) == []


def test_making_and_ending_keys_is_in_the_audit(web: WebDoor) -> None:
    made = web.key("trigger")
    revoke_key(web.store.keys(), made.row.id, tenant="default", by="ada")
    verbs = [(row.verb, row.subject, row.actor) for row in list_audit(web.store, "default", limit=10)]

    assert ("key_revoke", f"key:{made.row.id}", "ada") in verbs
    assert ("key_create", f"key:{made.row.id}", "test") in verbs
    detail = next(row.detail for row in list_audit(web.store, "default", verb="key_create", limit=1))
    assert json.loads(detail)["role"] == "trigger"
