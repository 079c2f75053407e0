"""What was told by [notifications], and once more what was given up."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from fencepost.operations.notices import list_notices, notice_fields, revive_notices
from fencepost.web.api import models
from fencepost.web.api.paging import LIMIT, Limit
from fencepost.web.door import caller_of, door_of

router = APIRouter(prefix="/api/v1", tags=["notices"])
State = Annotated[str, Query(pattern="^(|waiting|sent|dead)$")]


@router.get("/notices", response_model=models.Rows)
async def notices(request: Request, state: State = "", limit: Limit = LIMIT) -> dict[str, object]:
    """List notices, newest first."""
    found = await door_of(request).desk.ask(list_notices, caller_of(request).tenant, state=state, limit=limit)
    return {"rows": [notice_fields(one) for one in found]}


@router.post("/notices/{target}/retry", response_model=models.Done)
async def retry(request: Request, target: Annotated[str, Path(max_length=200)]) -> dict[str, object]:
    """Have what was given up for one target tried once more."""
    await door_of(request).desk.ask(revive_notices, caller_of(request).tenant, target)
    return {"done": True}
