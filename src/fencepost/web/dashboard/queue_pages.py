"""Queues and their positions; dead letters; leases; and the days ahead."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from fencepost.model.errors import Invalid
from fencepost.model.lease import parse_resource
from fencepost.operations.command_history import list_commands
from fencepost.operations.days_ahead import look_ahead
from fencepost.operations.lease_admin import ListedLease, break_lease, list_leases
from fencepost.operations.project_commands import Command
from fencepost.operations.run_queries import Filter, RunListing, SeenRun, Store, list_dead, list_live
from fencepost.ports.read_rows import CommandRow
from fencepost.web.api.paging import Cursor, pair, spelled
from fencepost.web.dashboard.acts import Act, Field, Form, ask_about, carry_out
from fencepost.web.dashboard.filters import project_of_line
from fencepost.web.dashboard.pages import page
from fencepost.web.door import caller_of, door_of
from fencepost.web.security import access

router = APIRouter(include_in_schema=False)
WAITING, DEAD, LEASES, COMMANDS = 200, 25, 500, 50
EVER_US = 2**63 - 1
ADMIN = access("admin")


@router.get("/queues")
async def queues(request: Request) -> Response:
    """Show who waits in which line, and behind whom."""
    live = await door_of(request).desk.ask(list_live, caller_of(request).tenant, limit=WAITING)
    return page(request, "queues.html", lines=_lines(live), live=live, now_us=live.now_us, current="queues")


@router.get("/dead")
async def dead(request: Request, cursor: Cursor = "") -> Response:
    """Show the runs that need a person."""
    before = pair(cursor) or (EVER_US, "")
    listing = await door_of(request).desk.ask(list_dead, caller_of(request).tenant, before=before, limit=DEAD + 1)
    kept = listing.runs[:DEAD]
    following = spelled([kept[-1].run.created_us, kept[-1].run.id]) if len(listing.runs) > DEAD else None
    return page(
        request,
        "dead.html",
        rows=kept,
        following=following,
        first=not cursor,
        now_us=listing.now_us,
        current="dead",
    )


@router.get("/leases")
async def leases(request: Request) -> Response:
    """Show who holds what, and what guarded commands came to."""
    found, commands, now_us = await door_of(request).desk.ask(_leases, caller_of(request).tenant)
    return page(
        request,
        "leases.html",
        rows=found[:LEASES],
        number=len(found),
        commands=commands,
        now_us=now_us,
        current="leases",
    )


@router.get("/leases/break", openapi_extra=ADMIN)
async def ask_break(request: Request, resource: str = "") -> Response:
    """Ask whether to take a lease away."""
    return ask_about(request, breaking(parse_resource(resource)))


@router.post("/leases/break", openapi_extra=ADMIN)
async def do_break(request: Request, resource: str = "") -> Response:
    """Take a lease away."""
    caller = caller_of(request)

    async def doing(form: Form) -> tuple[str, str]:
        why = f"{form.get('note') or 'broken by hand'} ({caller.actor})"
        await door_of(request).desk.ask(_break, caller.tenant, resource, why)
        return "/leases", "broken"

    if not resource:
        raise Invalid("name the resource whose lease is to be broken.")
    return await carry_out(request, breaking(resource), doing)


@router.get("/calendar")
async def calendar(request: Request) -> Response:
    """Show the days ahead, those marked on which a clock change meets a schedule."""
    ahead = await door_of(request).desk.ask(look_ahead, caller_of(request).tenant)
    return page(request, "calendar.html", ahead=ahead, now_us=ahead.now_us, current="calendar")


def breaking(resource: str) -> Act:
    """Describe taking a lease away."""
    means = (
        "Its holder loses it at once: the holder's tree ends at its next renewal, and the next holder gets a higher "
        "fence. Do this when the holder is gone and its time to live is too long to wait."
    )
    return Act(
        f"Break the lease on {resource}?",
        means,
        "Break it",
        "/leases",
        (Field("note", "Why", "Kept with the lease."),),
        grave=True,
        current="leases",
    )


def _lines(live: RunListing) -> dict[str, list[SeenRun | Command]]:
    """Put those who wait into the lines of their projects; what works in none stands under its own agents."""
    found: dict[str, list[SeenRun | Command]] = {}
    for one in live.waiting:
        found.setdefault(project_of_line(one), []).append(one)
    return dict(sorted(found.items()))


def _leases(store: Store, tenant: str) -> tuple[list[ListedLease], list[CommandRow], int]:
    mine = [one for one in list_leases(store) if one.held.tenant == tenant]
    return mine, list_commands(store, tenant, Filter(), limit=COMMANDS), store.clock_us()


def _break(store: Store, tenant: str, resource: str, why: str) -> None:
    break_lease(store, parse_resource(resource), tenant=tenant, why=why)
