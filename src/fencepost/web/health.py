"""`/healthz`: whether the door is there, and `/readyz`: whether the store is, for those with a key."""

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse

from fencepost.operations.looking import Store
from fencepost.web.door import door_of
from fencepost.web.security import OPEN, access

router = APIRouter()


@router.get("/healthz", openapi_extra=access(OPEN), tags=["health"])
async def healthz() -> JSONResponse:
    """Say that the door is open; this asks nobody else."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz", tags=["health"])
async def readyz(request: Request) -> JSONResponse:
    """Say whether the store answers; 503 if it does not."""
    await door_of(request).desk.ask(_look)
    return JSONResponse({"status": "ok"})


def _look(store: Store) -> int:
    return store.clock_us()
