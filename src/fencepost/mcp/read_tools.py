"""The tools that only look."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from mcp.server import MCPServer
from mcp.types import ToolAnnotations
from pydantic import Field

from fencepost.mcp.caller import Counter
from fencepost.model.access import Role
from fencepost.model.errors import Invalid
from fencepost.operations import schedule_registry
from fencepost.operations.attempt_logs import Log, content, log_of
from fencepost.operations.command_history import why_named
from fencepost.operations.records import as_json
from fencepost.operations.records.run_record import (
    RunDetailRecord,
    dead_detail_record,
    dead_record,
    detail_record,
    live_record,
)
from fencepost.operations.records.schedule_record import agent_record, schedule_detail, schedule_record
from fencepost.operations.records.tick_record import answer_record
from fencepost.operations.run_list import any_record, list_past, listed_record, show_any
from fencepost.operations.run_queries import Detail, Filter, Store, list_dead, list_live

LOG_LINES = 100
LOG_BYTES_MAX = 65_536
Limit = Annotated[int, Field(ge=1, le=200, description="how many at most")]
RunId = Annotated[str, Field(min_length=1, max_length=64, description="the run's id, or its beginning")]
Name = Annotated[str, Field(min_length=1, max_length=200, description="a schedule's name")]
DetailMaker = Callable[[Detail, Log | None], RunDetailRecord]
State = Literal["", "ready", "running", "succeeded", "dead", "cancelled"]
LOOKS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)


def add_looking(server: MCPServer[Any], counter: Counter) -> None:
    """Offer what there is to see."""
    _add_definitions(server, counter)
    _add_runs(server, counter)


def _add_definitions(server: MCPServer[Any], counter: Counter) -> None:
    """Offer schedules and agents."""

    @server.tool(title="List schedules", annotations=LOOKS)
    def list_schedules(limit: Limit = 50) -> dict[str, Any]:
        """List the schedules: when they run, their state, the next tick, failures in a row."""
        with counter.served(Role.READ) as (store, seat):
            found = schedule_registry.list_schedules(store.registry(), tenant=seat.tenant, limit=limit)
            return {"schedules": as_json([schedule_record(one) for one in found])}

    @server.tool(title="List agents", annotations=LOOKS)
    def list_agents(limit: Limit = 50) -> dict[str, Any]:
        """List the agents that schedules run, with their definitions."""
        with counter.served(Role.READ) as (store, seat):
            found = store.registry().agents(seat.tenant, limit=limit)
            return {"agents": as_json([agent_record(one) for one in found])}

    @server.tool(title="Show a schedule", annotations=LOOKS)
    def show_schedule(schedule: Name) -> dict[str, Any]:
        """Show one schedule in full: its definition and agent, next ticks, what became of past ones, budget used."""
        with counter.served(Role.READ) as (store, seat):
            return dict(as_json(schedule_detail(store, seat.tenant, schedule)))

    @server.tool("why", title="Why did it (not) run?", annotations=LOOKS)
    def why_(
        schedule: Annotated[str, Field(min_length=1, max_length=200, description="a schedule's name, or lock:NAME")],
        at: Annotated[str, Field(description="an instant, or wall time of the schedule")] = "",
    ) -> dict[str, Any]:
        """Say from recorded facts why a schedule ran, or did not, at an instant or at its last tick; or what ran under a lock."""
        with counter.served(Role.READ) as (store, seat):
            asked, answers = why_named(store, seat.tenant, schedule, at or None)
            return {"answers": as_json([answer_record(asked, answer) for answer in answers])}


def _add_runs(server: MCPServer[Any], counter: Counter) -> None:
    """Offer runs, what waits, and dead letters."""

    @server.tool(title="What waits", annotations=LOOKS)
    def queue(limit: Limit = 50) -> dict[str, Any]:
        """List what waits, in the order in which it will run, with its position and what it is behind."""
        with counter.served(Role.READ) as (store, seat):
            listing = list_live(store, seat.tenant, limit=limit, waiting_only=True)
            return {"waiting": as_json([live_record(one, listing) for one in listing.waiting[:limit]])}

    @server.tool("list_runs", title="List runs", annotations=LOOKS)
    def list_runs_(schedule: str = "", agent: str = "", state: State = "", limit: Limit = 20) -> dict[str, Any]:
        """List runs and guarded commands, newest first; a waiting run has its position in the line."""
        with counter.served(Role.READ) as (store, seat):
            past = list_past(store, seat.tenant, Filter(schedule, agent, state), limit=limit)
            return {"runs": as_json([listed_record(one) for one in past.found])}

    @server.tool(title="Show a run", annotations=LOOKS)
    def show_run(run: RunId, log_lines: Annotated[int, Field(ge=0, le=LOG_LINES)] = 20) -> dict[str, Any]:
        """Show everything about one run, or a guarded command: attempts, fence, lease, cost, and the last lines that it printed."""
        with counter.served(Role.READ) as (store, seat):
            return _detail(counter, store, seat.tenant, run, lines=log_lines)

    @server.tool("list_dead", title="List dead letters", annotations=LOOKS)
    def list_dead_(schedule: str = "", limit: Limit = 20) -> dict[str, Any]:
        """List the runs that ended in a way that needs a decision, newest first."""
        with counter.served(Role.READ) as (store, seat):
            listing = list_dead(store, seat.tenant, schedule=schedule, limit=limit)
            return {"dead": as_json([dead_record(seen) for seen in listing.runs])}

    @server.tool(title="Show a dead letter", annotations=LOOKS)
    def show_dead(run: RunId, log_lines: Annotated[int, Field(ge=0, le=LOG_LINES)] = 50) -> dict[str, Any]:
        """Show everything about one dead letter, with its last lines, to decide whether to replay or discard it."""
        with counter.served(Role.READ) as (store, seat):
            found = _detail(counter, store, seat.tenant, run, lines=log_lines, record=dead_detail_record)
            if found["state"] != "dead":
                raise Invalid(f"run {found['id']} is {found['state']}, not dead; use show_run.")
            return found


def _detail(
    counter: Counter, store: Store, tenant: str, run: str, *, lines: int, record: DetailMaker = detail_record
) -> dict[str, Any]:
    detail = show_any(store, tenant, run)
    if not isinstance(detail, Detail):
        return dict(as_json(any_record(detail)))
    log = log_of(detail.seen, counter.log_folder)
    said = content(log, lines=lines, most=LOG_BYTES_MAX).decode(errors="replace") if log and lines else ""
    return {**as_json(record(detail, log)), "last_lines": said}
