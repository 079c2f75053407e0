"""One agent or schedule at a time, as JSON: for a platform whose own screens manage them.

Every answer has an ETag. With it in If-Match a change is made only if there was none since; If-None-Match: *
makes only what is new.
"""

from typing import Annotated

from fastapi import APIRouter, Header, Path, Request, Response

from fencepost.model.errors import Invalid
from fencepost.model.secret_rights import Rights
from fencepost.operations.records.plan_record import PlannedRecord, planned_record
from fencepost.operations.records.schedule_record import AgentRecord, agent_record
from fencepost.operations.run_queries import Store
from fencepost.operations.single_definition import (
    ABSENT,
    Put,
    SentDefinition,
    check_sent,
    drop_definition,
    find_agent,
    put_definition,
)
from fencepost.ports.registry import AgentRow
from fencepost.web.api import request_models, response_models
from fencepost.web.api.paging import LIMIT, Cursor, Limit, name, page
from fencepost.web.door import caller_of, door_of

router = APIRouter(prefix="/api/v1", tags=["definitions"])
One = Annotated[str, Path(max_length=200)]
IfMatch = Annotated[
    str | None, Header(max_length=200, description="the ETag that you have seen; 412 if it is another now")
]
IfNoneMatch = Annotated[str | None, Header(max_length=200, description="* makes only what is new; 412 if it is there")]


@router.get("/agents", response_model=response_models.page_of(AgentRecord), response_model_exclude_unset=True)
async def agents(request: Request, limit: Limit = LIMIT, cursor: Cursor = "") -> dict[str, object]:
    """List the agents by name."""
    rows = await door_of(request).desk.ask(_list, caller_of(request).tenant, limit + 1, name(cursor))
    return page(rows, limit, agent_record, lambda one: one.name)


@router.get("/agents/{agent}", response_model=response_models.model_of(AgentRecord), response_model_exclude_unset=True)
async def agent_detail(request: Request, response: Response, agent: One) -> AgentRecord:
    """Show one agent."""
    row = await door_of(request).desk.ask(_find, caller_of(request).tenant, agent)
    found = agent_record(row)
    response.headers["ETag"] = f'"{found.tag}"'
    return found


@router.put("/agents/{agent}", response_model=response_models.model_of(PlannedRecord))
async def put_agent(
    request: Request,
    response: Response,
    agent: One,
    ask: request_models.AskAgent,
    *,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> PlannedRecord:
    """Define one agent; every schedule that runs it gets a new version."""
    sent = SentDefinition(ask.definition, ask.gates, ask.projects, ask.engines, ask.files)
    return await _put(
        request, response, ("agent", agent), sent, take_over=ask.take_over, seen=expected(if_match, if_none_match)
    )


@router.delete("/agents/{agent}", response_model=response_models.Done)
async def delete_agent(request: Request, agent: One, if_match: IfMatch = None) -> dict[str, object]:
    """Retire one agent that was put here; refused while a schedule runs it."""
    return await _drop(request, ("agent", agent), expected(if_match, None))


@router.put("/schedules/{schedule}", response_model=response_models.model_of(PlannedRecord))
async def put_schedule(
    request: Request,
    response: Response,
    schedule: One,
    ask: request_models.AskSchedule,
    *,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> PlannedRecord:
    """Define one schedule; a change is a new version, which begins after the last tick of the one before."""
    sent = SentDefinition(ask.definition)
    return await _put(
        request, response, ("schedule", schedule), sent, take_over=ask.take_over, seen=expected(if_match, if_none_match)
    )


@router.delete("/schedules/{schedule}", response_model=response_models.Done)
async def delete_schedule(request: Request, schedule: One, if_match: IfMatch = None) -> dict[str, object]:
    """Retire one schedule that was put here; its runs and ticks stay on record."""
    return await _drop(request, ("schedule", schedule), expected(if_match, None))


def expected(if_match: str | None, if_none_match: str | None) -> str | None:
    """Return the tag that the caller has seen; None: they do not say."""
    if if_none_match is not None:
        if if_none_match.strip() != "*" or if_match is not None:
            raise Invalid("If-None-Match takes *, for something that shall be new, and then no If-Match.")
        return ABSENT
    if if_match is None or if_match.strip() == "*":
        return None
    tag = if_match.strip().removeprefix("W/")
    if len(tag) < 2 or tag[0] != '"' or tag[-1] != '"':  # noqa: PLR2004  # two quotes
        raise Invalid('If-Match takes one ETag in its quotes, such as "3-0b1c2d3e4f5a".')
    return tag[1:-1]


async def _put(
    request: Request,
    response: Response,
    what: tuple[str, str],
    sent: SentDefinition,
    *,
    take_over: bool,
    seen: str | None,
) -> PlannedRecord:
    caller, door = caller_of(request), door_of(request)
    done = await door.desk.ask(
        _put_one, what, sent, tenant=caller.tenant, by=caller.actor, rights=door.rights(), seen=seen,
        take_over=take_over,
    )  # fmt: skip
    response.headers["ETag"] = f'"{done.tag}"'
    return planned_record(done.planned, done.config)


async def _drop(request: Request, what: tuple[str, str], seen: str | None) -> dict[str, object]:
    caller = caller_of(request)
    await door_of(request).desk.ask(_drop_one, what, tenant=caller.tenant, by=caller.actor, seen=seen)
    return {"done": True}


def _put_one(
    store: Store,
    what: tuple[str, str],
    sent: SentDefinition,
    *,
    tenant: str,
    by: str,
    rights: Rights,
    seen: str | None,
    take_over: bool,
) -> Put:
    check_sent(what[0], sent.definition, what[1])
    return put_definition(
        store.registry(), *what, sent, tenant=tenant, actor=by, rights=rights, expected=seen, take_over=take_over
    )


def _drop_one(store: Store, what: tuple[str, str], *, tenant: str, by: str, seen: str | None) -> None:
    drop_definition(store.registry(), *what, tenant=tenant, actor=by, expected=seen)


def _list(store: Store, tenant: str, limit: int, after: str) -> list[AgentRow]:
    return store.registry().agents(tenant, limit=limit, after=after)


def _find(store: Store, tenant: str, agent: str) -> AgentRow:
    return find_agent(store.registry(), agent, tenant=tenant)
