"""What guarded commands came to: what `exec` ran under which lock, how it ended, and who came in vain."""

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from fencepost.model.errors import Unknown
from fencepost.model.instants import to_us
from fencepost.model.lease import resource as resource_named
from fencepost.model.run import RunState
from fencepost.model.tick_claim import record_of
from fencepost.model.zone import find_zone
from fencepost.operations.phrases import ago, counted, rfc3339, span
from fencepost.operations.preview import parse_moment
from fencepost.operations.run_queries import Filter, Store
from fencepost.operations.why import Explanation, WhyQuestion, why
from fencepost.ports.read_rows import CommandRow

if TYPE_CHECKING:
    from fencepost.stores.reads import SqlReads

STATES: dict[str, tuple[str, ...]] = {
    "": (),
    RunState.RUNNING: ("running",),
    RunState.SUCCEEDED: ("succeeded",),
    RunState.DEAD: ("failed", "lost"),
}


def list_commands(store: Store, tenant: str, wanted: Filter, *, limit: int) -> list[CommandRow]:
    """Return guarded commands, newest first; they have neither schedule nor agent."""
    if wanted.schedule or wanted.agent or wanted.state not in STATES:
        return []
    look = store.reads(tenant)
    return look.commands(states=STATES[wanted.state], since_us=wanted.since_us, before=wanted.before, limit=limit)


def why_named(store: Store, tenant: str, name: str, at: str | None = None) -> tuple[WhyQuestion, list[Explanation]]:
    """Answer about the schedule of that name, else about the lock; raise Unknown if there is neither."""
    try:
        return why(store, tenant, name, at)
    except Unknown as no_schedule:
        with suppress(Unknown):
            return why_lock(store, tenant, name, at)
        raise no_schedule from None


def why_lock(store: Store, tenant: str, name: str, at: str | None = None) -> tuple[WhyQuestion, list[Explanation]]:
    """Say what ran under a lock last, or at an instant; raise Unknown if nothing ever did."""
    look = store.reads(tenant)
    resource = name if ":" in name else resource_named("lock", name)
    now_us = look.clock_us()
    last = look.commands_under(resource, limit=1)
    ticks = [_tick_words(text) for text in look.tick_records(resource)]
    if not last and not ticks:
        raise Unknown(f"no command has run under {resource}.")
    if at is None:
        told = _told(last[0], "The last command", now_us) if last else [f"No command is on record under {resource}."]
        verdict = last[0].state if last else "none"
        return WhyQuestion(name, tenant, None, now_us), [Explanation(verdict, (*told, *ticks))]
    at_us = to_us(parse_moment(at, find_zone("UTC")))
    verdict, told = _told_at(look, resource, at_us, now_us)
    return WhyQuestion(name, tenant, at_us, now_us), [Explanation(verdict, (*told, *ticks))]


def _told_at(look: "SqlReads", resource: str, at_us: int, now_us: int) -> tuple[str, list[str]]:
    before = next(iter(look.commands_under(resource, until_us=at_us + 1, limit=1)), None)
    if before and (before.ended_us or (now_us if before.state == "running" else 0)) > at_us:
        return before.state, _told(before, f"At {rfc3339(at_us)} a command", now_us)
    told = [f"Nothing ran under {resource} at {rfc3339(at_us)}."]
    if before:
        told += _told(before, "The command before that", now_us)
    if after := look.command_after(resource, at_us + 1):
        told += _told(after, "The one after it", now_us)
    return "none", told


def _told(row: CommandRow, lead: str, now_us: int) -> list[str]:
    began = f"{rfc3339(row.started_us)} ({ago(row.started_us, now_us)})"
    whose = f"run {row.id} with fence {row.fence} on {row.host}"
    told = [f"{lead} under {row.resource} is {row.label!r}, {whose}: it began at {began}."]
    took = f" after {span((row.ended_us or now_us) - row.started_us)}"
    match row.state:
        case "running":
            told.append("It is still running.")
        case "succeeded":
            told.append(f"It succeeded{took}.")
        case "failed":
            told.append(f"It failed with exit code {row.exit_code}{took}.")
        case _:
            told.append("Its lease was lost: its end was never reported.")
    if row.refused and row.refused_us:
        came = counted(row.refused, "other command")
        told.append(f"Meanwhile {came} came in vain, the last at {rfc3339(row.refused_us)}.")
    return told


def _tick_words(text: str) -> str:
    record = record_of(json.loads(text))
    whose = f", by run {record.run} on {record.host}" if record.run else ""
    return (
        f"Ticks of {record.job} ({record.cron}, {record.zone}): the newest one dealt with is {rfc3339(record.cursor_us)}, "
        f"{record.state}{whose}."
    )
