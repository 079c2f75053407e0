"""Runs for ticks that are over: first which, then how many that are, and only then are they made."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from fencepost.model.errors import FencepostError, StoreUnavailable
from fencepost.model.instants import format_instant
from fencepost.operations import schedule_registry
from fencepost.operations.backfill import Backfilled, Foreseen, backfill, foresee_backfill
from fencepost.operations.phrases import counted
from fencepost.operations.run_queries import Store, moment
from fencepost.web.dashboard.acts import Act, Field, Form, ask_about, carry_out, read_form
from fencepost.web.dashboard.filters import segment
from fencepost.web.door import Door, caller_of, door_of
from fencepost.web.problems import problem_of
from fencepost.web.security import access

router = APIRouter(include_in_schema=False, prefix="/schedules/{schedule}/backfill")
TRIGGER = access("trigger")
RANGE = (
    Field("from", "From", "Such as 2026-12-01, or 2026-12-01T06:00 in its zone, or with Z in UTC.", required=True),
    Field("until", "Until", "Where to stop; left out itself.", required=True),
    Field("current", "With the version in force now", "Else each tick runs as it was defined then.", kind="check"),
    Field("again", "Also where records were pruned", "It is not known any more what ran there.", kind="check"),
)


def choosing(schedule: str) -> Act:
    """Ask for the range."""
    means = "A run is made for each tick of a range that is over. You are told how many before any is made."
    return _act(f"Backfill {schedule}", means, "How many?", schedule, RANGE)


def confirming(schedule: str, seen: Foreseen) -> Act:
    """Say what it comes to, and ask once more."""
    assert seen.first is not None, "a backfill of nothing is not asked about"
    assert seen.last is not None, "likewise"
    means = (
        f"For its ticks from {format_instant(seen.first)} to {format_instant(seen.last)}. They go through the queue in "
        "order, within its overlap policy and budget. Those that this backfill has made before are not made again."
    )
    hidden = (*(Field(one.name, "", kind="hidden") for one in RANGE), Field("sure", "", kind="hidden", value="yes"))
    number = counted(seen.ticks, "run")
    return _act(f"Make {number} of {schedule}?", means, f"Make {number}", schedule, hidden)


@router.get("", openapi_extra=TRIGGER)
async def ask_range(request: Request, schedule: str) -> Response:
    """Ask which ticks."""
    await door_of(request).desk.ask(_find, caller_of(request).tenant, schedule)
    return ask_about(request, choosing(schedule))


@router.post("", openapi_extra=TRIGGER)
async def do_backfill(request: Request, schedule: str) -> Response:
    """Say how many runs it would be, or, when that was confirmed, make them."""
    caller, door = caller_of(request), door_of(request)
    form = await read_form(request)
    if form.get("sure") != "yes":
        return await _foretell(request, schedule, form)

    async def doing(form: Form) -> tuple[str, str]:
        made = await door.desk.ask(_backfill, caller.tenant, schedule, by=caller.actor, form=form, door=door)
        return f"/runs?schedule={segment(schedule)}", "backfilled" if made.run_ids else "backfilled-before"

    return await carry_out(request, choosing(schedule), doing)


async def _foretell(request: Request, schedule: str, form: Form) -> Response:
    caller, door = caller_of(request), door_of(request)
    try:
        seen = await door.desk.ask(_foresee, caller.tenant, schedule, by=caller.actor, form=form, door=door)
    except StoreUnavailable:
        raise
    except FencepostError as error:
        status = problem_of(error).status_code
        return ask_about(request, choosing(schedule), wrong=str(error), status=status, form=form)
    if not seen.ticks:
        return ask_about(request, choosing(schedule), wrong="there is no tick in that range that is over.", form=form)
    return ask_about(request, confirming(schedule, seen), form={**form, "sure": "yes"})


def _act(title: str, sentence: str, button: str, schedule: str, fields: tuple[Field, ...]) -> Act:
    return Act(title, sentence, button, f"/schedules/{segment(schedule)}", fields, current="schedules")


def _find(store: Store, tenant: str, schedule: str) -> schedule_registry.Listed:
    return schedule_registry.find_schedule(store.registry(), schedule, tenant=tenant)


def _foresee(store: Store, tenant: str, schedule: str, *, by: str, form: Form, door: Door) -> Foreseen:
    return foresee_backfill(store, **_wanted(store, tenant, schedule, by=by, form=form, door=door))


def _backfill(store: Store, tenant: str, schedule: str, *, by: str, form: Form, door: Door) -> Backfilled:
    return backfill(store, **_wanted(store, tenant, schedule, by=by, form=form, door=door))


def _wanted(store: Store, tenant: str, schedule: str, *, by: str, form: Form, door: Door) -> dict[str, Any]:
    return {
        "tenant": tenant,
        "schedule": schedule,
        "from_": moment(store, tenant, schedule, form.get("from", "")),
        "until": moment(store, tenant, schedule, form.get("until", "")),
        "current": bool(form.get("current")),
        "again": bool(form.get("again")),
        "new_run_id": door.new_run_id,
        "by": by,
    }
