"""`/hooks/<tenant>/<name>`: signed requests from outside. 202 means that the run is kept for good."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel
from starlette.responses import JSONResponse, PlainTextResponse, Response

from fencepost.model.errors import FencepostError, QueueFull
from fencepost.model.webhook import Hook
from fencepost.operations.run_queries import Store
from fencepost.operations.webhook_delivery import HookRequest, Received, receive
from fencepost.web.door import Door, door_of
from fencepost.web.requests import headers_of
from fencepost.web.security import OPEN, access

router = APIRouter(tags=["hooks"])
HOOKS_MAX = 10_000
KEPT = ("accepted", "coalesced")
NAME_MAX = 200
Name = Annotated[str, Path(max_length=NAME_MAX)]


class DeliveryAnswer(BaseModel):
    """What became of a delivery."""

    status: str
    run_id: str | None = None


class Pace:
    """How many genuine deliveries each hook may make in a minute, as far as this process sees them."""

    def __init__(self) -> None:
        self._minute = 0
        self._seen: Counter[tuple[str, str]] = Counter()

    def check(self, tenant: str, name: str, hook: Hook, now_seconds: int) -> None:
        """Count one more, or refuse it."""
        minute = now_seconds // 60
        if minute != self._minute or len(self._seen) > HOOKS_MAX:
            self._minute = minute
            self._seen.clear()
        if self._seen[tenant, name] >= hook.rate_per_minute:
            raise QueueFull(f"this hook takes {hook.rate_per_minute} deliveries a minute; come back later.")
        self._seen[tenant, name] += 1


pace = Pace()


@router.post(
    "/hooks/{tenant}/{name}",
    status_code=202,
    response_model=DeliveryAnswer,
    responses={
        200: {
            "model": DeliveryAnswer,
            "description": "It came before, or is not for the hook.",
            "content": {"text/plain": {}},
        }
    },
    openapi_extra=access(OPEN),
)
async def deliver(request: Request, tenant: Name, name: Name) -> Response:
    """Take a signed delivery: 202 for what is kept for good, 200 for what came before or is not for the hook."""
    door = door_of(request)
    delivery = HookRequest(_single(request), await request.body())
    work = partial(_deliver, tenant=tenant, name=name, door=door)
    got = await door.desk.ask_together(work, delivery, line=(tenant, name), size=len(delivery.body))
    if got.challenge is not None:
        return PlainTextResponse(got.challenge)
    return JSONResponse({"status": got.status, "run_id": got.run_id}, 202 if got.status in KEPT else 200)


def _deliver(
    store: Store, deliveries: Sequence[HookRequest], *, tenant: str, name: str, door: Door
) -> list[Received | FencepostError]:
    now = door.now_seconds()
    return receive(
        store,
        deliveries,
        tenant=tenant,
        name=name,
        now_seconds=now,
        fetch_secret=door.fetch_secret,
        new_run_ids=door.new_run_ids,
        admit=lambda hook: pace.check(tenant, name, hook, now),
    )


def _single(request: Request) -> dict[str, str]:
    """Return the headers that came once; of one that came twice it is not known which was signed."""
    return {name: value for name, value in headers_of(request.scope).items() if value is not None}
