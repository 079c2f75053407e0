"""The first page: how it all stands; and the switch that stops everything."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from fencepost.operations.board import look_around
from fencepost.operations.run_queries import Store
from fencepost.operations.schedule_plots import now_plots
from fencepost.operations.schedule_registry import halt, unhalt
from fencepost.web.dashboard.acts import Act, Field, Form, ask_about, carry_out
from fencepost.web.dashboard.pages import page
from fencepost.web.door import caller_of, door_of
from fencepost.web.security import access

router = APIRouter(include_in_schema=False)
ADMIN = access("admin")
HALT = Act(
    "Halt everything?",
    "No run is made or started any more, until a person says to go on. What runs goes on to its end; ticks are "
    "recorded as paused.",
    "Halt everything",
    "/",
    (Field("note", "Why", "Others will read this."),),
    grave=True,
)
UNHALT = Act("Go on?", "Schedules make runs again, and what waits is started.", "Go on", "/")


@router.get("/")
async def now(request: Request) -> Response:
    """Show what runs, what waits and behind whom, what comes next, and what went wrong lately."""
    desk, tenant = door_of(request).desk, caller_of(request).tenant
    board, plots = await desk.ask(look_around, tenant), await desk.ask(now_plots, tenant)
    return page(request, "now.html", board=board, plots=plots, now_us=board.now_us, current="now")


@router.get("/halt", openapi_extra=ADMIN)
async def ask_halt(request: Request) -> Response:
    """Ask whether everything shall stop."""
    return ask_about(request, HALT)


@router.post("/halt", openapi_extra=ADMIN)
async def do_halt(request: Request) -> Response:
    """Stop everything."""
    caller = caller_of(request)

    async def doing(form: Form) -> tuple[str, str]:
        await door_of(request).desk.ask(_halt, caller.tenant, caller.actor, form.get("note", ""))
        return "/", "halted"

    return await carry_out(request, HALT, doing)


@router.get("/unhalt", openapi_extra=ADMIN)
async def ask_unhalt(request: Request) -> Response:
    """Ask whether to go on."""
    return ask_about(request, UNHALT)


@router.post("/unhalt", openapi_extra=ADMIN)
async def do_unhalt(request: Request) -> Response:
    """Go on."""
    caller = caller_of(request)

    async def doing(_: Form) -> tuple[str, str]:
        await door_of(request).desk.ask(_unhalt, caller.tenant, caller.actor)
        return "/", "unhalted"

    return await carry_out(request, UNHALT, doing)


def _halt(store: Store, tenant: str, by: str, note: str) -> None:
    halt(store.registry(), tenant=tenant, note=note, actor=by)


def _unhalt(store: Store, tenant: str, by: str) -> None:
    unhalt(store.registry(), tenant=tenant, actor=by)
