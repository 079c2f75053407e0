"""`fencepost show RUN`: everything about one run."""

import argparse
from collections.abc import Iterable, Iterator
from contextlib import suppress

from fencepost.cli import options, render
from fencepost.cli.runs import COLOURS, standing
from fencepost.model.budget import MICRO
from fencepost.model.definition import agent_from_json
from fencepost.model.effects import effects_of
from fencepost.model.errors import Unknown
from fencepost.model.run import Reason, RunState
from fencepost.model.usage import is_partial
from fencepost.operations.attempt_logs import Log, content, log_of
from fencepost.operations.phrases import ago, counted, fate, gate_words, plain, rfc3339, span, why_so
from fencepost.operations.records.run_record import detail_record, numbered, usage_of
from fencepost.operations.run_list import CommandAt, Present, any_record, command_lines, show_any
from fencepost.operations.run_queries import Detail
from fencepost.ports.runs import AttemptRow
from fencepost.wiring import state_folders

EXAMPLES = """\
  fencepost show r01k9zq8
  fencepost show r01k9zq8 --json | jq .attempts
"""
LAST_LINES = 10
LABEL = 9


def main(argv: list[str]) -> int:
    """Show one run."""
    args = parser().parse_args(argv)
    detail = found(args)
    if not isinstance(detail, Detail):
        print_command(detail, as_json=args.json)
        return 0
    log = log_of(detail.seen, state_folders.log_folder())
    if args.json:
        options.print_json([detail_record(detail, log)])
        return 0
    print_detail(detail, log)
    return 0


def found(args: argparse.Namespace) -> Detail | CommandAt | Present:
    """Look for a run or a guarded command, here and in this machine's own store."""
    with options.opened(args) as store:
        try:
            return show_any(store, options.tenant_of(args), args.run)
        except Unknown as nowhere:
            unknown = nowhere
    with suppress(Unknown):
        for own in options.machine_store(args):
            return show_any(own, options.DEFAULT_TENANT, args.run)
    raise unknown


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser(
        "show",
        "Show everything about one run, or about a guarded command. The beginning of its id is enough, if no other\n"
        "begins so.",
        EXAMPLES,
    )
    made.add_argument("run", metavar="RUN", help="the run's id, or its beginning")
    options.add_json(made)
    options.add_store(made)
    return made


def print_detail(detail: Detail, log: Log | None) -> None:
    """Print how it stands first, then where it came from, then what it did."""
    run = detail.seen.run
    _print_head(run.id, run.state, lines(detail, log))
    tail = content(log, lines=LAST_LINES).decode(errors="replace") if log else ""
    if tail.strip():
        print("\nlast lines:")
        for line in tail.splitlines():
            print(render.cut(f"  {plain(line)}", render.width()).rstrip())


def print_command(found: CommandAt | Present, *, as_json: bool) -> None:
    """Print what there is to say about a command that is no run."""
    one = any_record(found)
    if as_json:
        options.print_json([one])
    else:
        _print_head(one.id, one.state, command_lines(found))


def _print_head(name: str, state: str, told: Iterable[tuple[str, str]]) -> None:
    print(options.paint(f"{name}  {standing(state)}", COLOURS.get(state, "")))
    for label, text in told:
        first, *more = options.wrapped(text, indent=" " * (LABEL + 2)).splitlines() or [""]
        print("\n".join([f"{label:<{LABEL}}  {first.strip()}", *more]))


def lines(detail: Detail, log: Log | None) -> Iterator[tuple[str, str]]:
    """Yield what there is to say, each with its label: how it stands, where it came from, what it did."""
    yield "state", state_words(detail)
    if detail.seen.run.reason == Reason.GATE_UNREACHABLE and detail.seen.last_log:
        yield "gate", gate_words(detail.seen.last_log)
    yield from origin_lines(detail)
    for attempt, part in numbered(detail.seen.attempts):
        name = f"attempt {attempt.number}" + (f", part {part}" if part > 1 else "")
        yield name, attempt_words(attempt, detail.now_us)
    yield from result_lines(detail, log)


def origin_lines(detail: Detail) -> Iterator[tuple[str, str]]:
    """Yield who asked for it, and for what."""
    run, now_us = detail.seen.run, detail.now_us
    schedule = f", schedule {run.schedule} version {run.version}" if run.schedule else ""
    yield "what", f"agent {run.agent}{schedule}, trigger {run.trigger}"
    yield "effects", effects_of(agent_from_json(run.manifest)).words()
    if run.tick_us is not None:
        yield "tick", f"{rfc3339(run.tick_us)} ({ago(run.tick_us, now_us)})"
    if run.period_start_us is not None and run.period_start_us != run.period_end_us:
        yield "period", f"{rfc3339(run.period_start_us)} to {rfc3339(run.period_end_us)}"
    yield "made", f"{rfc3339(run.created_us)} ({ago(run.created_us, now_us)})"
    if run.origin:
        yield "origin", f"a {run.trigger} of {run.origin}"
    for replay in detail.seen.replays:
        yield "replayed", f"as {replay.id}, {standing(replay.state)}"
    if run.payload not in ("", "{}", "null"):
        yield "payload", run.payload


def result_lines(detail: Detail, log: Log | None) -> Iterator[tuple[str, str]]:
    """Yield what it holds and what it left."""
    run, held = detail.seen.run, detail.held
    if held is not None:
        left = "expired" if held.expired else f"expires {rfc3339(held.expires_us)}"
        unattended = detail.seen.unattended
        left = unattended.words(detail.now_us) if unattended else left
        yield "lease", f"pid {held.supervisor.pid} on {held.supervisor.host.name}, {left}"
    yield from spending_lines(detail)
    if run.summary:
        yield "summary", run.summary
    if log is not None:
        yield "log", options.homely(log.path) if log.here else f"on {log.host}; what the store has of it is below"


def spending_lines(detail: Detail) -> Iterator[tuple[str, str]]:
    """Yield what it cost and used, and whether that is all of it."""
    run, attempts = detail.seen.run, detail.seen.attempts
    partial = any(is_partial(one.usage) for one in attempts)
    if run.cost_micro is not None:
        yield "cost", f"{'at least ' if partial else ''}{run.cost_micro / MICRO:.4f} USD"
    elif run.ended_us and run.started_us and (run.reserved_micro or is_paid(run.manifest)):
        why = "unknown, for the agent was cut off" if partial else "not told"
        aside = f"; {run.reserved_micro / MICRO:.2f} USD were set aside and are counted" if run.reserved_micro else ""
        yield "cost", f"{why}{aside}; counted as one run of {span(run.ended_us - run.started_us)}"
    if usage := usage_of(attempts):
        yield "usage", ("at least " if partial else "") + ", ".join(f"{name} {one:,}" for name, one in usage.items())


def is_paid(manifest: str) -> bool:
    """Tell whether an agent is of a kind that costs money, so that a cost which it does not tell is worth a word."""
    return agent_from_json(manifest).engine in ("claude", "cli", "http")


def attempt_words(attempt: AttemptRow, now_us: int) -> str:
    """Tell one try in one line."""
    took = span((attempt.ended_us or now_us) - attempt.started_us) if attempt.started_us else "never started"
    code = f", exit code {attempt.exit_code}" if attempt.exit_code is not None else ""
    turns = f", {counted(attempt.turns, 'turn')}" if attempt.turns else ""
    session = f", session {attempt.session}" if attempt.session else ""
    return f"{attempt.outcome or 'running'}{code}, {took}{turns}, fence {attempt.fence}, {attempt.worker}{session}"


def state_words(detail: Detail) -> str:
    """Say how it stands, and why."""
    run, now_us = detail.seen.run, detail.now_us
    if run.state == RunState.RUNNING:
        since = f" for {span(now_us - run.started_us)}" if run.started_us else ", about to start"
        asked = f"; asked to stop: {why_so(run.stop)}" if run.stop else ""
        return f"running{since}{asked}"
    if run.state == RunState.READY:
        back = f"; back in the queue: {why_so(run.reason)}" if run.reason else ""
        place = detail.seen.place
        return (place.words(now_us) if place else "queued") + back
    took = f" after {span(run.ended_us - run.started_us)}" if run.ended_us and run.started_us else ""
    why = f": {fate(run.reason, run.exit_code)}" if run.reason else ""
    return f"{run.state}{took}, {ago(run.ended_us or now_us, now_us)}{why}"
