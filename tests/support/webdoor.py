"""The web door in a test: the real application over a real store, asked without a socket."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from fencepost.host.secrets import permit
from fencepost.model.access import Role
from fencepost.model.errors import Misconfigured
from fencepost.model.secret_rights import Rights
from fencepost.operations.web_keys import Made, create_key, create_link
from fencepost.stores.runtime import RuntimeStore
from fencepost.web.app import create_app
from fencepost.web.door import Door
from fencepost.web.store_threads import StoreThreads
from tests.support.runtime import Runtime, new_ids

HOST = "127.0.0.1:7420"
API = "/api/v1"


class WebDoor:
    """One door, and few words for asking there."""

    def __init__(self, runtime: Runtime, folder: Path) -> None:
        self.runtime = runtime
        self.secrets: dict[str, str] = {}
        self.skew_us = 0  # of this machine's clock
        self._loop = asyncio.new_event_loop()
        self.desk = StoreThreads(runtime.another, threads=2)
        self._listed: dict[str, tuple[str, ...]] = {}
        self.door = Door(
            self.desk,
            new_ids,
            str(folder),
            self.now_us,
            self._secret,
            runtime.another,
            stream_seconds=0.05,
            rights=self.rights,
            tell=self._tell,
        )
        self.told: list[str] = []
        self.gate = create_app(self.door, hosts=frozenset({HOST}), tell=self.told.append)

    def _tell(self, text: str) -> None:
        self.told.append(text)

    def now_us(self) -> int:
        return self.runtime.rig.now_us() + self.skew_us

    def now_seconds(self) -> int:
        return self.runtime.rig.now_us() // 1_000_000

    def key(self, role: str = "admin", tenant: str = "default") -> Made:
        return create_key(self.store.keys(), tenant=tenant, name=role, role=Role(role), by="test")

    def link(self) -> str:
        return create_link(self.store.keys(), tenant="default", by="test").secret.text

    @property
    def store(self) -> RuntimeStore:
        return self.runtime.store

    def bearer(self, role: str = "admin", tenant: str = "default") -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key(role, tenant).secret.text}"}

    def ask(self, method: str, path: str, **request: Any) -> httpx.Response:  # noqa: ANN401  # what httpx takes
        return self._loop.run_until_complete(self._ask(method, path, **request))

    def ask_all(self, requests: list[tuple[str, str, dict[str, Any]]]) -> list[httpx.Response]:
        """Ask many things at once."""

        async def together() -> list[httpx.Response]:
            return await asyncio.gather(*(self._ask(method, path, **more) for method, path, more in requests))

        return self._loop.run_until_complete(together())

    def close(self) -> None:
        self.desk.close()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def _ask(self, method: str, path: str, **request: Any) -> httpx.Response:  # noqa: ANN401  # likewise
        transport = httpx.ASGITransport(self.gate, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            return await client.request(method, path, **request)

    def allow(self, tenant: str, *secrets: str) -> None:
        """List them, as [tenants] of the machine's own file does."""
        self._listed[tenant] = secrets

    def rights(self) -> Rights:
        return Rights(tuple(self._listed.items()))

    def _secret(self, reference: str, tenant: str) -> str:
        permit(reference, tenant=tenant, rights=self.rights(), what="the secret")
        if reference not in self.secrets:
            raise Misconfigured(f"the secret = {reference!r} is not set on this worker.")
        return self.secrets[reference]


@contextmanager
def web_door(runtime: Runtime, folder: Path) -> Iterator[WebDoor]:
    found = WebDoor(runtime, folder)
    try:
        yield found
    finally:
        found.close()


def asking(web: WebDoor, role: str = "admin", tenant: str = "default") -> Any:  # noqa: ANN401
    """Return how somebody with a key of this role asks the API, and gets JSON."""
    shown = web.bearer(role, tenant)

    def ask(method: str, path: str, status: int = 200, **more: Any) -> Any:  # noqa: ANN401
        headers = {**shown, **more.pop("headers", {})}
        answer = web.ask(method, f"{API}{path}", headers=headers, **more)
        assert answer.status_code == status, answer.text
        return answer.json()

    return ask


Asking = Callable[..., httpx.Response]
