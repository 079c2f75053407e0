"""Leases, the ledger, the audit, keys, and the reports: prove, dst-check, doctor."""

import json
import os
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from fencepost import wiring
from fencepost.model.access import Role
from fencepost.model.audit import key_id
from fencepost.model.duration import parse_duration
from fencepost.model.errors import Invalid
from fencepost.model.instant import parse_instant
from fencepost.model.lease import parse_resource
from fencepost.model.ledger import Entry
from fencepost.operations.audit import Report, report_fields, verify_audit
from fencepost.operations.doctor import Finding, examine, finding_fields, patient
from fencepost.operations.dst import check, effect_fields
from fencepost.operations.fields import audit_fields
from fencepost.operations.keys import create_key, create_key_once, key_fields, revoke_key
from fencepost.operations.leases import break_lease, lease_fields, lease_place, leases_after
from fencepost.operations.ledger import STANDINGS, entry_fields, find_entry, resolve
from fencepost.operations.looking import Store, list_audit
from fencepost.operations.prove import proof_fields, prove
from fencepost.ports.keys import KeyRow
from fencepost.web.api import asking, models, record_models
from fencepost.web.api.paging import LIMIT, Cursor, Limit, names, number, page, pair, wrong_cursor
from fencepost.web.api.runs import IdempotencyKey
from fencepost.web.door import Door, caller_of, door_of
from fencepost.web.security import access

router = APIRouter(prefix="/api/v1")
Plain = Annotated[str, Query(max_length=200)]
KeyKind = Annotated[str, Query(pattern="^(|key|link|session)$")]
Standing = Annotated[str, Query(pattern=f"^(|{'|'.join(STANDINGS)})$")]


@router.get("/leases", response_model=models.Page[record_models.Lease], tags=["leases"])
async def leases(
    request: Request, resource: Plain = "", limit: Limit = LIMIT, cursor: Cursor = ""
) -> dict[str, object]:
    """List who holds what, oldest grant first."""
    ask = door_of(request).desk.ask
    found = await ask(leases_after, caller_of(request).tenant, pair(cursor), resource=resource)
    return page(found, limit, lease_fields, lease_place)


@router.post("/leases/break", response_model=models.Done, tags=["leases"])
async def break_one(request: Request, ask: asking.AskBreak) -> dict[str, object]:
    """Take a lease from its holder, whose tree then ends."""
    caller = caller_of(request)
    await door_of(request).desk.ask(_break, caller.tenant, ask, caller.actor)
    return {"done": True}


@router.get("/ledger", response_model=models.Page[record_models.LedgerEntry], tags=["ledger"])
async def ledger(
    request: Request, *, state: Standing = "", scope: Plain = "", limit: Limit = LIMIT, cursor: Cursor = ""
) -> dict[str, object]:
    """List effects that happen once, newest first; `scope` is `tenant`, or as it is listed."""
    ask = door_of(request).desk.ask
    rows = await ask(_ledger, caller_of(request).tenant, state, scope, after=names(cursor), limit=limit + 1)
    return page(rows, limit, entry_fields, lambda one: [one.begun_us, one.key, one.scope])


@router.post("/ledger/resolve", response_model=models.Done, tags=["ledger"])
async def resolve_one(request: Request, ask: asking.AskResolve) -> dict[str, object]:
    """Say what became of an ambiguous effect."""
    caller = caller_of(request)
    await door_of(request).desk.ask(_resolve, caller.tenant, ask, caller.actor)
    return {"done": True}


@router.get("/audit", response_model=models.Page[record_models.AuditEntry], tags=["audit"])
async def audit(
    request: Request, verb: Plain = "", subject: Plain = "", limit: Limit = LIMIT, cursor: Cursor = ""
) -> dict[str, object]:
    """List who did what, newest first."""
    before = number(cursor)
    rows = await door_of(request).desk.ask(
        list_audit,
        caller_of(request).tenant,
        verb=verb,
        subject=subject,
        limit=limit + 1,
        **({} if before is None else {"before_seq": before}),
    )
    return page(rows, limit, audit_fields, lambda one: one.seq)


@router.get("/audit/verify", response_model=record_models.AuditReport, tags=["audit"])
async def verify(request: Request) -> dict[str, object]:
    """Walk the chain with this machine's key, and say whether all of it is as it was."""
    return await door_of(request).desk.ask(_verify, caller_of(request).tenant)


@router.get("/prove", response_model=record_models.Proof, tags=["reports"])
async def prove_ticks(
    request: Request,
    *,
    schedule: Plain = "",
    from_: Annotated[str, Query(alias="from", max_length=200)] = "",
    until: Plain = "",
    limit: Limit = LIMIT,
) -> dict[str, object]:
    """Derive the owed ticks again and compare; `limit` is how many findings of each schedule are shown."""
    ask = door_of(request).desk.ask
    return await ask(_prove, caller_of(request).tenant, schedule=schedule, from_=from_, until=until, limit=limit)


@router.get("/dst-check", response_model=models.Page[record_models.DstEffect], tags=["reports"])
async def dst_check(
    request: Request, years: Annotated[int, Query(ge=1, le=50)] = 1, limit: Limit = LIMIT, cursor: Cursor = ""
) -> dict[str, object]:
    """Show what the coming clock changes do to the schedules."""
    found = await door_of(request).desk.ask(check, caller_of(request).tenant, years=years)
    start = number(cursor) or 0
    if start < 0:
        raise wrong_cursor()
    rows = [*enumerate(found.effects)][start : start + limit + 1]
    return page(rows, limit, lambda row: effect_fields(row[1]), lambda row: row[0] + 1)


@router.get("/doctor", response_model=record_models.Examination, tags=["reports"], openapi_extra=access("admin"))
async def doctor(request: Request) -> dict[str, object]:
    """Look for what is weak or wrong on the machine of this server."""
    return {"findings": await door_of(request).desk.ask(_doctor, caller_of(request).tenant, door_of(request))}


@router.get("/keys", response_model=models.Page[record_models.Key], tags=["keys"], openapi_extra=access("admin"))
async def keys(request: Request, kind: KeyKind = "", limit: Limit = LIMIT, cursor: Cursor = "") -> dict[str, object]:
    """List the tenant's keys, links and sessions, newest first."""
    rows = await door_of(request).desk.ask(_keys, caller_of(request).tenant, kind, pair(cursor), limit + 1)
    return page(rows, limit, key_fields, lambda one: [one.created_us, one.id])


@router.post(
    "/keys",
    response_model=record_models.NewKey,
    status_code=201,
    responses={200: {"model": record_models.NewKey, "description": "It was made before."}},
    tags=["keys"],
)
async def make_key(
    request: Request, response: Response, ask: asking.AskKey, idempotency_key: IdempotencyKey = None
) -> dict[str, object]:
    """Make a key for a program; it is shown this once. The same Idempotency-Key makes no second one."""
    caller = caller_of(request)
    made = await door_of(request).desk.ask(_make_key, caller.tenant, ask, caller.actor, idempotency_key)
    response.status_code = 200 if made["key"] is None else 201
    return made


@router.delete("/keys/{key}", response_model=record_models.Key, tags=["keys"])
async def end_key(request: Request, key: str) -> dict[str, object]:
    """End a key, at once."""
    caller = caller_of(request)
    return await door_of(request).desk.ask(_end_key, caller.tenant, key, caller.actor)


def _break(store: Store, tenant: str, ask: asking.AskBreak, by: str) -> None:
    break_lease(store, parse_resource(ask.resource), tenant=tenant, why=f"{ask.note} ({by})")


def _ledger(
    store: Store, tenant: str, state: str, scope: str, *, after: tuple[int, str, str] | None, limit: int
) -> list[Entry]:
    wanted = None if not scope else "" if scope == "tenant" else scope
    more = {} if after is None else {"after": after}
    return store.ledger().entries(tenant, scope=wanted, standing=state, limit=limit, **more)


def _resolve(store: Store, tenant: str, ask: asking.AskResolve, by: str) -> None:
    if ask.forget and ask.answer is not None:
        raise Invalid("an effect either took place, with an answer, or is forgotten; send one of the two.")
    entry = find_entry(store.ledger(), tenant, ask.key, "" if ask.scope == "tenant" else ask.scope)
    resolve(store.ledger(), entry, answer=None if ask.forget else json.dumps(ask.answer), by=by)


def _verify(store: Store, tenant: str) -> dict[str, object]:
    return report_fields(verified(store, tenant))


def verified(store: Store, tenant: str) -> Report:
    """Walk the chain with this machine's key."""
    key = wiring.audit_key(create=False)
    return verify_audit(store, tenant, keys={key_id(key): key} if key else {})


def _prove(store: Store, tenant: str, *, schedule: str, from_: str, until: str, limit: int) -> dict[str, object]:
    proof = prove(
        store,
        tenant=tenant,
        from_=parse_instant(from_) if from_ else None,
        until=parse_instant(until) if until else None,
        schedule=schedule or None,
    )
    *schedules, totals = proof_fields(proof, limit)
    return {**totals, "schedules": schedules}


def _doctor(store: Store, tenant: str, door: Door) -> list[dict[str, object]]:
    return [finding_fields(one) for one in examined(store, tenant, door)]


def examined(_: Store, tenant: str, door: Door) -> list[Finding]:
    """Look at the machine of this server."""
    from fencepost.config.load import load

    def check_config(path: str) -> None:
        load(path)

    who = patient(
        os.environ,
        tenant=tenant,
        log_folder=door.log_folder,
        open_store=door.open_store,
        check_config=check_config,
    )
    return list(examine(who))


def _keys(store: Store, tenant: str, kind: str, before: tuple[int, str] | None, limit: int) -> list[KeyRow]:
    more = {} if before is None else {"before": before}
    return store.keys().keys(tenant, kind=kind, limit=limit, **more)


def _make_key(store: Store, tenant: str, ask: asking.AskKey, by: str, key: str | None) -> dict[str, object]:
    expires = timedelta(seconds=parse_duration(ask.expires)) if ask.expires else None
    wanted: dict[str, Any] = {"tenant": tenant, "name": ask.name, "role": Role(ask.role), "expires_after": expires}
    made = create_key_once(store.keys(), key, by=by, **wanted) if key else create_key(store.keys(), by=by, **wanted)
    return {**key_fields(made.row), "key": made.secret.text if made.secret else None}


def _end_key(store: Store, tenant: str, key: str, by: str) -> dict[str, object]:
    return key_fields(revoke_key(store.keys(), key, tenant=tenant, by=by))
