"""Leases, the ledger, the audit, keys, and the reports: prove, dst-check, doctor."""

import json
import os
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request

from fencepost import wiring
from fencepost.model.access import Role
from fencepost.model.audit import key_id
from fencepost.model.duration import parse_duration
from fencepost.model.errors import Invalid
from fencepost.model.instant import parse_instant
from fencepost.model.lease import parse_resource
from fencepost.operations.audit import Report, report_fields, verify_audit
from fencepost.operations.doctor import Finding, examine, finding_fields, patient
from fencepost.operations.dst import check, effect_fields
from fencepost.operations.fields import audit_fields
from fencepost.operations.keys import create_key, key_fields, revoke_key
from fencepost.operations.leases import Listed, break_lease, lease_fields, list_leases
from fencepost.operations.ledger import STANDINGS, entry_fields, find_entry, resolve
from fencepost.operations.looking import Store, list_audit
from fencepost.operations.prove import proof_fields, prove
from fencepost.web.api import models
from fencepost.web.api.paging import LIMIT, Cursor, Limit, number, page
from fencepost.web.door import Door, caller_of, door_of
from fencepost.web.security import access

router = APIRouter(prefix="/api/v1")
Plain = Annotated[str, Query(max_length=200)]
Standing = Annotated[str, Query(pattern=f"^(|{'|'.join(STANDINGS)})$")]


@router.get("/leases", response_model=models.Page[models.Lease], tags=["leases"])
async def leases(request: Request, limit: Limit = LIMIT) -> dict[str, object]:
    """List who holds what, oldest grant first."""
    found = await door_of(request).desk.ask(_leases, caller_of(request).tenant)
    return {"items": [lease_fields(one) for one in found[:limit]]}


@router.post("/leases/break", response_model=models.Done, tags=["leases"])
async def break_one(request: Request, ask: models.AskBreak) -> dict[str, object]:
    """Take a lease from its holder, whose tree then ends."""
    caller = caller_of(request)
    await door_of(request).desk.ask(_break, caller.tenant, ask, caller.actor)
    return {"done": True}


@router.get("/ledger", response_model=models.Page[models.LedgerEntry], tags=["ledger"])
async def ledger(request: Request, state: Standing = "", limit: Limit = LIMIT) -> dict[str, object]:
    """List effects that happen once, newest first."""
    return {"items": await door_of(request).desk.ask(_ledger, caller_of(request).tenant, state, limit)}


@router.post("/ledger/resolve", response_model=models.Done, tags=["ledger"])
async def resolve_one(request: Request, ask: models.AskResolve) -> dict[str, object]:
    """Say what became of an ambiguous effect."""
    caller = caller_of(request)
    await door_of(request).desk.ask(_resolve, caller.tenant, ask, caller.actor)
    return {"done": True}


@router.get("/audit", response_model=models.Page[models.AuditEntry], tags=["audit"])
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


@router.get("/audit/verify", tags=["audit"])
async def verify(request: Request) -> dict[str, object]:
    """Walk the chain with this machine's key, and say whether all of it is as it was."""
    return await door_of(request).desk.ask(_verify, caller_of(request).tenant)


@router.get("/prove", response_model=models.Rows, tags=["reports"])
async def prove_ticks(
    request: Request,
    schedule: Plain = "",
    from_: Annotated[str, Query(alias="from", max_length=200)] = "",
    until: Plain = "",
    limit: Limit = LIMIT,
) -> dict[str, object]:
    """Derive the owed ticks again and compare; the sums are the last row."""
    tenant = caller_of(request).tenant
    return {
        "rows": await door_of(request).desk.ask(
            _prove, tenant, schedule=schedule, from_=from_, until=until, limit=limit
        )
    }


@router.get("/dst-check", response_model=models.Rows, tags=["reports"])
async def dst_check(
    request: Request, years: Annotated[int, Query(ge=1, le=50)] = 1, limit: Limit = LIMIT
) -> dict[str, object]:
    """Show what the coming clock changes do to the schedules."""
    found = await door_of(request).desk.ask(check, caller_of(request).tenant, years=years)
    return {"rows": [effect_fields(one) for one in found.effects[:limit]]}


@router.get("/doctor", response_model=models.Rows, tags=["reports"], openapi_extra=access("admin"))
async def doctor(request: Request) -> dict[str, object]:
    """Look for what is weak or wrong on the machine of this server."""
    return {"rows": await door_of(request).desk.ask(_doctor, caller_of(request).tenant, door_of(request))}


@router.get("/keys", response_model=models.Page[models.Key], tags=["keys"], openapi_extra=access("admin"))
async def keys(request: Request, limit: Limit = LIMIT) -> dict[str, object]:
    """List the tenant's keys, newest first."""
    rows = await door_of(request).desk.ask(_keys, caller_of(request).tenant, limit)
    return {"items": rows}


@router.post("/keys", response_model=models.NewKey, status_code=201, tags=["keys"])
async def make_key(request: Request, ask: models.AskKey) -> dict[str, object]:
    """Make a key for a program; it is shown this once."""
    caller = caller_of(request)
    return await door_of(request).desk.ask(_make_key, caller.tenant, ask, caller.actor)


@router.delete("/keys/{key}", response_model=models.Key, tags=["keys"])
async def end_key(request: Request, key: str) -> dict[str, object]:
    """End a key, at once."""
    caller = caller_of(request)
    return await door_of(request).desk.ask(_end_key, caller.tenant, key, caller.actor)


def _leases(store: Store, tenant: str) -> list[Listed]:
    return [one for one in list_leases(store) if one.held.tenant == tenant]


def _break(store: Store, tenant: str, ask: models.AskBreak, by: str) -> None:
    break_lease(store, parse_resource(ask.resource), tenant=tenant, why=f"{ask.note} ({by})")


def _ledger(store: Store, tenant: str, state: str, limit: int) -> list[dict[str, object]]:
    return [entry_fields(one) for one in store.ledger().entries(tenant, standing=state, limit=limit)]


def _resolve(store: Store, tenant: str, ask: models.AskResolve, by: str) -> None:
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


def _prove(store: Store, tenant: str, *, schedule: str, from_: str, until: str, limit: int) -> list[dict[str, object]]:
    proof = prove(
        store,
        tenant=tenant,
        from_=parse_instant(from_) if from_ else None,
        until=parse_instant(until) if until else None,
        schedule=schedule or None,
    )
    return list(proof_fields(proof, limit))


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


def _keys(store: Store, tenant: str, limit: int) -> list[dict[str, object]]:
    return [key_fields(row) for row in store.keys().keys(tenant, limit=limit)]


def _make_key(store: Store, tenant: str, ask: models.AskKey, by: str) -> dict[str, object]:
    expires = timedelta(seconds=parse_duration(ask.expires)) if ask.expires else None
    made = create_key(store.keys(), tenant=tenant, name=ask.name, role=Role(ask.role), by=by, expires_after=expires)
    return {**key_fields(made.row), "key": made.secret.text}


def _end_key(store: Store, tenant: str, key: str, by: str) -> dict[str, object]:
    return key_fields(revoke_key(store.keys(), key, tenant=tenant, by=by))
