"""Runs: look, ask for one, replay, cancel, discard; what waits; dead letters; what was printed."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from fencepost.model.instants import parse_instant, to_us
from fencepost.operations.attempt_logs import content, log_of
from fencepost.operations.bulk_requests import WantedRun, request_many
from fencepost.operations.queue_paging import LivePlace, live_after, live_place
from fencepost.operations.records import Record
from fencepost.operations.records.run_record import (
    DeadLetterRecord,
    GuardedCommandRecord,
    LiveCommandRecord,
    LiveRunRecord,
    RunDetailRecord,
    RunMadeRecord,
    RunRecord,
    dead_record,
    live_record,
    made_record,
    run_record,
)
from fencepost.operations.run_list import any_record, list_past, listed_record, past_place, show_any
from fencepost.operations.run_queries import (
    Detail,
    Filter,
    Store,
    find_run,
    list_dead,
    moment,
    show,
    with_attempts,
)
from fencepost.operations.run_requests import Requested, cancel, check_same, discard, replay, request_run
from fencepost.ports.requests import TriggeredRun
from fencepost.web.api import request_models, response_models
from fencepost.web.api.paging import LIMIT, Cursor, Limit, page, pair, turn
from fencepost.web.door import Door, caller_of, door_of
from fencepost.web.security import access

router = APIRouter(prefix="/api/v1", tags=["runs"])
TRIGGER = access("trigger")
LOG_BYTES_MAX = 4 * 1_048_576  # of one answer
Plain = Annotated[str, Query(max_length=200)]
State = Annotated[str, Query(pattern="^(|ready|running|succeeded|dead|cancelled)$")]
LIVE = response_models.page_of(LiveRunRecord, LiveCommandRecord)
ANY = response_models.any_of(RunDetailRecord, GuardedCommandRecord, LiveRunRecord, LiveCommandRecord)
IdempotencyKey = Annotated[str | None, Header(min_length=1, max_length=512)]


@router.get("/runs", response_model=response_models.page_of(RunRecord, GuardedCommandRecord))
async def runs(
    request: Request,
    *,
    schedule: Plain = "",
    agent: Plain = "",
    state: State = "",
    since: Plain = "",
    limit: Limit = LIMIT,
    cursor: Cursor = "",
) -> dict[str, object]:
    """List runs and guarded commands, newest first."""
    since_us = to_us(parse_instant(since)) if since else 0
    wanted = Filter(schedule, agent, state, since_us, *([before] if (before := pair(cursor)) else []))
    past = await door_of(request).desk.ask(list_past, caller_of(request).tenant, wanted, limit=limit + 1)
    return page(past.found, limit, listed_record, past_place)


@router.post(
    "/runs",
    response_model=response_models.model_of(RunMadeRecord),
    status_code=202,
    responses={200: {"model": response_models.model_of(RunMadeRecord), "description": "It was there before."}},
    openapi_extra=TRIGGER,
)
async def run(
    request: Request, response: Response, ask: request_models.AskRun, idempotency_key: IdempotencyKey = None
) -> RunMadeRecord:
    """Run an agent or a schedule now, through the same queue; 202 when it is kept for good, 200 if it was before."""
    caller, door = caller_of(request), door_of(request)
    made = await door.desk.ask(_request, ask, caller.tenant, by=caller.actor, key=idempotency_key, door=door)
    response.status_code = 200 if made.earlier else 202
    return made_record(made)


@router.post("/batches", response_model=response_models.Batch, status_code=202, openapi_extra=TRIGGER)
async def run_many(
    request: Request, ask: request_models.AskRuns, idempotency_key: IdempotencyKey = None
) -> dict[str, object]:
    """Run an agent once for each payload, in one durable commit or not at all; the same key makes none twice."""
    caller, door = caller_of(request), door_of(request)
    made = await door.desk.ask(_request_many, ask, caller.tenant, by=caller.actor, key=idempotency_key, door=door)
    return {"runs": made}


@router.get("/runs/{run_id}", response_model=ANY)
async def run_detail(request: Request, run_id: str) -> Record:
    """Show everything about one run, or a guarded command; the beginning of its id is enough, if no other begins so."""
    door = door_of(request)
    return await door.desk.ask(_detail, caller_of(request).tenant, run_id, door.log_folder)


@router.get("/runs/{run_id}/log", response_model=response_models.RunLog)
async def run_log(
    request: Request,
    run_id: str,
    lines: Annotated[int, Query(ge=1, le=100_000)] = 1_000,
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
) -> dict[str, object]:
    """Return what an attempt has printed, the last one unless another is asked for."""
    door = door_of(request)
    return await door.desk.ask(
        _log, caller_of(request).tenant, run_id, folder=door.log_folder, lines=lines, attempt=attempt
    )


@router.post("/runs/{run_id}/cancel", response_model=response_models.model_of(RunRecord), openapi_extra=TRIGGER)
async def cancel_run(request: Request, run_id: str) -> RunRecord:
    """Take a run out of the queue, or ask it to stop."""
    caller = caller_of(request)
    return await door_of(request).desk.ask(_cancel, caller.tenant, run_id, caller.actor)


@router.post("/runs/{run_id}/replay", response_model=response_models.model_of(RunMadeRecord), openapi_extra=TRIGGER)
async def replay_run(
    request: Request, run_id: str, ask: request_models.AskReplay, idempotency_key: IdempotencyKey = None
) -> RunMadeRecord:
    """Make a new run of a dead letter: the same tick and payload, a key of its own."""
    caller, door = caller_of(request), door_of(request)
    made = await door.desk.ask(_replay, caller.tenant, run_id, by=caller.actor, ask=ask, key=idempotency_key, door=door)
    return made_record(made)


@router.post("/runs/{run_id}/discard", response_model=response_models.model_of(RunRecord), openapi_extra=TRIGGER)
async def discard_run(request: Request, run_id: str, ask: request_models.AskNote | None = None) -> RunRecord:
    """Take a dead letter off the desk; the run stays in the records, and the note in the audit."""
    caller = caller_of(request)
    note = ask.note if ask else ""
    return await door_of(request).desk.ask(_discard, caller.tenant, run_id, by=caller.actor, note=note)


@router.get("/dead", response_model=response_models.page_of(DeadLetterRecord))
async def dead(request: Request, schedule: Plain = "", limit: Limit = LIMIT, cursor: Cursor = "") -> dict[str, object]:
    """List the dead letters that are still open, newest first."""
    more = {"before": before} if (before := pair(cursor)) else {}
    ask = door_of(request).desk.ask
    listing = await ask(list_dead, caller_of(request).tenant, schedule=schedule, limit=limit + 1, **more)
    return page(listing.runs, limit, dead_record, past_place)


@router.get("/ps", response_model=LIVE)
async def ps(request: Request, project: Plain = "", limit: Limit = LIMIT, cursor: Cursor = "") -> dict[str, object]:
    """List what runs, and then what waits, in the order in which it will be leased."""
    ask = door_of(request).desk.ask
    return await ask(_live, caller_of(request).tenant, turn(cursor), limit, project=project, waiting_only=False)


@router.get("/queue", response_model=LIVE)
async def queue(request: Request, project: Plain = "", limit: Limit = LIMIT, cursor: Cursor = "") -> dict[str, object]:
    """List what waits, in the order in which it will be leased, and behind what."""
    ask = door_of(request).desk.ask
    return await ask(_live, caller_of(request).tenant, turn(cursor), limit, project=project, waiting_only=True)


def _live(
    store: Store, tenant: str, after: LivePlace | None, limit: int, *, project: str, waiting_only: bool
) -> dict[str, object]:
    listing, found = live_after(store, tenant, after, waiting_only=waiting_only, project=project)
    return page(found, limit, lambda one: live_record(one, listing), live_place)


def _request(
    store: Store, ask: request_models.AskRun, tenant: str, *, by: str, key: str | None, door: Door
) -> Requested:
    tick = moment(store, tenant, ask.target, ask.tick) if ask.tick else None
    made = request_run(
        store,
        tenant=tenant,
        target=ask.target,
        payload=ask.payload,
        key=key,
        tick=tick,
        again=ask.again,
        overlap=ask.overlap,
        priority=ask.priority,
        new_run_id=door.new_run_id,
        by=by,
    )
    if key is not None:
        check_same(made, ask.payload, tick=tick)
    return made


def _request_many(
    store: Store, ask: request_models.AskRuns, tenant: str, *, by: str, key: str | None, door: Door
) -> list[TriggeredRun]:
    wanted = [WantedRun(payload, f"{key}:{number}" if key else None) for number, payload in enumerate(ask.payloads, 1)]
    return request_many(
        store,
        tenant=tenant,
        agent=ask.agent,
        wanted=wanted,
        priority=ask.priority,
        new_run_ids=door.new_run_ids,
        by=by,
    )


def _detail(store: Store, tenant: str, run_id: str, folder: str) -> Record:
    found = show_any(store, tenant, run_id)
    return any_record(found, log_of(found.seen, folder) if isinstance(found, Detail) else None)


def _log(store: Store, tenant: str, run_id: str, *, folder: str, lines: int, attempt: int | None) -> dict[str, object]:
    seen = show(store, tenant, run_id).seen
    log = log_of(seen, folder, number=attempt)
    if log is None:
        return {"run_id": seen.run.id, "attempt": None, "host": None, "complete": True, "text": ""}
    text = content(log, lines=lines, most=LOG_BYTES_MAX).decode("utf-8", "replace")
    return {"run_id": seen.run.id, "attempt": log.number, "host": log.host, "complete": log.here, "text": text}


def _cancel(store: Store, tenant: str, run_id: str, by: str) -> RunRecord:
    return run_record(with_attempts(store, cancel(store, find_run(store, tenant, run_id).id, tenant=tenant, by=by)))


def _replay(
    store: Store, tenant: str, run_id: str, *, by: str, ask: request_models.AskReplay, key: str | None, door: Door
) -> Requested:
    found, new = find_run(store, tenant, run_id).id, door.new_run_id
    return replay(store, found, tenant=tenant, new_run_id=new, by=by, again=ask.again, as_then=ask.as_then, key=key)


def _discard(store: Store, tenant: str, run_id: str, *, by: str, note: str) -> RunRecord:
    return run_record(
        with_attempts(store, discard(store, find_run(store, tenant, run_id).id, tenant=tenant, by=by, note=note))
    )
