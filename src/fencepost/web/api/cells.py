"""Cells for other machines: one small document each, changed only by who names the tag that it found."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response

from fencepost.model.errors import Invalid
from fencepost.operations.hosted_cells import KeptCell, list_cells, read_cell, swap_cell
from fencepost.operations.run_queries import Store
from fencepost.web.api import response_models
from fencepost.web.door import caller_of, door_of
from fencepost.web.security import access

router = APIRouter(prefix="/api/v1", tags=["cells"])
Name = Annotated[str, Path(pattern="^[a-z0-9-]{1,64}$", description="the cell's name", examples=["store"])]
Prefix = Annotated[str, Query(pattern="^[a-z0-9-]{0,64}$", description="only names that begin like this")]
IfMatch = Annotated[str | None, Header(max_length=100, description='the tag of what is expected there, as in "ab12"')]
IfNoneMatch = Annotated[str | None, Header(max_length=100, description="*: nothing is expected there")]
TAKES = access("lease")
BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}, "example": {"v": 1, "nonce": "6f2a"}}},
    }
}
MOVED: dict[int | str, dict[str, Any]] = {412: {"description": "another document is there than the expected one"}}


@router.get("/cells", response_model=response_models.CellNames, openapi_extra=TAKES)
async def cells(request: Request, prefix: Prefix = "") -> dict[str, object]:
    """List the names of the cells."""
    return {"names": await door_of(request).desk.ask(_names, caller_of(request).tenant, prefix)}


@router.get("/cells/{name}", response_model=dict[str, Any], openapi_extra=TAKES)
async def cell(request: Request, name: Name) -> Response:
    """Return a cell's document, with its tag in ETag."""
    kept = await door_of(request).desk.ask(_read, caller_of(request).tenant, name)
    return Response(kept.document, media_type="application/json", headers={"ETag": f'"{kept.tag}"'})


@router.put("/cells/{name}", response_model=response_models.Swapped, responses=MOVED, openapi_extra={**TAKES, **BODY})
async def put_cell(
    request: Request, response: Response, name: Name, if_match: IfMatch = None, if_none_match: IfNoneMatch = None
) -> dict[str, object]:
    """Put a document in the place of the one that If-Match names, or with If-None-Match: * where there is none."""
    expected = _expected(if_match, if_none_match)
    tag = await door_of(request).desk.ask(_swap, caller_of(request).tenant, name, await request.body(), expected)
    response.headers["ETag"] = f'"{tag}"'
    return {"tag": tag}


@router.delete("/cells/{name}", status_code=204, responses=MOVED, openapi_extra=TAKES)
async def delete_cell(request: Request, name: Name, if_match: IfMatch = None) -> None:
    """Delete the cell that If-Match names."""
    expected = _expected(if_match, None)
    await door_of(request).desk.ask(_swap, caller_of(request).tenant, name, None, expected)


def _expected(if_match: str | None, if_none_match: str | None) -> str | None:
    """Return the tag that is expected, None for no cell; a change that expects nothing is refused."""
    if if_match is None and if_none_match == "*":
        return None
    tag = (if_match or "").strip('"')
    if not tag or not tag.isascii() or not tag.isalnum() or if_none_match is not None:
        raise Invalid('say what is expected there: If-Match: "TAG", or If-None-Match: * for nothing.')
    return tag


def _read(store: Store, tenant: str, name: str) -> KeptCell:
    return read_cell(store.cells(), tenant, name)


def _swap(store: Store, tenant: str, name: str, document: bytes | None, expected: str | None) -> str:
    return swap_cell(store.cells(), tenant, name, document, expected=expected)


def _names(store: Store, tenant: str, prefix: str) -> list[str]:
    return list_cells(store.cells(), tenant, prefix)
