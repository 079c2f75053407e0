"""Schedules: look, hold back, backfill; why one ran or did not; the global halt."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from fencepost.model.disposition import DispositionKind
from fencepost.model.duration import parse_duration
from fencepost.model.instants import format_instant, parse_instant, to_us
from fencepost.operations import schedule_registry as operations
from fencepost.operations.backfill import Backfilled, backfill
from fencepost.operations.command_history import why_named
from fencepost.operations.records.schedule_record import (
    PauseRecord,
    ScheduleDetailRecord,
    ScheduleRecord,
    pause_record,
    schedule_record,
    version_record,
)
from fencepost.operations.records.schedule_record import schedule_detail as full
from fencepost.operations.records.tick_record import DecidedTickRecord, answer_record, tick_record
from fencepost.operations.run_queries import Store, list_ticks, moment
from fencepost.operations.single_definition import tag_of
from fencepost.ports.read_rows import TickRow
from fencepost.ports.registry import BEYOND
from fencepost.web.api import request_models, response_models
from fencepost.web.api.paging import LIMIT, Cursor, Limit, name, numbers, page, pair, spelled
from fencepost.web.api.runs import IdempotencyKey
from fencepost.web.door import Door, caller_of, door_of
from fencepost.web.security import access

router = APIRouter(prefix="/api/v1", tags=["schedules"])
Plain = Annotated[str, Query(max_length=200)]
EVER_US = 2**63 - 1


@router.get("/schedules", response_model=response_models.page_of(ScheduleRecord))
async def schedules(request: Request, limit: Limit = LIMIT, cursor: Cursor = "") -> dict[str, object]:
    """List the schedules by name."""
    rows = await door_of(request).desk.ask(_list, caller_of(request).tenant, limit + 1, name(cursor))
    return page(rows, limit, schedule_record, lambda one: one.row.name)


@router.get(
    "/schedules/{schedule}",
    response_model=response_models.model_of(ScheduleDetailRecord),
    response_model_exclude_unset=True,
)
async def schedule_detail(request: Request, response: Response, schedule: str) -> ScheduleDetailRecord:
    """Show one schedule in full, with its next ticks."""
    found, tag = await door_of(request).desk.ask(_detail, caller_of(request).tenant, schedule)
    response.headers["ETag"] = f'"{tag}"'
    return found


@router.get("/schedules/{schedule}/history", response_model=response_models.History, response_model_exclude_unset=True)
async def history(request: Request, schedule: str, limit: Limit = LIMIT, cursor: Cursor = "") -> dict[str, object]:
    """List its versions and pauses, newest first; of each `limit` at most."""
    before = numbers(cursor) or (BEYOND, BEYOND)
    return await door_of(request).desk.ask(_history, caller_of(request).tenant, schedule, before, limit)


@router.get("/schedules/{schedule}/ticks", response_model=response_models.page_of(DecidedTickRecord))
async def ticks(
    request: Request,
    schedule: str,
    *,
    from_: Annotated[str, Query(alias="from", max_length=200)] = "",
    until: Plain = "",
    disposition: DispositionKind | None = None,
    limit: Limit = LIMIT,
    cursor: Cursor = "",
) -> dict[str, object]:
    """List the recorded ticks, newest first, with what became of each."""
    before = pair(cursor)
    rows = await door_of(request).desk.ask(
        list_ticks,
        caller_of(request).tenant,
        schedule,
        from_us=to_us(parse_instant(from_)) if from_ else 0,
        until_us=to_us(parse_instant(until)) if until else EVER_US,
        disposition=disposition.value if disposition else "",
        limit=limit + 1,
        **({"before": before} if before else {}),
    )
    return page(rows, limit, tick_record, _tick_place)


@router.get("/schedules/{schedule}/why", response_model=response_models.Answers)
async def why_it_ran(
    request: Request, schedule: str, at: Annotated[str | None, Query(max_length=200)] = None
) -> dict[str, object]:
    """Say why it ran, or did not, at an instant, or what ran under a lock (`lock:NAME`): from recorded facts."""
    asked, answers = await door_of(request).desk.ask(why_named, caller_of(request).tenant, schedule, at)
    return {"answers": [answer_record(asked, one) for one in answers]}


@router.post("/schedules/{schedule}/pause", response_model=response_models.model_of(PauseRecord))
async def pause(request: Request, schedule: str, ask: request_models.AskPause) -> PauseRecord:
    """Make no runs until it is resumed; its ticks are recorded as paused."""
    caller = caller_of(request)
    return await door_of(request).desk.ask(_pause, caller.tenant, schedule, caller.actor, ask)


@router.post("/schedules/{schedule}/resume", response_model=response_models.model_of(ScheduleRecord))
async def resume(request: Request, schedule: str) -> ScheduleRecord:
    """End the pause."""
    caller = caller_of(request)
    return await door_of(request).desk.ask(_resume, caller.tenant, schedule, caller.actor)


@router.post("/schedules/{schedule}/skip-next", response_model=response_models.Skips)
async def skip_next(request: Request, schedule: str, ask: request_models.AskSkip) -> dict[str, object]:
    """Leave out the next ticks."""
    caller = caller_of(request)
    return await door_of(request).desk.ask(_skip, caller.tenant, schedule, caller.actor, ask.count)


@router.post(
    "/schedules/{schedule}/backfill",
    response_model=response_models.model_of(Backfilled),
    openapi_extra=access("trigger"),
)
async def backfill_range(
    request: Request, schedule: str, ask: request_models.AskBackfill, idempotency_key: IdempotencyKey = None
) -> Backfilled:
    """Make a run for every tick of a range that is over; asking again makes none twice.

    What makes two requests the same one is `name`, else the Idempotency-Key, else the range itself.
    """
    caller, door = caller_of(request), door_of(request)
    named = ask.model_copy(update={"name": ask.name or idempotency_key})
    return await door.desk.ask(_backfill, caller.tenant, schedule, by=caller.actor, ask=named, door=door)


@router.post("/halt", response_model=response_models.model_of(PauseRecord))
async def halt(request: Request, ask: request_models.AskNote) -> PauseRecord:
    """Stop making and starting runs, all of the tenant's."""
    caller = caller_of(request)
    return await door_of(request).desk.ask(_halt, caller.tenant, caller.actor, ask.note)


@router.post("/unhalt", response_model=response_models.Done)
async def unhalt(request: Request) -> dict[str, object]:
    """Go on."""
    caller = caller_of(request)
    await door_of(request).desk.ask(_unhalt, caller.tenant, caller.actor)
    return {"done": True}


def _detail(store: Store, tenant: str, schedule: str) -> tuple[ScheduleDetailRecord, str]:
    return full(store, tenant, schedule), tag_of(store.registry(), "schedule", schedule, tenant=tenant)


def _list(store: Store, tenant: str, limit: int, after: str) -> list[operations.Listed]:
    return operations.list_schedules(store.registry(), tenant=tenant, limit=limit, after=after)


def _history(store: Store, tenant: str, schedule: str, before: tuple[int, int], limit: int) -> dict[str, object]:
    found = operations.history(store.registry(), schedule, tenant=tenant, before=before, limit=limit + 1)
    versions, pauses = found[0][:limit], found[1][:limit]
    last = [versions[-1].version if versions else 0, pauses[-1].id if pauses else 0]  # 0: nothing is before
    more = any(len(rows) > limit for rows in found)
    return {
        "versions": [*map(version_record, versions)],
        "pauses": [*map(pause_record, pauses)],
        "next": spelled(last) if more else None,
    }


def _tick_place(tick: TickRow) -> object:
    return [tick.tick_us, tick.occurrence]


def _pause(store: Store, tenant: str, schedule: str, by: str, ask: request_models.AskPause) -> PauseRecord:
    until = moment(store, tenant, schedule, ask.until) if ask.until else None
    done = operations.pause_schedule(store.registry(), schedule, tenant=tenant, until=until, note=ask.note, actor=by)
    return pause_record(done)


def _resume(store: Store, tenant: str, schedule: str, by: str) -> ScheduleRecord:
    operations.resume_schedule(store.registry(), schedule, tenant=tenant, actor=by)
    return schedule_record(operations.find_schedule(store.registry(), schedule, tenant=tenant))


def _skip(store: Store, tenant: str, schedule: str, by: str, count: int) -> dict[str, object]:
    found = operations.skip_next(store.registry(), schedule, count, tenant=tenant, actor=by)
    return {"name": schedule, "skips": [format_instant(one) for one in found]}


def _backfill(
    store: Store, tenant: str, schedule: str, *, by: str, ask: request_models.AskBackfill, door: Door
) -> Backfilled:
    return backfill(
        store,
        tenant=tenant,
        schedule=schedule,
        from_=moment(store, tenant, schedule, ask.from_),
        until=moment(store, tenant, schedule, ask.until),
        current=ask.current,
        name=ask.name,
        limit=ask.limit,
        stagger=timedelta(seconds=parse_duration(ask.stagger)) if ask.stagger else None,
        again=ask.again,
        new_run_id=door.new_run_id,
        by=by,
    )


def _halt(store: Store, tenant: str, by: str, note: str) -> PauseRecord:
    return pause_record(operations.halt(store.registry(), tenant=tenant, note=note, actor=by))


def _unhalt(store: Store, tenant: str, by: str) -> None:
    operations.unhalt(store.registry(), tenant=tenant, actor=by)
