"""The tools that change something."""

from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.types import ToolAnnotations
from pydantic import Field

from fencepost.mcp.caller import Counter
from fencepost.mcp.read_tools import Name, RunId
from fencepost.model.access import Role
from fencepost.model.instants import format_instant, parse_instant
from fencepost.model.pause import SKIP_MAX
from fencepost.operations import schedule_registry
from fencepost.operations.backfill import backfill
from fencepost.operations.records import as_json
from fencepost.operations.records.run_record import run_record
from fencepost.operations.records.schedule_record import pause_record, schedule_record
from fencepost.operations.run_queries import SeenRun, find_run, moment, with_attempts
from fencepost.operations.run_requests import cancel, discard, replay, request_run

# What an agent does when it is run cannot be known here.
STARTS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True)
STARTS_ONCE = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=True)
ENDS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)
STEERS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)

Key = Annotated[str | None, Field(description="makes it idempotent: the same key returns the same run")]
Tick = Annotated[
    str | None, Field(description="an instant such as 2026-12-01T02:00:00Z: run that tick, if it was not done")
]

Note = Annotated[str, Field(max_length=500, description="why, for the next person who looks")]


def add_acting(server: MCPServer[Any], counter: Counter) -> None:
    """Offer what may be done."""

    @server.tool(title="Run now", annotations=STARTS)
    def run(
        target: Annotated[str, Field(min_length=1, max_length=200, description="an agent's or a schedule's name")],
        payload: dict[str, Any] | None = None,
        key: Key = None,
        tick: Tick = None,
    ) -> dict[str, Any]:
        """Run an agent or a schedule now, through the same queue as its ticks. Returns at once with the run's id."""
        with counter.served(Role.TRIGGER) as (store, seat):
            made = request_run(
                store,
                tenant=seat.tenant,
                target=target,
                payload=payload,
                key=key,
                tick=parse_instant(tick) if tick else None,
                new_run_id=counter.new_run_id,
                by=seat.actor,
            )
            return {"run": as_json(run_record(SeenRun(made.run))), "is_new": not made.earlier, "said": made.said}

    @server.tool("cancel", title="Cancel a run", annotations=ENDS)
    def cancel_(run: RunId) -> dict[str, Any]:
        """Take a queued run out of the queue, or ask a running one to stop. One that has ended stays as it is."""
        with counter.served(Role.TRIGGER) as (store, seat):
            run_id = find_run(store, seat.tenant, run).id
            return {
                "run": as_json(
                    run_record(with_attempts(store, cancel(store, run_id, tenant=seat.tenant, by=seat.actor)))
                )
            }

    @server.tool(title="Pause a schedule", annotations=STEERS)
    def pause(
        schedule: Name,
        until: Annotated[str, Field(description="an instant such as 2026-12-01T06:00:00Z; empty: until resumed")] = "",
        note: Note = "",
    ) -> dict[str, Any]:
        """Let a schedule make no runs for a while; what it leaves out is recorded."""
        with counter.served(Role.ADMIN) as (store, seat):
            paused = schedule_registry.pause_schedule(
                store.registry(),
                schedule,
                tenant=seat.tenant,
                until=parse_instant(until) if until else None,
                note=note,
                actor=seat.actor,
            )
            return {"schedule": schedule, "pause": as_json(pause_record(paused))}

    @server.tool(title="Resume a schedule", annotations=STEERS)
    def resume(schedule: Name) -> dict[str, Any]:
        """End a schedule's pause."""
        with counter.served(Role.ADMIN) as (store, seat):
            at = store.registry()
            schedule_registry.resume_schedule(at, schedule, tenant=seat.tenant, actor=seat.actor)
            return {
                "schedule": as_json(schedule_record(schedule_registry.find_schedule(at, schedule, tenant=seat.tenant)))
            }

    @server.tool(title="Skip the next ticks", annotations=STEERS)
    def skip_next(
        schedule: Name, count: Annotated[int, Field(ge=0, le=SKIP_MAX, description="how many; 0 takes it back")] = 1
    ) -> dict[str, Any]:
        """Leave out the next ticks of a schedule; they are recorded as skipped on purpose."""
        with counter.served(Role.ADMIN) as (store, seat):
            ticks = schedule_registry.skip_next(store.registry(), schedule, count, tenant=seat.tenant, actor=seat.actor)
            return {"schedule": schedule, "skipped": [format_instant(one) for one in ticks]}

    @server.tool("backfill", title="Run ticks that are over", annotations=STARTS_ONCE)
    def backfill_(
        schedule: Name,
        from_: Annotated[str, Field(description="an instant, or wall time of the schedule; it belongs to the range")],
        until: Annotated[str, Field(description="where to stop; left out itself")],
        *,
        current: Annotated[bool, Field(description="with today's version instead of that in force then")] = False,
        limit: Annotated[int, Field(ge=1, le=1_000, description="refused if there are more ticks")] = 100,
    ) -> dict[str, Any]:
        """Make a run for every tick of a range that is over. Asking again makes none twice."""
        with counter.served(Role.TRIGGER) as (store, seat):
            schedule_registry.find_schedule(store.registry(), schedule, tenant=seat.tenant)  # raises if there is none
            done = backfill(
                store,
                tenant=seat.tenant,
                schedule=schedule,
                from_=moment(store, seat.tenant, schedule, from_),
                until=moment(store, seat.tenant, schedule, until),
                current=current,
                limit=limit,
                new_run_id=counter.new_run_id,
                by=seat.actor,
            )
            return dict(as_json(done))

    @server.tool("replay", title="Replay a dead letter", annotations=STARTS_ONCE)
    def replay_(run: RunId) -> dict[str, Any]:
        """Make a new run of a dead letter: the same tick and payload, a key of its own. A second time returns the first."""
        with counter.served(Role.TRIGGER) as (store, seat):
            run_id = find_run(store, seat.tenant, run).id
            made = replay(store, run_id, tenant=seat.tenant, new_run_id=counter.new_run_id, by=seat.actor)
            return {"run": as_json(run_record(SeenRun(made.run))), "is_new": not made.earlier, "said": made.said}

    @server.tool("discard", title="Discard a dead letter", annotations=ENDS)
    def discard_(run: RunId, note: Note = "") -> dict[str, Any]:
        """Take a dead letter off the desk; the run stays in the records, and the note in the audit."""
        with counter.served(Role.TRIGGER) as (store, seat):
            run_id = find_run(store, seat.tenant, run).id
            done = discard(store, run_id, tenant=seat.tenant, by=seat.actor, note=note)
            return {"run": as_json(run_record(with_attempts(store, done)))}
