"""What was told by [notifications]: what is on its way, what arrived, what was given up; and once more for the last."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fencepost.model.errors import Invalid
from fencepost.model.instants import FOREVER_US
from fencepost.operations.sent_notices import list_notices, outbox, revive_notices
from fencepost.web.api.paging import Cursor, numbers, spelled
from fencepost.web.dashboard.acts import Act, Form, ask_about, carry_out
from fencepost.web.dashboard.pages import page
from fencepost.web.door import caller_of, door_of
from fencepost.web.security import access

router = APIRouter(include_in_schema=False)
ADMIN = access("admin")
LISTED = 50
STATES = ("waiting", "sent", "dead")
Target = Annotated[str, Query(max_length=200)]


@router.get("/notices")
async def notices(request: Request, wanted: str = "", target: Target = "", cursor: Cursor = "") -> Response:
    """Show the outbox."""
    desk, tenant = door_of(request).desk, caller_of(request).tenant
    state = wanted if wanted in STATES else ""
    before = numbers(cursor) or (FOREVER_US, 0)
    rows = await desk.ask(list_notices, tenant, state=state, name=target, before=before, limit=LISTED + 1)
    health, now_us = await desk.ask(outbox, tenant)
    last = rows[LISTED - 1] if len(rows) > LISTED else None
    return page(
        request,
        "notices.html",
        rows=rows[:LISTED],
        health=health,
        states=STATES,
        wanted=state,
        target=target,
        following=spelled([last.at_us, last.seq]) if last else None,
        first=not cursor,
        now_us=now_us,
        current="notices",
    )


@router.get("/notices/retry", openapi_extra=ADMIN)
async def ask_retry(request: Request, target: Target = "") -> Response:
    """Ask whether to try once more."""
    return ask_about(request, retrying(_named(target)))


@router.post("/notices/retry", openapi_extra=ADMIN)
async def do_retry(request: Request, target: Target = "") -> Response:
    """Try once more what was given up for one target."""
    tenant = caller_of(request).tenant

    async def doing(_: Form) -> tuple[str, str]:
        await door_of(request).desk.ask(revive_notices, tenant, target)
        return "/notices", "revived"

    return await carry_out(request, retrying(_named(target)), doing)


def retrying(target: str) -> Act:
    """Describe trying once more."""
    means = "All that was given up for it is sent again by fencepost up, oldest first. Repair the target before."
    return Act(f"Try {target} once more?", means, "Try again", "/notices", current="notices")


def _named(target: str) -> str:
    if not target:
        raise Invalid("name the target that is to be tried once more.")
    return target
