"""What may be done with a run: cancel it, replay it, take it off the desk."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from fencepost.operations.run_queries import Store, find_run
from fencepost.operations.run_requests import Requested, cancel, discard, replay
from fencepost.ports.runs import RunRow
from fencepost.web.dashboard.acts import Act, Field, Form, ask_about, carry_out
from fencepost.web.dashboard.filters import segment
from fencepost.web.door import Door, caller_of, door_of
from fencepost.web.security import access

router = APIRouter(include_in_schema=False, prefix="/runs/{run_id}")
TRIGGER = access("trigger")
VERSION = Field(
    "as_then",
    "With the definition of that day",
    "Otherwise it runs what is defined now, because that is where the repair is.",
    kind="check",
)
AGAIN = Field("again", "Even if it was replayed before", "A second replay makes a second run.", kind="check")
NOTE = Field("note", "Why", "Kept in the audit.")


def cancelling(run_id: str) -> Act:
    """Describe cancelling."""
    means = "A run that waits is taken out of the queue. One that runs is asked to stop, and its whole tree ends."
    return Act(f"Cancel {run_id}?", means, "Cancel the run", f"/runs/{segment(run_id)}", grave=True, current="runs")


def replaying(run_id: str) -> Act:
    """Describe replaying."""
    means = "A new run is made with the same tick and payload, linked to this one, with a key of its own."
    return Act(f"Replay {run_id}?", means, "Replay", f"/runs/{segment(run_id)}", (VERSION, AGAIN), current="dead")


def discarding(run_id: str) -> Act:
    """Describe discarding."""
    means = "It leaves the dead letters. The run and its log stay on record."
    return Act(f"Discard {run_id}?", means, "Discard", "/dead", (NOTE,), current="dead")


@router.get("/cancel", openapi_extra=TRIGGER)
async def ask_cancel(request: Request, run_id: str) -> Response:
    """Ask whether to cancel it."""
    return ask_about(request, cancelling(await _known(request, run_id)))


@router.post("/cancel", openapi_extra=TRIGGER)
async def do_cancel(request: Request, run_id: str) -> Response:
    """Cancel it."""
    caller = caller_of(request)

    async def doing(_: Form) -> tuple[str, str]:
        run = await door_of(request).desk.ask(_cancel, caller.tenant, run_id, caller.actor)
        return f"/runs/{segment(run.id)}", "cancelled"

    return await carry_out(request, cancelling(run_id), doing)


@router.get("/replay", openapi_extra=TRIGGER)
async def ask_replay(request: Request, run_id: str) -> Response:
    """Ask whether to replay it."""
    return ask_about(request, replaying(await _known(request, run_id)))


@router.post("/replay", openapi_extra=TRIGGER)
async def do_replay(request: Request, run_id: str) -> Response:
    """Replay it."""
    caller, door = caller_of(request), door_of(request)

    async def doing(form: Form) -> tuple[str, str]:
        made = await door.desk.ask(_replay, caller.tenant, run_id, by=caller.actor, form=form, door=door)
        return f"/runs/{segment(made.run.id)}", "earlier" if made.earlier else "replayed"

    return await carry_out(request, replaying(run_id), doing)


@router.get("/discard", openapi_extra=TRIGGER)
async def ask_discard(request: Request, run_id: str) -> Response:
    """Ask whether to take it off the desk."""
    return ask_about(request, discarding(await _known(request, run_id)))


@router.post("/discard", openapi_extra=TRIGGER)
async def do_discard(request: Request, run_id: str) -> Response:
    """Take it off the desk."""
    caller = caller_of(request)

    async def doing(form: Form) -> tuple[str, str]:
        await door_of(request).desk.ask(_discard, caller.tenant, run_id, caller.actor, form.get("note", ""))
        return "/dead", "discarded"

    return await carry_out(request, discarding(run_id), doing)


async def _known(request: Request, run_id: str) -> str:
    run = await door_of(request).desk.ask(find_run, caller_of(request).tenant, run_id)
    return run.id


def _cancel(store: Store, tenant: str, run_id: str, by: str) -> RunRow:
    return cancel(store, find_run(store, tenant, run_id).id, tenant=tenant, by=by)


def _replay(store: Store, tenant: str, run_id: str, *, by: str, form: Form, door: Door) -> Requested:
    return replay(
        store,
        find_run(store, tenant, run_id).id,
        tenant=tenant,
        new_run_id=door.new_run_id,
        by=by,
        again=bool(form.get("again")),
        as_then=bool(form.get("as_then")),
    )


def _discard(store: Store, tenant: str, run_id: str, by: str, note: str) -> None:
    discard(store, find_run(store, tenant, run_id).id, tenant=tenant, by=by, note=note)
