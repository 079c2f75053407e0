"""Leases, the ledger, the audit, and the reports: prove, dst-check, doctor."""

import json
import os
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from fencepost.model.audit_chain import Seal, key_id, read_heads
from fencepost.model.effect_ledger import Entry
from fencepost.model.errors import Invalid
from fencepost.model.instants import parse_instant
from fencepost.model.lease import parse_resource
from fencepost.operations.audit_verification import VerifiedAudit, audit_head, export_part, verify_audit
from fencepost.operations.doctor import examine, patient
from fencepost.operations.doctor_finding import CheckFinding
from fencepost.operations.dst import DstEffect, check
from fencepost.operations.lease_admin import (
    break_lease,
    forget_gate,
    forget_lost,
    lease_place,
    leases_after,
)
from fencepost.operations.ledger_commands import STANDINGS, find_entry, resolve
from fencepost.operations.prove import prove
from fencepost.operations.records.audit_record import AuditEntryRecord, AuditReportRecord, audit_record, report_record
from fencepost.operations.records.lease_record import LeaseRecord, lease_record
from fencepost.operations.records.ledger_record import LedgerEntryRecord, entry_record
from fencepost.operations.records.proof_record import ProofRecord, proof_record
from fencepost.operations.run_queries import Store, list_audit
from fencepost.web.api import request_models, response_models
from fencepost.web.api.paging import BIGGEST, LIMIT, LIMIT_MAX, Cursor, Limit, names, number, page, pair, wrong_cursor
from fencepost.web.door import Door, caller_of, door_of
from fencepost.web.security import access
from fencepost.wiring import audit_sealing, machine_facts, store_choice

LINES = "application/x-ndjson"
EXPORTED = {
    "description": "Entries, each batch followed by its seal; on the last part also what is not sealed yet.",
    "content": {LINES: {"schema": {"type": "string", "description": "one JSON object a line"}}},
    "headers": {
        "Link": {"schema": {"type": "string"}, "description": '`<…>; rel="next"`: the part after it, if there is one'}
    },
}

router = APIRouter(prefix="/api/v1")
Plain = Annotated[str, Query(max_length=200)]
After = Annotated[int, Query(ge=0, le=BIGGEST, description="begin after the seal of this number")]
OnHost = Annotated[str, Query(max_length=200, description="only those of this machine or container")]
Lost = Annotated[bool, Query(description="instead, those whose holder was not heard of in time")]
Standing = Annotated[str, Query(pattern=f"^(|{'|'.join(STANDINGS)})$")]


@router.get("/leases", response_model=response_models.page_of(LeaseRecord), tags=["leases"])
async def leases(
    request: Request,
    *,
    resource: Plain = "",
    host: OnHost = "",
    lost: Lost = False,
    limit: Limit = LIMIT,
    cursor: Cursor = "",
) -> dict[str, object]:
    """List who holds what, oldest grant first; with `lost`, leases whose processes were not seen dead."""
    ask, tenant = door_of(request).desk.ask, caller_of(request).tenant
    found = await ask(leases_after, tenant, pair(cursor), resource=resource, host=host, lost=lost)
    return page(found, limit, lease_record, lease_place)


@router.post("/leases/break", response_model=response_models.Done, tags=["leases"])
async def break_one(request: Request, ask: request_models.AskBreak) -> dict[str, object]:
    """Take a lease from its holder, whose tree then ends."""
    caller = caller_of(request)
    await door_of(request).desk.ask(_break, caller.tenant, ask, caller.actor)
    return {"done": True}


@router.post("/leases/forget", response_model=response_models.Done, tags=["leases"])
async def forget_one(request: Request, ask: request_models.AskForget) -> dict[str, object]:
    """Drop what a resource owes to a gate that is gone for good: its mark is not raised there any more.

    Without a gate: forget the lost leases of a resource or of a host, of which nothing runs any more.
    """
    await door_of(request).desk.ask(_forget, caller_of(request).tenant, ask)
    return {"done": True}


@router.get("/ledger", response_model=response_models.page_of(LedgerEntryRecord), tags=["ledger"])
async def ledger(
    request: Request, *, state: Standing = "", scope: Plain = "", limit: Limit = LIMIT, cursor: Cursor = ""
) -> dict[str, object]:
    """List effects that happen once, newest first; `scope` is `tenant`, or as it is listed."""
    ask = door_of(request).desk.ask
    rows = await ask(_ledger, caller_of(request).tenant, state, scope, after=names(cursor), limit=limit + 1)
    return page(rows, limit, entry_record, lambda one: [one.begun_us, one.key, one.scope])


@router.post("/ledger/resolve", response_model=response_models.Done, tags=["ledger"])
async def resolve_one(request: Request, ask: request_models.AskResolve) -> dict[str, object]:
    """Say what became of an ambiguous effect."""
    caller = caller_of(request)
    await door_of(request).desk.ask(_resolve, caller.tenant, ask, caller.actor)
    return {"done": True}


@router.get("/audit", response_model=response_models.page_of(AuditEntryRecord), tags=["audit"])
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
    return page(rows, limit, audit_record, lambda one: one.seq)


@router.get("/audit/verify", response_model=response_models.model_of(AuditReportRecord), tags=["audit"])
async def verify(request: Request) -> AuditReportRecord:
    """Walk the chain with this machine's key, and say whether all of it is as it was."""
    return await door_of(request).desk.ask(_verify, caller_of(request).tenant)


@router.post(
    "/audit/verify",
    response_model=response_models.model_of(AuditReportRecord),
    tags=["audit"],
    openapi_extra=access("read"),
)
async def verify_with_heads(request: Request, ask: request_models.AskVerify) -> AuditReportRecord:
    """Walk the chain likewise, and say also whether its end was cut off since the heads were exported."""
    return await door_of(request).desk.ask(_verify, caller_of(request).tenant, ask.heads)


@router.get("/audit/export", response_class=Response, responses={200: EXPORTED}, tags=["audit"])
async def export(request: Request, *, head: bool = False, after: After = 0, limit: Limit = LIMIT_MAX) -> Response:
    """Return the chain as JSON lines in parts of whole seals, or with `head` only the newest seal.

    A part ends with the first seal with which it has `limit` lines or more; `Link` says where the next one begins.
    """
    text, goes_on = await door_of(request).desk.ask(
        _export, caller_of(request).tenant, head=head, after=after, limit=limit
    )
    link = f'<{request.url.path}?after={goes_on}&limit={limit}>; rel="next"'
    return Response(text, media_type=LINES, headers={} if goes_on is None else {"Link": link})


@router.get("/prove", response_model=response_models.model_of(ProofRecord), tags=["reports"])
async def prove_ticks(
    request: Request,
    *,
    schedule: Plain = "",
    from_: Annotated[str, Query(alias="from", max_length=200)] = "",
    until: Plain = "",
    limit: Limit = LIMIT,
) -> ProofRecord:
    """Derive the owed ticks again and compare; `limit` is how many findings of each schedule are shown."""
    ask = door_of(request).desk.ask
    return await ask(_prove, caller_of(request).tenant, schedule=schedule, from_=from_, until=until, limit=limit)


@router.get("/dst-check", response_model=response_models.page_of(DstEffect), tags=["reports"])
async def dst_check(
    request: Request, years: Annotated[int, Query(ge=1, le=50)] = 1, limit: Limit = LIMIT, cursor: Cursor = ""
) -> dict[str, object]:
    """Show what the coming clock changes do to the schedules."""
    found = await door_of(request).desk.ask(check, caller_of(request).tenant, years=years)
    start = number(cursor) or 0
    if start < 0:
        raise wrong_cursor()
    rows = [*enumerate(found.effects)][start : start + limit + 1]
    return page(rows, limit, lambda row: row[1], lambda row: row[0] + 1)


@router.get("/doctor", response_model=response_models.Examination, tags=["reports"], openapi_extra=access("admin"))
async def doctor(request: Request) -> dict[str, object]:
    """Look for what is weak or wrong on the machine of this server."""
    return {"findings": await door_of(request).desk.ask(examined, caller_of(request).tenant, door_of(request))}


def _break(store: Store, tenant: str, ask: request_models.AskBreak, by: str) -> None:
    break_lease(store, parse_resource(ask.resource), tenant=tenant, why=f"{ask.note} ({by})")


def _forget(store: Store, tenant: str, ask: request_models.AskForget) -> None:
    resource = parse_resource(ask.resource) if ask.resource else ""
    if resource and ask.gate:
        forget_gate(store, resource, ask.gate, tenant=tenant)
    elif ask.gate or bool(resource) == bool(ask.host):
        raise Invalid("name a resource, with or without a gate, or a host.")
    else:
        forget_lost(store, tenant, resource=resource, host=ask.host or "")


def _ledger(
    store: Store, tenant: str, state: str, scope: str, *, after: tuple[int, str, str] | None, limit: int
) -> list[Entry]:
    wanted = None if not scope else "" if scope == "tenant" else scope
    more = {} if after is None else {"after": after}
    return store.ledger().entries(tenant, scope=wanted, standing=state, limit=limit, **more)


def _resolve(store: Store, tenant: str, ask: request_models.AskResolve, by: str) -> None:
    if ask.forget and ask.answer is not None:
        raise Invalid("an effect either took place, with an answer, or is forgotten; send one of the two.")
    entry = find_entry(store.ledger(), tenant, ask.key, "" if ask.scope == "tenant" else ask.scope)
    resolve(store.ledger(), entry, answer=None if ask.forget else json.dumps(ask.answer), by=by)


def _verify(store: Store, tenant: str, heads: str = "") -> AuditReportRecord:
    try:
        kept = list(read_heads(heads.splitlines()))
    except (ValueError, RecursionError) as error:
        raise Invalid(f"heads: {error}") from None
    return report_record(verified(store, tenant, kept))


def verified(store: Store, tenant: str, heads: Sequence[Seal] = ()) -> VerifiedAudit:
    """Walk the chain with this machine's key."""
    key = audit_sealing.audit_key(create=False)
    memory = audit_sealing.kept_seals(store)
    return verify_audit(store, tenant, keys={key_id(key): key} if key else {}, heads=heads, memory=memory)


def _export(store: Store, tenant: str, *, head: bool, after: int, limit: int) -> tuple[str, int | None]:
    if head:
        return f"{audit_head(store, tenant)}\n", None
    part = export_part(store, tenant, after=after, limit=limit)
    return "".join(f"{line}\n" for line in part.lines), part.goes_on_after


def _prove(store: Store, tenant: str, *, schedule: str, from_: str, until: str, limit: int) -> ProofRecord:
    proof = prove(
        store,
        tenant=tenant,
        from_=parse_instant(from_) if from_ else None,
        until=parse_instant(until) if until else None,
        schedule=schedule or None,
    )
    return proof_record(proof, limit)


def examined(_: Store, tenant: str, door: Door) -> list[CheckFinding]:
    """Look at the machine of this server; only the tenant whose configuration it goes by sees what is on its disk."""
    from fencepost.config.load import load

    who = patient(
        os.environ,
        tenant=tenant,
        log_folder=door.log_folder,
        open_store=door.open_store,
        check_config=load,
        clock=machine_facts.system_clock(),
        ask_sqlite=machine_facts.sqlite_version,
        shows_host=store_choice.is_tenant_of_this_machine(tenant),
        memory_of=audit_sealing.kept_seals,
    )
    return list(examine(who))
