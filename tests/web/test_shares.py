"""What many share is shared: strangers take nothing from whoever has a key, and one tenant nothing from another."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.types import Message, Scope

from fencepost.web.dashboard import streams
from fencepost.web.requests import BODY_MAX
from tests.support.webdoor import API, HOST, WebDoor

SLOW = 20


@pytest.fixture(autouse=True)
def no_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STREAMS", streams.Streams())


class Slow:
    """A request of which nearly all has come, and whose rest does not come."""

    def __init__(self, web: WebDoor, path: str, *, address: str, headers: dict[str, str] | None = None) -> None:
        self.status = 0
        self._web, self._path, self._address = web, path, address
        self._headers = {"host": HOST, **{name.lower(): value for name, value in (headers or {}).items()}}
        self._sent = False

    async def play(self) -> None:
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "path": self._path,
            "raw_path": self._path.encode(),
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in self._headers.items()],
            "client": (self._address, 1),
            "server": ("127.0.0.1", 7420),
            "scheme": "http",
        }
        await self._web.gate(scope, self._receive, self._send)

    async def _receive(self) -> Message:
        if self._sent:
            await asyncio.Event().wait()
        self._sent = True
        return {"type": "http.request", "body": b"x" * (BODY_MAX - 1), "more_body": True}

    async def _send(self, message: Message) -> None:
        self.status = message.get("status", self.status)


def meanwhile(web: WebDoor, slow: list[Slow], ask: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401
    """Ask while the others have sent nearly all of their bodies."""

    async def play() -> Any:  # noqa: ANN401
        tasks = [asyncio.create_task(one.play()) for one in slow]
        for _ in range(20):
            await asyncio.sleep(0.01)
        try:
            return await ask()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    return web._loop.run_until_complete(play())


async def post(web: WebDoor, path: str, *, address: str = "127.0.0.1", **more: Any) -> httpx.Response:  # noqa: ANN401
    transport = httpx.ASGITransport(web.gate, client=(address, 1))
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
        return await client.post(path, **more)


@pytest.mark.parametrize("path", ["/login", "/hooks/default/push"])
def test_slow_bodies_of_strangers_keep_nobody_with_a_key_waiting(web: WebDoor, path: str) -> None:
    slow = [Slow(web, path, address=f"10.0.0.{number}") for number in range(SLOW)]
    shown = web.bearer()

    answer = meanwhile(
        web, slow, lambda: post(web, f"{API}/keys", headers=shown, json={"name": "x" * 200, "role": "read"})
    )

    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("path", ["/login", "/hooks/default/push"])
def test_slow_bodies_from_one_address_keep_no_other_address_waiting(web: WebDoor, path: str) -> None:
    slow = [Slow(web, path, address="10.0.0.1") for _ in range(SLOW)]

    answer = meanwhile(web, slow, lambda: post(web, "/login", address="10.0.0.2", data={"secret": web.link()}))

    assert answer.status_code == 303, answer.text


def test_who_logs_in_sends_little(web: WebDoor) -> None:
    answer = web.ask("POST", "/login", content=b"secret=" + b"x" * 10_000)

    assert answer.status_code == 413


def test_one_tenants_slow_bodies_keep_no_other_tenant_waiting(web: WebDoor) -> None:
    greedy, other = web.bearer(tenant="greedy"), web.bearer(tenant="other")
    slow = [Slow(web, f"{API}/keys", address="127.0.0.1", headers=greedy) for _ in range(SLOW)]

    answer = meanwhile(web, slow, lambda: post(web, f"{API}/keys", headers=other, json={"name": "n", "role": "read"}))

    assert answer.status_code == 201, answer.text
    assert 503 in [one.status for one in slow], "the greedy one is told"


def test_room_is_given_back_with_the_request(web: WebDoor) -> None:
    for _ in range(3):
        slow = [Slow(web, "/hooks/default/push", address="10.0.0.1") for _ in range(SLOW)]
        answer = meanwhile(web, slow, lambda: post(web, "/login", data={"secret": web.link()}))
        assert answer.status_code == 303
    assert [one.status for one in slow].count(0) == 4, "as many as one address may send at once"


@asynccontextmanager
async def listening(web: WebDoor, shown: dict[str, str], number: int) -> AsyncIterator[None]:
    """Hold live streams open."""
    tasks = [asyncio.create_task(listen(web, shown)) for _ in range(number)]
    while streams.STREAMS.tenants.total() < number:  # noqa: ASYNC110  # nobody tells us
        await asyncio.sleep(0.01)
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def listen(web: WebDoor, shown: dict[str, str]) -> httpx.Response:
    transport = httpx.ASGITransport(web.gate)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}", timeout=60) as client:
        return await client.get("/live", headers=shown)


def test_one_tenants_live_pages_leave_the_others_theirs(web: WebDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STREAMS_MAX", 8)
    monkeypatch.setattr(streams, "TENANT_MAX", 6)
    web.gate.app.state.door = web.door._replace(stream_seconds=30)  # type: ignore[attr-defined]
    one, other = web.bearer("read", "greedy"), web.bearer("read", "other")

    async def play() -> tuple[int, int]:
        async with listening(web, one, 6):
            refused = await listen(web, one)
            web.gate.app.state.door = web.door  # type: ignore[attr-defined]  # whose streams end at once
            return refused.status_code, (await listen(web, other)).status_code

    assert web._loop.run_until_complete(play()) == (429, 200)


def test_a_tenant_gets_a_few_live_pages_however_many_are_open(web: WebDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STREAMS_MAX", 0)

    assert web.ask("GET", "/live", headers=web.bearer("read", "other")).status_code == 200


def test_one_key_has_so_many_live_pages(web: WebDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "KEY_MAX", 0)

    assert web.ask("GET", "/live", headers=web.bearer("read")).status_code == 429
