"""`fencepost runs`: what ran, newest first."""

import argparse
from collections.abc import Sequence

from fencepost.cli import options, render
from fencepost.cli.run_words import fitted, what
from fencepost.model.budget import MICRO
from fencepost.model.duration import parse_duration
from fencepost.model.errors import Invalid
from fencepost.model.instants import parse_instant, to_us
from fencepost.model.run import RunState
from fencepost.operations.command_history import list_commands
from fencepost.operations.phrases import ago, span
from fencepost.operations.records.run_record import usage_of
from fencepost.operations.run_list import list_past, listed_record
from fencepost.operations.run_queries import Filter, SeenRun, Store
from fencepost.ports.read_rows import CommandRow

EXAMPLES = """\
  fencepost runs --schedule nightly --limit 5
  fencepost runs --state dead --since 2d
  fencepost runs --json | jq -r 'select(.exit_code > 0) | .id'
"""
LIMIT = 20
COLOURS = {
    "running": options.GREEN,
    "dead": options.RED,
    "failed": options.RED,
    "lost": options.RED,
    "cancelled": options.FAINT,
}
THOUSAND = 1000
Shown = SeenRun | CommandRow


def main(argv: list[str]) -> int:
    """List the runs that are asked for."""
    args = parser().parse_args(argv)
    with options.opened(args) as store:
        wanted = Filter(args.schedule, args.agent, args.state or "", since_us(args.since, store) if args.since else 0)
        now_us, found = list_past(store, options.tenant_of(args), wanted, limit=args.limit)
    if args.json:
        options.print_json(map(listed_record, found))
    else:
        print_runs(found, now_us)
    list_own(args, wanted, args.limit - len(found))
    return 0


def list_own(args: argparse.Namespace, wanted: Filter, limit: int) -> None:
    """List what bare `exec` ran by this machine's own store, where a configuration's was meant."""
    for own in options.machine_store(args):
        ran = list_commands(own, options.DEFAULT_TENANT, wanted, limit=limit) if limit else []
        if args.json:
            options.print_json(map(listed_record, ran))
        elif ran:
            print(f"\nof commands without a configuration, in {own.facts().url}:")
            print_runs(ran, own.clock_us())


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser(
        "runs",
        "List runs and guarded commands, newest first, with how they ended, and below them those in the store of commands without a configuration.",
        EXAMPLES,
    )
    made.add_argument("--schedule", default="", metavar="NAME", help="only this schedule's")
    made.add_argument("--agent", default="", metavar="NAME", help="only this agent's")
    made.add_argument("--state", type=state, metavar="S", help=f"only {', '.join(RunState)}")
    made.add_argument("--since", metavar="T", help="only those made since: 2h, 3d, or 2026-03-08T06:00:00Z")
    options.add_listing(made, limit=LIMIT)
    return made


def state(text: str) -> str:
    """Read a state; what is queued is ready, and what failed is dead."""
    word = {"queued": "ready", "failed": "dead"}.get(text, text)
    if word not in set(RunState):
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(RunState)}")
    return word


def since_us(text: str, store: Store) -> int:
    """Read an instant, or a duration back from now by the store's clock."""
    try:
        return to_us(parse_instant(text))
    except Invalid:
        try:
            return store.clock_us() - round(parse_duration(text) * 1_000_000)
        except Invalid:
            raise Invalid(
                f"--since {text!r} is neither a duration (2h, 3d) nor an instant (2026-03-08T06:00:00Z)."
            ) from None


def print_runs(found: Sequence[Shown], now_us: int) -> None:
    """Print what a person wants to know first."""
    if not found:
        print("no runs")
        return
    rows = [command_row(one, now_us) if isinstance(one, CommandRow) else row(one, now_us) for one in found]
    head: tuple[str, ...] = ("RUN", "STATE", "WHAT", "WHEN", "TOOK", "WHY")
    for name, told in (("COST", cost), ("TOKENS", tokens)):
        column = ["" if isinstance(one, CommandRow) else told(one) for one in found]
        if any(column):  # one that says something
            head = (*head[:-1], name, head[-1])
            rows = [(*one[:-1], said, one[-1]) for one, said in zip(rows, column, strict=True)]
    states = [one.state if isinstance(one, CommandRow) else one.run.state for one in found]
    options.print_table(head, rows, [COLOURS.get(state, "") for state in states])


def command_row(one: CommandRow, now_us: int) -> tuple[str, ...]:
    """Tell a guarded command in one line."""
    took = span((one.ended_us or now_us) - one.started_us)
    why = f"exit code {one.exit_code}" if one.state == "failed" else "its lease was lost" if one.state == "lost" else ""
    refused = f"{one.refused} refused meanwhile" if one.refused else ""
    return (
        one.id,
        one.state,
        fitted(render.plain(one.label)),
        ago(one.started_us, now_us),
        took,
        ", ".join(part for part in (why, refused) if part),
    )


def cost(seen: SeenRun) -> str:
    """Tell what a run has cost, where it said so."""
    micro = seen.run.cost_micro
    return "" if micro is None else f"${micro / MICRO:.2f}"


def tokens(seen: SeenRun) -> str:
    """Tell how many llm_tokens a run went through, where it said so."""
    usage = usage_of(seen.attempts)
    total = usage.get("total") or sum(usage.values())
    if not total:
        return ""
    return f"{total / 1000:.1f}k" if total >= THOUSAND else str(total)


def row(seen: SeenRun, now_us: int) -> tuple[str, ...]:
    """Tell a run in one line."""
    run = seen.run
    took = span((run.ended_us or now_us) - run.started_us) if run.started_us else ""
    why = run.reason or ""
    if run.reason == "exit_code":
        why = f"exit code {run.exit_code}"
    return run.id, standing(run.state), what(seen), ago(run.started_us or run.created_us, now_us), took, why


def standing(word: str) -> str:
    """Say a state in the word that people use for it."""
    return "queued" if word == RunState.READY else word
