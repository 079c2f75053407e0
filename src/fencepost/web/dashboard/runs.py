"""Runs and guarded commands: the list, and one with its log, attempts, fence, gates, ledger and cost."""

import asyncio
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Request
from starlette.responses import PlainTextResponse, Response

from fencepost.model.definition import agent_from_json
from fencepost.model.effect_ledger import Entry
from fencepost.model.effects import Effects, effects_of
from fencepost.model.errors import Invalid, StoreUnavailable
from fencepost.model.run import RunState
from fencepost.operations.attempt_logs import content, log_of
from fencepost.operations.command_history import why_lock
from fencepost.operations.gate_marks import marks_of
from fencepost.operations.log_reading import Glimpse, glimpse
from fencepost.operations.phrases import fate, readable, why_so
from fencepost.operations.queue_positions import resources_in
from fencepost.operations.records import as_json
from fencepost.operations.records.run_record import project_of, usage_of
from fencepost.operations.run_conversation import AnsweredTurn, conversation
from fencepost.operations.run_list import (
    CommandAt,
    Present,
    any_record,
    command_lines,
    list_past,
    past_place,
    show_any,
)
from fencepost.operations.run_queries import Detail, Filter, Store, find_run, show
from fencepost.web.api.paging import Cursor, pair, spelled
from fencepost.web.dashboard.pages import page
from fencepost.web.door import caller_of, door_of
from fencepost.web.security import access

router = APIRouter(include_in_schema=False)
LISTED, LOG_LINES, LEDGER = 50, 400, 100
GATES_SECONDS = 10.0
Plain = Annotated[str, Query(max_length=200)]


class ShownRun(NamedTuple):
    """Everything about one run."""

    detail: Detail
    log: Glimpse | None
    effects: Effects
    ledger: list[Entry]
    usage: dict[str, int]
    project: str | None
    resources: str
    talk: list[AnsweredTurn] | None  # what an agent printed that speaks in events


class ShownCommand(NamedTuple):
    """Everything about one command that is no run."""

    id: str
    command: str
    state: str
    told: list[tuple[str, str]]
    resource: str
    lock: list[str]  # what is on record of its lock by now


@router.get("/runs")
async def runs(
    request: Request, schedule: Plain = "", agent: Plain = "", state: Plain = "", cursor: Cursor = ""
) -> Response:
    """List runs and guarded commands, newest first."""
    kind = state if state in {one.value for one in RunState} else ""
    wanted = Filter(schedule, agent, kind, 0, *([before] if (before := pair(cursor)) else []))
    past = await door_of(request).desk.ask(list_past, caller_of(request).tenant, wanted, limit=LISTED + 1)
    kept = past.found[:LISTED]
    following = spelled(past_place(kept[-1])) if len(past.found) > LISTED else None
    return page(
        request,
        "runs.html",
        rows=kept,
        following=following,
        first=not cursor,
        wanted=wanted,
        states=[one.value for one in RunState],
        now_us=past.now_us,
        current="runs",
    )


@router.get("/runs/{run_id}")
async def run_page(request: Request, run_id: str, attempt: Plain = "") -> Response:
    """Show one run, or a guarded command; the beginning of its id is enough."""
    door = door_of(request)
    number = _number(attempt)
    shown = await door.desk.ask(_show, caller_of(request).tenant, run_id, door.log_folder, number)
    if isinstance(shown, ShownCommand):
        return page(request, "command.html", shown=shown, current="runs")
    return page(
        request,
        "run.html",
        shown=shown,
        run=shown.detail.seen.run,
        attempt=number,
        fate=fate,
        why_so=why_so,
        now_us=shown.detail.now_us,
        current="runs",
    )


@router.get("/runs/{run_id}/gates", openapi_extra=access("admin"))
async def run_gates(request: Request, run_id: str) -> Response:
    """Ask the run's gates for their marks, at their targets."""
    door, tenant = door_of(request), caller_of(request).tenant
    run = await door.desk.ask(find_run, tenant, run_id)
    asked = asyncio.to_thread(marks_of, run, lambda reference: door.fetch_secret(reference, tenant))
    try:
        gates = await asyncio.wait_for(asked, GATES_SECONDS)
    except TimeoutError:
        raise StoreUnavailable(f"its gates have not answered within {GATES_SECONDS:g} seconds.") from None
    now_us = await door.desk.ask(_clock)
    return page(request, "gates.html", run=run, gates=gates, now_us=now_us, current="runs")


@router.get("/runs/{run_id}/log")
async def run_log(request: Request, run_id: str, attempt: Plain = "") -> Response:
    """Return all that is left of a log, as text that steers nothing."""
    door = door_of(request)
    text = await door.desk.ask(_log, caller_of(request).tenant, run_id, door.log_folder, _number(attempt))
    return PlainTextResponse(text)


def _clock(store: Store) -> int:
    return store.clock_us()


def _number(attempt: str) -> int | None:
    if not attempt:
        return None
    if not (attempt.isascii() and attempt.isdigit() and len(attempt) < 9):  # noqa: PLR2004  # more attempts than a run has
        raise Invalid(f"{attempt!r} is no number of an attempt.")
    return int(attempt)


def _show(store: Store, tenant: str, run_id: str, folder: str, number: int | None) -> ShownRun | ShownCommand:
    detail = show_any(store, tenant, run_id)
    if not isinstance(detail, Detail):
        return _show_command(store, tenant, detail)
    run = detail.seen.run
    log = glimpse(detail.seen, folder, number=number, lines=LOG_LINES)
    return ShownRun(
        detail,
        log,
        effects_of(agent_from_json(run.manifest)),
        store.ledger().of_run(
            tenant, run.id, since_us=run.created_us, until_us=run.ended_us or detail.now_us, limit=LEDGER
        ),
        usage_of(detail.seen.attempts),
        project_of(run),
        resources_in(run),
        conversation(run, log.text) if log else None,
    )


def _show_command(store: Store, tenant: str, found: CommandAt | Present) -> ShownCommand:
    fields, told = as_json(any_record(found)), [*command_lines(found)]
    resource = str(fields["resource"])
    sentences: list[str] = []
    if isinstance(found, CommandAt):
        sentences = [sentence for answer in why_lock(store, tenant, resource)[1] for sentence in answer.sentences]
    return ShownCommand(str(fields["id"]), str(fields["command"]), str(fields["state"]), told, resource, sentences)


def _log(store: Store, tenant: str, run_id: str, folder: str, number: int | None) -> str:
    log = log_of(show(store, tenant, run_id).seen, folder, number=number)
    return readable(content(log).decode("utf-8", "replace")) if log else ""
