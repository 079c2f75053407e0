"""What was told by [notifications], once more what was given up, and whether a target hears us."""

import asyncio
from threading import BoundedSemaphore
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from fencepost.model.errors import QueueFull
from fencepost.model.notice import EVENTS
from fencepost.operations.records.notice_record import NoticeRecord, notice_record
from fencepost.operations.sent_notices import list_notices, revive_notices
from fencepost.web.api import response_models
from fencepost.web.api.paging import LIMIT, Cursor, Limit, numbers, page
from fencepost.web.door import caller_of, door_of
from fencepost.wiring.serving import try_notice

router = APIRouter(prefix="/api/v1", tags=["notices"])
TRY_SECONDS = 20.0  # the gatekeeper waits longer
TRIED_AT_ONCE = BoundedSemaphore(2)
Plain = Annotated[str, Query(max_length=200)]
Target = Annotated[str, Path(max_length=200)]
State = Annotated[str, Query(pattern="^(|waiting|sent|dead)$")]
Event = Annotated[str, Query(pattern=f"^(|{'|'.join(EVENTS)})$")]


@router.get("/notices", response_model=response_models.page_of(NoticeRecord))
async def notices(
    request: Request,
    *,
    state: State = "",
    event: Event = "",
    target: Plain = "",
    limit: Limit = LIMIT,
    cursor: Cursor = "",
) -> dict[str, object]:
    """List notices, newest first."""
    more = {"before": before} if (before := numbers(cursor)) else {}
    rows = await door_of(request).desk.ask(
        list_notices, caller_of(request).tenant, state=state, event=event, name=target, limit=limit + 1, **more
    )
    return page(rows, limit, notice_record, lambda one: [one.at_us, one.seq])


@router.post("/notices/{target}/retry", response_model=response_models.Done)
async def retry(request: Request, target: Target) -> dict[str, object]:
    """Have what was given up for one target tried once more."""
    await door_of(request).desk.ask(revive_notices, caller_of(request).tenant, target)
    return {"done": True}


@router.post("/notices/{target}/test", response_model=response_models.Tried)
async def test(request: Request, target: Target) -> dict[str, object]:
    """Send a test now to a target of this server's configuration, and say how it went."""
    error = await asyncio.to_thread(_try, target, caller_of(request).tenant)  # receivers never hold up the store
    return {"name": target, "told": error is None, "error": error}


def _try(target: str, tenant: str) -> str | None:
    if not TRIED_AT_ONCE.acquire(blocking=False):
        raise QueueFull("other tests are under way; try again when they are over.")
    try:
        return try_notice(target, tenant=tenant, within_seconds=TRY_SECONDS)
    finally:
        TRIED_AT_ONCE.release()
