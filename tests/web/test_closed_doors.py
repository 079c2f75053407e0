"""Nobody gets in without a key, whatever they ask for and however they ask (P11; S-1 to S-7)."""

import asyncio
import os
import re
from typing import Any

import pytest
from starlette.routing import Route

from fencepost.operations.web_keys import revoke_key
from fencepost.web.security import OPEN, SAFE_METHODS, wanted_role
from tests.support.webdoor import HOST, WebDoor

ROLES = ("read", "trigger", "admin")


def routes(web: WebDoor) -> list[tuple[str, str, str]]:
    """Every method and path of the application itself, with what it takes."""
    found = []
    for route in web.gate.routes:
        if isinstance(route, Route):
            path = re.sub(r"{[^}]*}", "x", route.path)
            found += [(method, path, wanted_role(route, method)) for method in sorted(route.methods or ())]
    return found


def test_there_are_routes_to_try(web: WebDoor) -> None:
    assert len(routes(web)) > 3


def test_every_route_is_closed_to_everybody_without_a_good_key(web: WebDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.web.security.SLOW_STEP_SECONDS", 0.0)
    good, gone = web.key(), web.key()
    revoke_key(web.store.keys(), gone.row.id, tenant="default", by="test")
    text = good.secret.text
    bad: list[dict[str, Any]] = [
        {},
        {"headers": {"Authorization": ""}},
        {"headers": {"Authorization": "Bearer "}},
        {"headers": {"Authorization": f"Basic {text}"}},
        {"headers": {"Authorization": f"Bearer {text[:-1]}"}},
        {"headers": {"Authorization": f"Bearer {text[:-1]}{'0' if text[-1] != '0' else '1'}"}},
        {"headers": {"Authorization": f"Bearer {text.replace('fpk', 'fps')}"}},
        {"headers": {"Authorization": f"Bearer fpk_{'0' * 12}_{'0' * 64}"}},
        {"headers": {"Authorization": f"Bearer {gone.secret.text}"}},
        {
            "headers": {"Authorization": f"Bearer {os.urandom(24).hex()}"}
        },  # a run's own key opens its socket, and no door
        {"headers": {"Cookie": f"fencepost_session_7420={text}"}},
        {"headers": {"Cookie": f"fencepost_session_7420={web.link()}"}},
        {"params": {"key": text, "access_token": text, "token": text}},
    ]
    bodies: set[bytes] = set()
    for method, path, takes in routes(web):
        if takes == OPEN:
            continue
        for shown in bad:
            answer = web.ask(method, path, **shown)
            assert answer.status_code == 401, (method, path, shown)
            bodies |= {answer.content} if method != "HEAD" else set()

    assert len(bodies) == 1


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/nothing"),
        ("HEAD", "/readyz"),
        ("OPTIONS", "/readyz"),
        ("TRACE", "/healthz"),
        ("POST", "/healthz"),
        ("GET", "//healthz"),
        ("GET", "/healthz/"),
        ("GET", "/healthz."),
        ("GET", "/%2e/healthz"),
        ("GET", "/hooks/../readyz"),
        ("GET", "/healthz/../readyz"),
        ("GET", "/api/v1/openapi.json"),
        ("GET", "/docs"),
        ("GET", "/static/app.css"),
    ],
)
def test_what_is_no_open_route_is_closed(web: WebDoor, method: str, path: str) -> None:
    assert web.ask(method, path).status_code == 401


def test_only_the_open_routes_are_open(web: WebDoor) -> None:
    found = {path for _, path, takes in routes(web) if takes == OPEN}

    assert found <= {"/healthz", "/login", "/hooks/x/x", "/completions/x/x"}
    assert web.ask("GET", "/healthz").status_code == 200
    assert web.ask("GET", "/login").status_code == 401
    assert web.ask("POST", "/login").status_code == 401


def test_a_role_gets_as_far_as_it_reaches(web: WebDoor) -> None:
    for role in (*ROLES, "lease"):
        shown = web.bearer(role)
        for method, path, takes in routes(web):
            if takes == OPEN:
                continue
            status = web.ask(method, path, headers=shown, content=b"{}").status_code
            apart = "lease" in (role, takes)  # for other machines' cells, and for nothing else
            allowed = role == takes if apart else ROLES.index(role) >= ROLES.index(takes)
            assert (status != 403) == allowed, (role, method, path, status)
            assert status != 401


def test_a_route_that_says_nothing_takes_an_admin_to_change_something() -> None:
    assert wanted_role(None, "POST") == "admin"
    assert all(wanted_role(None, method) == "read" for method in SAFE_METHODS)


def test_a_websocket_is_refused(web: WebDoor) -> None:
    sent: list[dict[str, Any]] = []

    async def ask() -> None:
        async def send(message: Any) -> None:  # noqa: ANN401
            sent.append(message)

        async def receive() -> dict[str, Any]:
            return {"type": "websocket.connect"}

        await web.gate({"type": "websocket", "path": "/", "headers": []}, receive, send)

    asyncio.run(ask())
    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil:7420", "127.0.0.1.nip.io:7420", "127.0.0.1", "127.0.0.1:7421", ""]
)
def test_a_host_that_is_not_ours_is_refused(web: WebDoor, host: str) -> None:
    assert web.ask("GET", "/healthz", headers={"Host": host}).status_code == 421


def test_two_hosts_are_refused(web: WebDoor) -> None:
    answer = web.ask("GET", "/healthz", headers=[("Host", HOST), ("Host", "evil.example")])

    assert answer.status_code == 400


@pytest.mark.parametrize(
    "shown",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://{HOST}.evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_another_sites_page_changes_nothing(web: WebDoor, shown: dict[str, str]) -> None:
    answer = web.ask("POST", "/logout", headers={**web.bearer(), **shown})

    assert answer.status_code == 403
    assert answer.json()["code"] == "wrong_origin"


def test_every_answer_forbids_scripts_frames_sniffing_and_caching(web: WebDoor) -> None:
    for answer in (web.ask("GET", "/healthz"), web.ask("GET", "/x"), web.ask("GET", "/x", headers=web.bearer())):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe-inline" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"


def test_wrong_keys_are_answered_later_and_later_and_right_ones_at_once(web: WebDoor) -> None:
    async def bad_ones() -> float:
        loop = asyncio.get_running_loop()
        start = loop.time()
        for _ in range(6):
            await web._ask("GET", "/readyz")
        return loop.time() - start

    assert web._loop.run_until_complete(bad_ones()) >= 0.02 * 21
    assert web.ask("GET", "/readyz", headers=web.bearer()).status_code == 200


def test_wrong_links_and_signatures_are_slowed_too_and_told_without_their_value(web: WebDoor) -> None:
    async def bad_ones() -> float:
        loop = asyncio.get_running_loop()
        start = loop.time()
        for number in range(3):
            await web._ask("POST", "/login", data={"secret": f"fpl_wrong_{number}"})
            await web._ask("POST", "/hooks/default/none", content=b"{}")
        return loop.time() - start

    assert web._loop.run_until_complete(bad_ones()) >= 0.02 * 21
    (told,) = web.told
    assert "no good key" in told
    assert "fpl_wrong" not in told


def test_a_body_that_is_too_large_is_refused_before_it_is_read(web: WebDoor) -> None:
    headers = {**web.bearer(), "Content-Length": "50000000"}

    assert web.ask("POST", "/logout", headers=headers, content=b"x").status_code == 413


def test_a_body_without_an_end_is_cut_off_at_the_limit(web: WebDoor) -> None:
    async def endless() -> Any:  # noqa: ANN401  # an async iterator of bytes
        while True:
            yield b"x" * 65_536

    assert web.ask("POST", "/logout", headers=web.bearer(), content=endless()).status_code == 413


def test_a_packed_body_is_refused(web: WebDoor) -> None:
    headers = {**web.bearer(), "Content-Encoding": "gzip"}

    assert web.ask("POST", "/logout", headers=headers, content=b"x").status_code == 415


def test_looking_changes_nothing(web: WebDoor) -> None:
    web.runtime.cron("x", "* * * * *")
    web.runtime.pass_time(60)
    web.runtime.tick()
    shown = web.bearer()
    before = everything(web)
    for method, path, _ in routes(web):
        if method == "GET":
            assert web.ask(method, path, headers=shown).status_code < 500, path

    assert everything(web) == before


def everything(web: WebDoor) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table."""
    return web.store.dialect.read(
        lambda tx: {name: list(tx.tables().rows(name)) for name in sorted(tx.tables().names())}
    )
