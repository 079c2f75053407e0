"""Tenants at a glance: all of them for an operator's key, its own one for every other."""

from fastapi import APIRouter, Request

from fencepost.operations.run_queries import Store
from fencepost.operations.tenants import TenantFigures, standings
from fencepost.web.api import response_models
from fencepost.web.door import caller_of, door_of

router = APIRouter(prefix="/api/v1", tags=["tenants"])


@router.get("/tenants", response_model=response_models.Tenants)
async def tenants(request: Request) -> dict[str, object]:
    """List tenants with what runs, waits, is dead or overdue there: all of them for an operator's key."""
    caller = caller_of(request)
    found = await door_of(request).desk.ask(_standings, None if caller.operator else caller.tenant)
    return {"items": found}


def _standings(store: Store, tenant: str | None) -> list[TenantFigures]:
    return standings(store, None if tenant is None else [tenant])
