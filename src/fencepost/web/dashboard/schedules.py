"""Schedules: the list, and one with every tick, what became of it and why, what comes next, and its past."""

import json
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fencepost.drawing.plots import Plot
from fencepost.model.definition import agent_from_json
from fencepost.model.disposition import DispositionKind
from fencepost.model.effects import Effects, effects_of
from fencepost.model.instants import to_us
from fencepost.operations import schedule_registry
from fencepost.operations.budget_use import Use, budget_use
from fencepost.operations.chart import Chart, View, chart
from fencepost.operations.recorded_ticks import Timeline, timeline
from fencepost.operations.records import as_json
from fencepost.operations.records.schedule_record import past_record
from fencepost.operations.run_queries import Store
from fencepost.operations.schedule_plots import schedule_plots, tick_plots
from fencepost.operations.skipped_ticks import NEWEST, skips
from fencepost.operations.why import why
from fencepost.ports.registry import PauseEntry, VersionRow
from fencepost.web.api.paging import Cursor, name, names, pair, spelled
from fencepost.web.dashboard.filters import query_of, segment
from fencepost.web.dashboard.pages import page
from fencepost.web.dashboard.timeline import Plain, drawn_of, view_of
from fencepost.web.door import caller_of, door_of

router = APIRouter(include_in_schema=False)
LISTED, TICKS, COMING, HISTORY, SKIPPED = 100, 40, 10, 20, 50
SKIPS = tuple(one.value for one in DispositionKind if one is not DispositionKind.RUN)
LEFT_OUT = ("name", "agent", "cron", "every", "at", "timezone", "payload")


class ShownSchedule(NamedTuple):
    """Everything about one schedule."""

    listed: schedule_registry.Listed
    line: Timeline
    coming: list[schedule_registry.Upcoming]
    versions: list[VersionRow]
    pauses: list[PauseEntry]
    past: dict[str, object]
    effects: Effects
    rules: dict[str, object]  # what its file says beyond when and what
    skips: int
    uses: list[Use]
    plots: list[Plot]
    chart: Chart


@router.get("/schedules")
async def schedules(request: Request, cursor: Cursor = "") -> Response:
    """List the schedules by name."""
    rows = await door_of(request).desk.ask(_list, caller_of(request).tenant, name(cursor))
    kept = rows[:LISTED]
    following = spelled(kept[-1].row.name) if len(rows) > LISTED else None
    now_us = to_us(kept[0].now) if kept else 0
    return page(
        request,
        "schedules.html",
        rows=kept,
        following=following,
        first=not cursor,
        now_us=now_us,
        current="schedules",
    )


@router.get("/schedules/{schedule}")
async def schedule_page(
    request: Request, schedule: str, *, wanted: str = "", cursor: Cursor = "", span: Plain = "7d", until: Plain = ""
) -> Response:
    """Show one schedule."""
    kind = wanted if wanted in {one.value for one in DispositionKind} else ""
    shown = await door_of(request).desk.ask(
        _show,
        caller_of(request).tenant,
        schedule,
        view_of(span, until, schedule=schedule),
        disposition=kind,
        before=pair(cursor),
    )
    following = spelled(list(shown.line.before)) if shown.line.before else None
    return page(
        request,
        "schedule.html",
        shown=shown,
        drawn=drawn_of(shown.chart, f"/schedules/{segment(schedule)}", query=query_of(wanted=kind, cursor=cursor)),
        kinds=[one.value for one in DispositionKind],
        wanted=kind,
        following=following,
        first=not cursor,
        now_us=shown.line.now_us,
        current="schedules",
    )


@router.get("/skips")
async def skips_page(request: Request, wanted: str = "", cursor: Cursor = "") -> Response:
    """Show the ticks of all schedules that made no run, and why."""
    kind = wanted if wanted in SKIPS else ""
    before = names(cursor) or NEWEST
    desk, tenant = door_of(request).desk, caller_of(request).tenant
    found = await desk.ask(skips, tenant, disposition=kind, before=before, limit=SKIPPED)
    plots = [] if cursor else await desk.ask(tick_plots, tenant)
    return page(
        request,
        "skips.html",
        skips=found,
        plots=plots,
        kinds=SKIPS,
        wanted=kind,
        following=spelled(list(found.before)) if found.before else None,
        first=not cursor,
        now_us=found.now_us,
        current="now",
    )


@router.get("/schedules/{schedule}/why")
async def why_page(request: Request, schedule: str, at: Annotated[str, Query(max_length=200)] = "") -> Response:
    """Say why it ran, or did not."""
    asked, answers = await door_of(request).desk.ask(why, caller_of(request).tenant, schedule, at or None)
    return page(request, "why.html", asked=asked, answers=answers, at=at, now_us=asked.now_us, current="schedules")


def _list(store: Store, tenant: str, after: str) -> list[schedule_registry.Listed]:
    return schedule_registry.list_schedules(store.registry(), tenant=tenant, limit=LISTED + 1, after=after)


def _show(
    store: Store, tenant: str, schedule: str, view: View, *, disposition: str, before: tuple[int, str] | None
) -> ShownSchedule:
    listed = schedule_registry.find_schedule(store.registry(), schedule, tenant=tenant)
    more = {"before": before} if before else {}
    line = timeline(store, tenant, schedule, disposition=disposition, limit=TICKS, **more)
    ends = listed.state in ("retired", "done", "disabled")
    coming = [] if ends else list(schedule_registry.upcoming(listed.definition, after=listed.now, count=COMING))
    versions, pauses = schedule_registry.history(store.registry(), schedule, tenant=tenant, limit=HISTORY)
    written = json.loads(listed.row.definition)
    return ShownSchedule(
        listed,
        line,
        coming,
        versions,
        pauses,
        as_json(past_record(store, tenant, schedule)),
        effects_of(agent_from_json(listed.row.manifest)),
        {key: value for key, value in written.items() if key not in LEFT_OUT},
        json.loads(listed.row.skip_next)["left"] if listed.row.skip_next else 0,
        budget_use(store, tenant, listed),
        schedule_plots(store, tenant, schedule, listed.definition.timezone),
        chart(store, tenant, view),
    )
