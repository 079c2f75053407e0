"""Runs and guarded commands in one list, and what an id means: a run, a guarded command, or one in a project's line."""

from collections.abc import Iterator, Sequence
from heapq import merge
from typing import NamedTuple

from fencepost.model.errors import Invalid, Unknown
from fencepost.operations.attempt_logs import Log
from fencepost.operations.command_history import list_commands
from fencepost.operations.phrases import ago, counted, plain, rfc3339, span
from fencepost.operations.project_commands import Command
from fencepost.operations.records.run_record import (
    CommandRecord,
    GuardedCommandRecord,
    LiveRunRecord,
    RunDetailRecord,
    RunRecord,
    detail_record,
    guarded_record,
    live_record,
    run_record,
)
from fencepost.operations.run_queries import (
    LIKE_MAX,
    LIVE_MAX,
    Detail,
    Filter,
    RunListing,
    SeenRun,
    Store,
    list_live,
    list_runs,
    show,
)
from fencepost.ports.read_rows import CommandRow


class Past(NamedTuple):
    """Runs and guarded commands, newest first, and the store's time when they were looked at."""

    now_us: int
    found: Sequence[SeenRun | CommandRow]


class CommandAt(NamedTuple):
    """A guarded command with its row, and when that was read."""

    now_us: int
    row: CommandRow


class Present(NamedTuple):
    """A command that has no row: a session that holds a project, or what waits in its line."""

    listing: RunListing
    command: Command


def list_past(store: Store, tenant: str, wanted: Filter, *, limit: int) -> Past:
    """Return runs and guarded commands in one order, newest first."""
    listing = list_runs(store, tenant, wanted, limit=limit)
    lists: list[Sequence[SeenRun | CommandRow]] = [
        listing.runs,
        list_commands(store, tenant, wanted, limit=limit),
    ]
    return Past(listing.now_us, list(merge(*lists, key=past_place, reverse=True))[:limit])


def past_place(one: SeenRun | CommandRow) -> tuple[int, str]:
    """Return where one of them stands in that order."""
    return (one.started_us, one.id) if isinstance(one, CommandRow) else (one.run.created_us, one.run.id)


def listed_record(one: SeenRun | CommandRow) -> RunRecord | GuardedCommandRecord:
    """Return one of them as every door gives it."""
    return guarded_record(one) if isinstance(one, CommandRow) else run_record(one)


def show_any(store: Store, tenant: str, text: str) -> Detail | CommandAt | Present:
    """Return everything about what an id, or the unique beginning of one, means."""
    look = store.reads(tenant)
    rows = look.commands_like(text, limit=LIKE_MAX + 1) if text else []
    if not rows:
        return _without_row(store, tenant, text)
    names = [*(one.id for one in look.runs_like(text, limit=1)), *(one.id for one in rows)]
    if len(names) > 1:
        more = ", …" if len(names) > LIKE_MAX else ""
        raise Invalid(f"several begin with {text!r}: {', '.join(names[:LIKE_MAX])}{more}")
    return CommandAt(look.clock_us(), rows[0])


def any_record(
    found: Detail | CommandAt | Present, log: Log | None = None
) -> RunDetailRecord | CommandRecord | LiveRunRecord:
    """Return what was found as every door gives it."""
    if isinstance(found, Detail):
        return detail_record(found, log)
    return guarded_record(found.row) if isinstance(found, CommandAt) else live_record(found.command, found.listing)


def command_lines(found: CommandAt | Present) -> Iterator[tuple[str, str]]:
    """Yield how a command stands, what it is, and under which lock, each with its label."""
    if isinstance(found, CommandAt):
        row = found.row
        yield "state", _guarded_words(row, found.now_us)
        yield "what", f"{plain(row.label)}, under {row.resource}"
        yield (
            "began",
            f"{rfc3339(row.started_us)} ({ago(row.started_us, found.now_us)}), fence {row.fence}, {plain(row.host)}",
        )
        if row.refused:
            yield "refused", f"{counted(row.refused, 'other command')} came in vain, the last {rfc3339(row.refused_us)}"
        return
    one, now_us = found.command, found.listing.now_us
    fence = f", fence {one.fence}" if one.fence else ""
    yield "state", one.place.words(now_us) if one.place else f"running for {span(now_us - one.since_us)}{fence}"
    yield "what", f"{plain(one.what)}, {'for' if one.place else 'under'} {one.resource}"
    yield "process", one.where


def _guarded_words(row: CommandRow, now_us: int) -> str:
    """Say how a guarded command ended, if it has."""
    took = span((row.ended_us or now_us) - row.started_us)
    if row.state == "running":
        return f"running for {took}"
    if row.ended_us is None:
        return "lost: its end was never reported"
    why = f": exit code {row.exit_code}" if row.state == "failed" else ""
    return f"{row.state} after {took}, {ago(row.ended_us, now_us)}{why}"


def _without_row(store: Store, tenant: str, text: str) -> Detail | Present:
    try:
        return show(store, tenant, text)
    except Unknown:
        listing = list_live(store, tenant, limit=LIVE_MAX)
        like = [one for one in listing.commands if text and one.run_id.startswith(text)]
        if len(like) != 1:
            raise
        return Present(listing, like[0])
