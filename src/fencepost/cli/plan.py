"""`fencepost plan`: what an apply would change, what is probably not meant, and the next ticks."""

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager

from fencepost.cli import options, render
from fencepost.cli.registry import OpenStore, common_options, desk, file_of, tenant_for, this_file
from fencepost.config.load import Config, load
from fencepost.model.effects import effects_of
from fencepost.model.instants import format_instant
from fencepost.model.registry_plan import AgentChange, ChangeKind, FieldChange, ScheduleChange
from fencepost.operations.agent_probe import probing_of
from fencepost.operations.records.plan_record import agent_changes, by_subject, schedule_changes
from fencepost.operations.schedule_registry import Planned, Upcoming, plan_config, upcoming
from fencepost.wiring import store_choice

MARKS = {
    ChangeKind.ADDED: "+",
    ChangeKind.CHANGED: "~",
    ChangeKind.REVIVED: "+",
    ChangeKind.MOVED: ">",
    ChangeKind.RETIRED: "-",
    ChangeKind.UNCHANGED: "=",
}
EPILOG = """\
examples:
  fencepost plan
  fencepost plan ops/fencepost.toml --json | jq 'select(.change == "changed")'
"""


def main(argv: list[str]) -> int:
    """Show what an apply would do; nothing is changed."""
    args = parser().parse_args(argv)
    path = file_of(args)
    config = load(path)
    with planning(args, config) as (at, url):
        probing = probing_of(config, os.environ)
        planned = plan_config(
            at.store.registry(),
            config,
            tenant=at.tenant,
            take_over=args.take_over,
            rollback=args.rollback,
            probing=probing,
            file=this_file(config),
        )
        where = f"{args.file or path} -> {url}, tenant {planned.plan.wanted.tenant}"
    for line in json_lines(planned, config) if args.json else page(planned, config, where):
        print(line)
    return 2 if planned.plan.conflicts else 0


@contextmanager
def planning(args: argparse.Namespace, config: Config) -> Iterator[tuple[OpenStore, str]]:
    """Open the registry and say which store is meant; for one that is not there yet, an empty one stands in."""
    url = store_choice.store_of_config(args.store, config, tenant_for(args, config))
    with store_choice.planning_url(url) as found, desk(args, config, url=found) as at:
        yield at, at.url if found == url else f"{url} (new)"


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    found = argparse.ArgumentParser(
        prog="fencepost plan",
        description="Show what 'fencepost apply' would change, with warnings and the next\nticks. Changes nothing.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common_options()],
    )
    found.add_argument("file", nargs="?", metavar="FILE")
    found.add_argument("--take-over", action="store_true", help="as if definitions of other files were moved here")
    found.add_argument(
        "--rollback", action="store_true", help="as if this earlier version of the file were wanted back"
    )
    return found


def page(planned: Planned, config: Config, where: str) -> Iterator[str]:
    """Yield the lines for a person."""
    warnings = by_subject(planned)
    told: dict[str, str] = {}
    yield where
    general = (one for one in planned.warnings if one.what in ("project", "hook"))
    yield from (options.folded(f"! {one.what} {one.name}: {one.message}", hang="  ") for one in general)
    for agent in planned.plan.agents:
        yield from block("agent", agent)
        if agent.name in config.agents:
            yield f"    effects  {effects_of(config.agents[agent.name]).words()}"
        yield from _warning_lines(warnings["agent", agent.name], agent.name, told)
    for schedule in planned.plan.schedules:
        yield from block("schedule", schedule)
        yield from _warning_lines(warnings["schedule", schedule.name], schedule.name, told)
        if schedule.kind is not ChangeKind.RETIRED and schedule.name in config.schedules:
            ticks = upcoming(config.schedules[schedule.name], after=planned.now)
            yield from (f"    next  {tick_line(tick)}" for tick in ticks)
    yield from (options.folded(f"! {conflict}", hang="  ") for conflict in planned.plan.conflicts)
    yield summary(planned)


def block(what: str, change: AgentChange | ScheduleChange) -> Iterator[str]:
    """Yield what becomes of an agent or a schedule, field by field."""
    version = f", version {change.version}" if isinstance(change, ScheduleChange) else ""
    yield f"{MARKS[change.kind]} {what} {change.name}: {change.kind}{version}"
    if change.kind in (ChangeKind.CHANGED, ChangeKind.REVIVED):
        yield from (f"    {field_line(one)}" for one in change.fields)
        if isinstance(change, ScheduleChange) and change.agent_changed:
            yield f"    its agent {change.agent} is another one now"


def summary(planned: Planned) -> str:
    """Count what becomes of everything."""
    found = planned.plan.counts()
    counts = [f"{found[kind]} {kind}" for kind in ChangeKind if found[kind]]
    conflicts = len(planned.plan.conflicts)
    if conflicts:
        counts.append(f"{conflicts} {'conflict' if conflicts == 1 else 'conflicts'}")
    return ", ".join(counts) or "nothing is defined"


def field_line(change: FieldChange) -> str:
    """Spell one field before and after."""
    return f"{change.field}: {_value(change.old)} -> {_value(change.new)}"


def tick_line(tick: Upcoming) -> str:
    """Spell a tick to come."""
    at = format_instant(tick.at) if tick.at else ""
    return "  ".join(part for part in (tick.local, at, tick.note) if part)


def json_lines(planned: Planned, config: Config) -> Iterator[str]:
    """Yield one object for each agent, schedule and conflict."""
    yield from map(options.json_line, agent_changes(planned, config))
    yield from map(options.json_line, schedule_changes(planned, config))
    yield from (json.dumps({"what": "conflict", "message": message}) for message in planned.plan.conflicts)


def _warning_lines(messages: list[str], name: str, told: dict[str, str]) -> Iterator[str]:
    """Spell warnings; what was said in full of another before is not said in full again."""
    for message in messages:
        first = told.setdefault(message, name)
        words = message if first == name or len(message) < render.WIDTH else f"the same as of {first}"
        yield options.folded(f"    warning: {words}", hang=" " * 13)


def _value(value: object) -> str:
    text = "(default)" if value is None else json.dumps(value, ensure_ascii=False)
    return render.plain(render.cut(text, render.width()))
