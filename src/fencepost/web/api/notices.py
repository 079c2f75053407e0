"""What was told by [notifications], and once more what was given up."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from fencepost.model.notice import EVENTS
from fencepost.operations.notices import list_notices, notice_fields, revive_notices
from fencepost.web.api import models, record_models
from fencepost.web.api.paging import LIMIT, Cursor, Limit, numbers, page
from fencepost.web.door import caller_of, door_of

router = APIRouter(prefix="/api/v1", tags=["notices"])
Plain = Annotated[str, Query(max_length=200)]
State = Annotated[str, Query(pattern="^(|waiting|sent|dead)$")]
Event = Annotated[str, Query(pattern=f"^(|{'|'.join(EVENTS)})$")]


@router.get("/notices", response_model=models.Page[record_models.Notice])
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
    return page(rows, limit, notice_fields, lambda one: [one.at_us, one.seq])


@router.post("/notices/{target}/retry", response_model=models.Done)
async def retry(request: Request, target: Annotated[str, Path(max_length=200)]) -> dict[str, object]:
    """Have what was given up for one target tried once more."""
    await door_of(request).desk.ask(revive_notices, caller_of(request).tenant, target)
    return {"done": True}
