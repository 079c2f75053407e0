"""The audit and its state, keys, effects in doubt, and what doctor finds."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fencepost.model.access import Role
from fencepost.model.duration import parse_duration
from fencepost.model.errors import Invalid
from fencepost.model.proof import TenantProof
from fencepost.operations.audit_verification import VerifiedAudit, audit_state
from fencepost.operations.prove import prove as prove_ticks
from fencepost.operations.run_queries import Store, list_audit
from fencepost.operations.web_keys import Made, create_key, revoke_key
from fencepost.ports.keys import KeyRow
from fencepost.web.api.paging import Cursor, number, spelled
from fencepost.web.api.records import examined, verified
from fencepost.web.dashboard.acts import Act, Field, Form, ask_about, carry_out, read_form
from fencepost.web.dashboard.pages import page
from fencepost.web.door import caller_of, door_of
from fencepost.web.security import access

router = APIRouter(include_in_schema=False)
ADMIN = access("admin")
AUDIT, KEYS, PROVED = 50, 200, 200
Plain = Annotated[str, Query(max_length=200)]
ROLES = tuple(
    (one.value, words)
    for one, words in zip(
        Role,
        (
            "read: look at everything",
            "trigger: also run, cancel, replay",
            "admin: everything",
            "lease: keep other machines' leases, and nothing else",
        ),
        strict=True,
    )
)
NEW_KEY = Act(
    "Make a key",
    "For a program, or for a person without a link. It is shown once, on the next page.",
    "Make the key",
    "/keys",
    (
        Field("name", "Name", "What or whom it is for.", required=True),
        Field("role", "Role", kind="choice", value="read", choices=ROLES),
        Field("expires", "Good for", "Such as 90d or 12h. Empty: until it is revoked."),
    ),
    current="keys",
)


@router.get("/audit")
async def audit(
    request: Request,
    *,
    verb: Plain = "",
    subject: Plain = "",
    cursor: Cursor = "",
    verify: Plain = "",
    prove: Plain = "",
) -> Response:
    """Show who did what, how far it is sealed; if asked, whether the chain is whole and every owed tick accounted for."""
    desk, tenant = door_of(request).desk, caller_of(request).tenant
    before = number(cursor)
    more = {} if before is None else {"before_seq": before}
    rows = await desk.ask(list_audit, tenant, verb=verb, subject=subject, limit=AUDIT + 1, **more)
    state = await desk.ask(audit_state, tenant)
    report: VerifiedAudit | None = await desk.ask(verified, tenant) if verify else None
    proof: TenantProof | None = await desk.ask(_prove, tenant) if prove else None
    worst_first = sorted(proof.schedules, key=lambda one: (one.holds, one.schedule)) if proof else []
    following = spelled(rows[AUDIT - 1].seq) if len(rows) > AUDIT else None
    return page(
        request,
        "audit.html",
        proof=proof,
        proved=worst_first[:PROVED],
        rows=rows[:AUDIT],
        verb=verb,
        subject=subject,
        seal=state.seal,
        loose=state.loose,
        report=report,
        following=following,
        first=not cursor,
        now_us=state.now_us,
        current="audit",
    )


@router.get("/keys", openapi_extra=ADMIN)
async def keys(request: Request) -> Response:
    """List keys and sessions."""
    rows, now_us = await door_of(request).desk.ask(_keys, caller_of(request).tenant)
    return page(request, "keys.html", rows=rows, now_us=now_us, current="keys", made=None)


@router.get("/keys/new", openapi_extra=ADMIN)
async def ask_key(request: Request) -> Response:
    """Ask what the key is for."""
    return ask_about(request, NEW_KEY)


@router.post("/keys/new", openapi_extra=ADMIN)
async def make_key(request: Request) -> Response:
    """Make a key and show it, this once."""
    desk, caller = door_of(request).desk, caller_of(request)
    form = await read_form(request)
    try:
        made = await desk.ask(_make, caller.tenant, form, caller.actor)
    except Invalid as error:
        return ask_about(request, NEW_KEY, wrong=str(error), status=400, form=form)
    rows, now_us = await desk.ask(_keys, caller.tenant)
    return page(request, "keys.html", rows=rows, now_us=now_us, current="keys", made=made)


@router.get("/keys/{key}/revoke", openapi_extra=ADMIN)
async def ask_revoke(request: Request, key: str) -> Response:
    """Ask whether to end a key."""
    return ask_about(request, revoking(key))


@router.post("/keys/{key}/revoke", openapi_extra=ADMIN)
async def do_revoke(request: Request, key: str) -> Response:
    """End a key, at once."""
    caller = caller_of(request)

    async def doing(_: Form) -> tuple[str, str]:
        await door_of(request).desk.ask(_revoke, caller.tenant, key, caller.actor)
        return "/keys", "revoked"

    return await carry_out(request, revoking(key), doing)


@router.get("/doctor", openapi_extra=ADMIN)
async def doctor(request: Request) -> Response:
    """Show what is weak or wrong on the machine of this server."""
    door = door_of(request)
    found = await door.desk.ask(examined, caller_of(request).tenant, door)
    worst_first = sorted(found, key=lambda one: ("fail", "warn", "ok").index(one.status.value))
    return page(request, "doctor.html", findings=worst_first, current="doctor")


def revoking(key: str) -> Act:
    """Describe ending a key."""
    means = "It is refused from now on, and the sessions that came from it end. This cannot be taken back."
    return Act(f"Revoke {key}?", means, "Revoke", "/keys", grave=True, current="keys")


def _prove(store: Store, tenant: str) -> TenantProof:
    return prove_ticks(store, tenant=tenant)


def _keys(store: Store, tenant: str) -> tuple[list[KeyRow], int]:
    return store.keys().keys(tenant, limit=KEYS), store.clock_us()


def _make(store: Store, tenant: str, form: Form, by: str) -> Made:
    if form.get("role", "") not in {one.value for one in Role}:
        raise Invalid("choose a role: read, trigger or admin.")
    expires = timedelta(seconds=parse_duration(form["expires"])) if form.get("expires") else None
    role = Role(form["role"])
    return create_key(store.keys(), tenant=tenant, name=form.get("name", ""), role=role, by=by, expires_after=expires)


def _revoke(store: Store, tenant: str, key: str, by: str) -> None:
    revoke_key(store.keys(), key, tenant=tenant, by=by)
