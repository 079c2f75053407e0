"""`/healthz`: whether the door is there, and `/readyz`: whether the store is, for those with a key."""

from fastapi import APIRouter, Request
from pydantic import BaseModel

from fencepost.operations.run_queries import Store
from fencepost.web.door import door_of
from fencepost.web.security import OPEN, access

router = APIRouter()


class Health(BaseModel):
    """It is there."""

    status: str = "ok"


@router.get("/healthz", openapi_extra=access(OPEN), tags=["health"])
async def healthz() -> Health:
    """Say that the door is open; this asks no store."""
    return Health()


@router.get("/readyz", tags=["health"])
async def readyz(request: Request) -> Health:
    """Say whether the store answers; 503 if it does not."""
    await door_of(request).desk.ask(_look)
    return Health()


def _look(store: Store) -> int:
    return store.clock_us()
