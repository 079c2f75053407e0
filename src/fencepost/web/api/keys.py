"""Keys of the web door: list, make, end; and login links for browsers."""

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from fencepost.model.access import Role
from fencepost.model.duration import parse_duration
from fencepost.operations.records.key_record import (
    KeyRecord,
    NewKeyRecord,
    NewLinkRecord,
    key_record,
    new_key_record,
    new_link_record,
)
from fencepost.operations.run_queries import Store
from fencepost.operations.web_keys import (
    create_key,
    create_key_once,
    create_link,
    create_link_once,
    link_url,
    revoke_key,
)
from fencepost.ports.keys import KeyRow
from fencepost.web.api import request_models, response_models
from fencepost.web.api.paging import LIMIT, Cursor, Limit, page, pair
from fencepost.web.api.runs import IdempotencyKey
from fencepost.web.door import caller_of, door_of
from fencepost.web.login import is_behind_tls
from fencepost.web.security import access

router = APIRouter(prefix="/api/v1", tags=["keys"])
KeyKind = Annotated[str, Query(pattern="^(|key|link|session)$")]


@router.get("/keys", response_model=response_models.page_of(KeyRecord), openapi_extra=access("admin"))
async def keys(request: Request, kind: KeyKind = "", limit: Limit = LIMIT, cursor: Cursor = "") -> dict[str, object]:
    """List the keys, newest first."""
    rows = await door_of(request).desk.ask(_keys, caller_of(request).tenant, kind, pair(cursor), limit + 1)
    return page(rows, limit, key_record, lambda one: [one.created_us, one.id])


@router.post(
    "/keys",
    response_model=response_models.model_of(NewKeyRecord),
    status_code=201,
    responses={200: {"model": response_models.model_of(NewKeyRecord), "description": "It was made before."}},
)
async def make_key(
    request: Request, response: Response, ask: request_models.AskKey, idempotency_key: IdempotencyKey = None
) -> NewKeyRecord:
    """Make a key for a program; it is shown this once. The same Idempotency-Key makes no second one."""
    caller = caller_of(request)
    made = await door_of(request).desk.ask(_make_key, caller.tenant, ask, caller.actor, idempotency_key)
    response.status_code = 200 if made.key is None else 201
    return made


@router.post(
    "/keys/link",
    response_model=response_models.model_of(NewLinkRecord),
    status_code=201,
    responses={200: {"model": response_models.model_of(NewLinkRecord), "description": "It was made before."}},
)
async def make_link(
    request: Request, response: Response, ask: request_models.AskLink, idempotency_key: IdempotencyKey = None
) -> NewLinkRecord:
    """Make a login link for one browser, good once and for an hour; it is shown this once."""
    caller = caller_of(request)
    at = ask.at or f"{'https' if is_behind_tls(request) else 'http'}://{request.headers['host']}"
    made = await door_of(request).desk.ask(
        _make_link, caller.tenant, Role(ask.role), at=at, by=caller.actor, key=idempotency_key
    )
    response.status_code = 200 if made.url is None else 201
    return made


@router.delete("/keys/{key}", response_model=response_models.model_of(KeyRecord))
async def end_key(request: Request, key: str) -> KeyRecord:
    """End a key, at once."""
    caller = caller_of(request)
    return await door_of(request).desk.ask(_end_key, caller.tenant, key, caller.actor)


def _keys(store: Store, tenant: str, kind: str, before: tuple[int, str] | None, limit: int) -> list[KeyRow]:
    more = {} if before is None else {"before": before}
    return store.keys().keys(tenant, kind=kind, limit=limit, **more)


def _make_key(store: Store, tenant: str, ask: request_models.AskKey, by: str, key: str | None) -> NewKeyRecord:
    expires = timedelta(seconds=parse_duration(ask.expires)) if ask.expires else None
    wanted: dict[str, Any] = {"tenant": tenant, "name": ask.name, "role": Role(ask.role), "expires_after": expires}
    made = create_key_once(store.keys(), key, by=by, **wanted) if key else create_key(store.keys(), by=by, **wanted)
    return new_key_record(made)


def _make_link(store: Store, tenant: str, role: Role, *, at: str, by: str, key: str | None) -> NewLinkRecord:
    wanted: dict[str, Any] = {"tenant": tenant, "role": role, "by": by}
    made = create_link_once(store.keys(), key, **wanted) if key else create_link(store.keys(), **wanted)
    return new_link_record(made, link_url(at, made.secret) if made.secret else None)


def _end_key(store: Store, tenant: str, key: str, by: str) -> KeyRecord:
    return key_record(revoke_key(store.keys(), key, tenant=tenant, by=by))
