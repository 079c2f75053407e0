"""`/completions/<tenant>/<run>`: what the service that carries a run out elsewhere reports: heartbeats, and the end."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel

from fencepost.operations.completion import KeptCompletion, complete_run
from fencepost.operations.run_queries import Store
from fencepost.web.door import Door, door_of
from fencepost.web.security import OPEN, access

router = APIRouter(tags=["completions"])
Name = Annotated[str, Path(max_length=200)]


class CompletionAnswer(BaseModel):
    """What stands now."""

    run_id: str
    state: str


@router.post("/completions/{tenant}/{run_id}", response_model=CompletionAnswer, openapi_extra=access(OPEN))
async def complete(request: Request, tenant: Name, run_id: Name) -> dict[str, str]:
    """Take a heartbeat, or the end of a run; 409 means that the run belongs to another attempt now: stop."""
    door = door_of(request)
    body = await request.body()
    heard = await door.desk.ask(_complete, run_id, tenant, dict(request.headers), body, door)
    return {"run_id": heard.run_id, "state": heard.state}


def _complete(  # noqa: PLR0917  # two callers' words
    store: Store, run_id: str, tenant: str, headers: dict[str, str], body: bytes, door: Door
) -> KeptCompletion:
    return complete_run(
        store,
        run_id,
        tenant=tenant,
        headers=headers,
        body=body,
        now_seconds=door.now_seconds(),
        fetch_secret=door.fetch_secret,
    )
