"""Definitions: what an apply would change, apply, and a look at the ticks of an expression."""

from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query, Request

from fencepost.model.cron_warnings import cron_warnings
from fencepost.model.errors import Invalid
from fencepost.model.instants import from_us
from fencepost.model.secret_rights import Rights
from fencepost.model.trigger import cron_trigger
from fencepost.operations.preview import known_ahead, parse_moment, preview, preview_schedule
from fencepost.operations.records.plan_record import PlannedRecord, planned_record
from fencepost.operations.records.preview_record import preview_record
from fencepost.operations.run_queries import Store
from fencepost.operations.schedule_registry import apply_config, find_schedule, plan_config
from fencepost.operations.sent_definitions import read_definitions
from fencepost.web.api import request_models, response_models
from fencepost.web.api.paging import LIMIT, Limit
from fencepost.web.door import caller_of, door_of

router = APIRouter(prefix="/api/v1", tags=["definitions"])
Plain = Annotated[str, Query(max_length=200)]
Expression = Annotated[str, Query(max_length=1_000)]


@router.post("/plan", response_model=response_models.model_of(PlannedRecord))
async def plan(request: Request, ask: request_models.AskDefinitions) -> PlannedRecord:
    """Show what an apply of these definitions would change, with warnings and the next ticks; nothing is changed."""
    caller, door = caller_of(request), door_of(request)
    return await door.desk.ask(_put, ask, door.rights(), tenant=caller.tenant, actor=None)


@router.post("/apply", response_model=response_models.model_of(PlannedRecord))
async def apply(request: Request, ask: request_models.AskDefinitions) -> PlannedRecord:
    """Put definitions into the registry, all of them or none; those of the same name that are gone are retired."""
    caller, door = caller_of(request), door_of(request)
    return await door.desk.ask(_put, ask, door.rights(), tenant=caller.tenant, actor=caller.actor)


@router.get("/ticks", response_model=response_models.Preview)
async def ticks(
    request: Request,
    *,
    schedule: Plain = "",
    cron: Expression = "",
    timezone: Plain = "",
    dst_gap: Plain = "skip",
    dst_fold: Plain = "auto",
    from_: Annotated[str, Query(alias="from", max_length=200)] = "",
    until: Plain = "",
    limit: Limit = LIMIT,
) -> dict[str, object]:
    """Preview the ticks of a schedule, or of an expression in a zone, with what clock changes do to them."""
    when = (from_, until, limit)
    if schedule:
        return await door_of(request).desk.ask(_ticks_of, caller_of(request).tenant, schedule, when)
    return await door_of(request).desk.ask(_ticks, cron, (timezone, dst_gap, dst_fold), when)


def _put(
    store: Store,
    ask: request_models.AskDefinitions,
    rights: Rights,
    *,
    tenant: str,
    actor: str | None,
) -> PlannedRecord:
    sent = read_definitions(ask.definitions, name=ask.name, files=ask.files, tenant=tenant, rights=rights)
    config, registry = sent.config, store.registry()
    if actor is None:
        done = plan_config(registry, config, tenant=tenant, take_over=ask.take_over)
    else:
        done = apply_config(registry, config, tenant=tenant, actor=actor, take_over=ask.take_over)
    return planned_record(done, config, sent.ignored)


def _ticks_of(store: Store, tenant: str, name: str, when: tuple[str, str, int]) -> dict[str, object]:
    found = find_schedule(store.registry(), name, tenant=tenant)
    trigger = known_ahead(found.definition)
    if trigger is None:
        raise Invalid(f"{name} runs {found.definition.when}: which ticks it has hangs on when its runs end.")
    zone = trigger.zone
    start, end = (parse_moment(text, zone) if text else None for text in when[:2]) if zone else (None, None)
    lines = preview_schedule(found.definition, trigger, start or found.now, end)
    warnings = [*cron_warnings(found.definition.cron, found.definition.timezone)]
    return {"ticks": [preview_record(line) for line in islice(lines, when[2])], "warnings": warnings}


def _ticks(store: Store, cron: str, policy: tuple[str, str, str], when: tuple[str, str, int]) -> dict[str, object]:
    timezone, dst_gap, dst_fold = policy
    if not cron or not timezone:
        raise Invalid("name a schedule, or a cron expression with its timezone, such as Europe/Berlin.")
    trigger = cron_trigger(cron, timezone, dst_gap=dst_gap, dst_fold=dst_fold)
    start = parse_moment(when[0], trigger.zone) if when[0] else from_us(store.clock_us())
    end = parse_moment(when[1], trigger.zone) if when[1] else None
    if end and end < start:
        raise Invalid("until is before from; swap them.")
    lines = islice(preview(trigger, start, end), when[2])
    return {"ticks": [preview_record(line) for line in lines], "warnings": [*cron_warnings(cron, timezone)]}
