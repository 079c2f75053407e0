"""What may be done with a schedule: pause, resume, leave out the next ticks, run now; backfill has a file of its own."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from fencepost.model.errors import Invalid
from fencepost.operations import schedule_registry
from fencepost.operations.run_queries import Store, moment
from fencepost.operations.run_requests import Requested, request_run
from fencepost.web.dashboard.acts import Act, Field, Form, ask_about, carry_out
from fencepost.web.dashboard.filters import segment
from fencepost.web.door import Door, caller_of, door_of
from fencepost.web.security import access

router = APIRouter(include_in_schema=False, prefix="/schedules/{schedule}")
ADMIN, TRIGGER = access("admin"), access("trigger")
NOTE = Field("note", "Why", "Others will read this.")
UNTIL = Field(
    "until", "Until", "Empty: until it is resumed. Else such as 2026-12-01T06:00 in its zone, or with Z in UTC."
)
COUNT = Field("count", "How many ticks", "0 takes it back.", kind="number", value="1", required=True)


def act(title: str, sentence: str, button: str, schedule: str, *fields: Field) -> Act:
    """Describe an act on a schedule."""
    return Act(title, sentence, button, f"/schedules/{segment(schedule)}", fields, current="schedules")


def pausing(schedule: str) -> Act:
    """Describe pausing."""
    means = "It makes no runs; each tick is recorded as paused. A run that is under way goes on."
    return act(f"Pause {schedule}?", means, "Pause", schedule, NOTE, UNTIL)


def resuming(schedule: str) -> Act:
    """Describe resuming."""
    return act(f"Resume {schedule}?", "Its ticks make runs again, from the next one on.", "Resume", schedule)


def skipping(schedule: str) -> Act:
    """Describe leaving ticks out."""
    means = "Its next ticks make no run; each is recorded as paused, with your name."
    return act(f"Skip the next ticks of {schedule}?", means, "Skip", schedule, COUNT)


def running(schedule: str, key: str = "") -> Act:
    """Describe running now; the key makes one run of one form, however often it is sent."""
    means = "One run goes into the queue now, under the schedule's own overlap policy. Its ticks are not touched."
    return act(f"Run {schedule} now?", means, "Run now", schedule, Field("key", "", kind="hidden", value=key))


@router.get("/pause", openapi_extra=ADMIN)
async def ask_pause(request: Request, schedule: str) -> Response:
    """Ask whether to pause it."""
    await _known(request, schedule)
    return ask_about(request, pausing(schedule))


@router.post("/pause", openapi_extra=ADMIN)
async def do_pause(request: Request, schedule: str) -> Response:
    """Pause it."""
    caller, about = caller_of(request), pausing(schedule)

    async def doing(form: Form) -> tuple[str, str]:
        await door_of(request).desk.ask(_pause, caller.tenant, schedule, caller.actor, form)
        return about.back, "paused"

    return await carry_out(request, about, doing)


@router.get("/resume", openapi_extra=ADMIN)
async def ask_resume(request: Request, schedule: str) -> Response:
    """Ask whether to resume it."""
    await _known(request, schedule)
    return ask_about(request, resuming(schedule))


@router.post("/resume", openapi_extra=ADMIN)
async def do_resume(request: Request, schedule: str) -> Response:
    """Resume it."""
    caller, about = caller_of(request), resuming(schedule)

    async def doing(_: Form) -> tuple[str, str]:
        await door_of(request).desk.ask(_resume, caller.tenant, schedule, caller.actor)
        return about.back, "resumed"

    return await carry_out(request, about, doing)


@router.get("/skip-next", openapi_extra=ADMIN)
async def ask_skip(request: Request, schedule: str) -> Response:
    """Ask how many ticks to leave out."""
    await _known(request, schedule)
    return ask_about(request, skipping(schedule))


@router.post("/skip-next", openapi_extra=ADMIN)
async def do_skip(request: Request, schedule: str) -> Response:
    """Leave them out."""
    caller, about = caller_of(request), skipping(schedule)

    async def doing(form: Form) -> tuple[str, str]:
        count = whole(form.get("count", ""))
        await door_of(request).desk.ask(_skip, caller.tenant, schedule, caller.actor, count)
        return about.back, "skipped" if count else "unskipped"

    return await carry_out(request, about, doing)


@router.get("/run", openapi_extra=TRIGGER)
async def ask_run(request: Request, schedule: str) -> Response:
    """Ask whether to run it now."""
    await _known(request, schedule)
    return ask_about(request, running(schedule, door_of(request).new_run_id()))


@router.post("/run", openapi_extra=TRIGGER)
async def do_run(request: Request, schedule: str) -> Response:
    """Run it now, through the same queue."""
    caller, door = caller_of(request), door_of(request)

    async def doing(form: Form) -> tuple[str, str]:
        key = f"dashboard:{form['key']}" if form.get("key") else None
        made = await door.desk.ask(_run, caller.tenant, schedule, by=caller.actor, key=key, door=door)
        return f"/runs/{segment(made.run.id)}", "earlier" if made.earlier else "asked"

    return await carry_out(request, running(schedule), doing)


def whole(text: str) -> int:
    """Read a number of ticks."""
    if not (text.isascii() and text.isdigit()):
        raise Invalid(f"{text!r} is no whole number.")
    return int(text[:12])


async def _known(request: Request, schedule: str) -> None:
    await door_of(request).desk.ask(_find, caller_of(request).tenant, schedule)


def _find(store: Store, tenant: str, schedule: str) -> schedule_registry.Listed:
    return schedule_registry.find_schedule(store.registry(), schedule, tenant=tenant)


def _pause(store: Store, tenant: str, schedule: str, by: str, form: Form) -> None:
    until = moment(store, tenant, schedule, form["until"]) if form.get("until") else None
    note = form.get("note", "")
    schedule_registry.pause_schedule(store.registry(), schedule, tenant=tenant, until=until, note=note, actor=by)


def _resume(store: Store, tenant: str, schedule: str, by: str) -> None:
    schedule_registry.resume_schedule(store.registry(), schedule, tenant=tenant, actor=by)


def _skip(store: Store, tenant: str, schedule: str, by: str, count: int) -> None:
    schedule_registry.skip_next(store.registry(), schedule, count, tenant=tenant, actor=by)


def _run(store: Store, tenant: str, schedule: str, *, by: str, key: str | None, door: Door) -> Requested:
    _find(store, tenant, schedule)  # an agent of that name is not meant here
    return request_run(store, tenant=tenant, target=schedule, key=key, new_run_id=door.new_run_id, by=by)
