"""`fencepost simulate`: what your schedules would do in a year, with outages and clock changes, in seconds."""

import argparse
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta

from fencepost import wiring
from fencepost.cli import options, render
from fencepost.cli.progress_bar import ProgressBar
from fencepost.cli.registry import file_of
from fencepost.cli.simulate_page import load_page, page
from fencepost.config.load import Config, load
from fencepost.model.budget import parse_usd
from fencepost.model.cron_warnings import cron_warnings
from fencepost.model.duration import parse_duration
from fencepost.model.errors import FencepostError, Invalid
from fencepost.model.instants import from_us
from fencepost.model.zone import Zone, find_zone
from fencepost.operations.preview import parse_moment
from fencepost.operations.simulation.past_usage import applied, expected_of
from fencepost.operations.simulation.scenario import (
    CRASHES_MAX,
    DURATION,
    Expected,
    Outage,
    Scenario,
    check_size,
    check_span,
    crashes,
    in_order,
    only,
)
from fencepost.operations.simulation.simulate import simulate
from fencepost.operations.simulation.store_load import load_fields, load_of
from fencepost.operations.simulation.tally import report_fields
from fencepost.wiring import store_choice

EXAMPLES = """\
  fencepost simulate
  fencepost simulate --for 30d --duration nightly=40m --cost nightly=0.30
  fencepost simulate --outage 2027-03-27..2027-03-29 --json
  fencepost simulate --crashes 12 --seed 7 --workers 4
  fencepost simulate --for 7d --agents 100000 --workers 10000

It runs the file's schedules, or with --applied those of the registry, on the
product's own code with a clock that is moved. Nothing is started, nothing of
yours is changed. How long a run takes, and what it costs, is taken from the
store's records where there are any; say it with --duration and --cost.
Pauses are not looked at. With --agents it also prints what so many agents,
scheduled like these, would ask of a PostgreSQL store. A day given as --outage
begins at midnight in the file's zone, or in UTC.
"""
YEAR = timedelta(days=365)
SEED_MAX = 1 << 31


def main(argv: list[str]) -> int:
    """Simulate, and say what became of every schedule."""
    args = parser().parse_args(argv)
    scenario = scenario_of(args)
    check_size(scenario)
    with ProgressBar("simulating") as bar:
        span = (scenario.end - scenario.start).total_seconds()
        report = simulate(
            scenario,
            wiring.simulated_store,
            progress=lambda at: bar.to((at - scenario.start).total_seconds(), span, words=f"{at:%Y-%m-%d}"),
        )
    load = load_of(report, agents=args.agents, workers=args.workers) if args.agents else None
    if args.json:
        options.print_json([*report_fields(report), *([{"load": load_fields(load)}] if load else [])])
    for line in () if args.json else (*page(report), *(load_page(load) if load else ())):
        print(line)
    for name, schedule in scenario.schedules.items():
        for warning in cron_warnings(schedule.cron, schedule.timezone):
            render.tell(f"warning: {name}: {warning}")
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser(
        "simulate", "Show what your schedules would do over a span of time, without waiting.", EXAMPLES
    )
    made.add_argument("file", nargs="?", metavar="FILE", help="default: fencepost.toml, upwards from here")
    made.add_argument("--applied", action="store_true", help="what is in the registry, instead of a file")
    made.add_argument("--schedule", action="append", metavar="NAME", help="only this one; may be repeated")
    made.add_argument("--from", dest="start", metavar="T", help="from this instant or wall time on (default: now)")
    made.add_argument("--until", dest="end", metavar="T", help="before this instant or wall time")
    made.add_argument("--for", dest="span", metavar="D", help="so long (default 365d)")
    made.add_argument("--outage", action="append", default=[], metavar="A..B", help="down from A until B; repeatable")
    made.add_argument("--crashes", type=_number(CRASHES_MAX), default=0, metavar="N", help="so many random outages")
    made.add_argument("--seed", type=_number(SEED_MAX), default=0, metavar="N", help="which random ones (default 0)")
    made.add_argument("--duration", action="append", default=[], metavar="[NAME=]D", help="how long a run takes")
    made.add_argument("--cost", action="append", default=[], metavar="[NAME=]USD", help="what a run costs")
    made.add_argument("--workers", type=options.positive, default=2, metavar="N", help="how many runs at once (2)")
    made.add_argument("--agents", type=options.positive, metavar="M", help="the load of M such agents on their store")
    made.add_argument("--no-history", action="store_true", help="do not look into the store's records")
    made.add_argument("--thorough", action="store_true", help="carry out every run one by one, even the usual ones")
    options.add_json(made)
    options.add_store(made)
    return made


def scenario_of(args: argparse.Namespace) -> Scenario:
    """Put together what is to be simulated."""
    if args.applied and args.file:
        raise Invalid("give a file, or --applied for what is in the registry, not both.")
    if args.end and args.span:
        raise Invalid("give --until or --for, not both.")
    scenario = _of_registry(args) if args.applied else _of_file(args)
    if args.schedule:
        scenario = only(scenario, args.schedule)
    room = max(args.workers, len(scenario.schedules)) if args.agents else args.workers  # a fleet has room for each
    return replace(scenario, expected=_expected(args, scenario), workers=room, thorough=args.thorough)


def _of_file(args: argparse.Namespace) -> Scenario:
    config = load(file_of(args))
    tenant = args.tenant or os.environ.get("FENCEPOST_TENANT") or config.settings.tenant
    zone = find_zone(config.settings.timezone or "UTC")
    start, end, outages = _span(args, zone)
    projects = config.projects
    expected = {} if args.no_history else _history(args, config, tenant)
    return Scenario(tenant, config.agents, config.schedules, start, end, outages, expected, projects)


def _of_registry(args: argparse.Namespace) -> Scenario:
    start, end, outages = _span(args, find_zone("UTC"))
    tenant = options.tenant_of(args)
    with options.opened(args) as store:
        agents, schedules = applied(store, tenant)
        expected = {} if args.no_history else expected_of(store, tenant, schedules)
    return Scenario(tenant, agents, schedules, start, end, outages, expected)


def _history(args: argparse.Namespace, config: Config, tenant: str) -> Mapping[str, Expected]:
    """Look into the records of the file's store, if there is one: a simulation makes none, and needs none."""
    try:
        url = store_choice.store_of_config(args.store, config, tenant)
        if not store_choice.may_be_there(url):
            return {}
        with closing(wiring.open_runtime(url)) as store:
            return expected_of(store, tenant, config.schedules)
    except FencepostError as error:
        render.tell(f"going on without the records of the store: {error}")
        return {}


def _span(args: argparse.Namespace, zone: Zone) -> tuple[datetime, datetime, tuple[Outage, ...]]:
    start = parse_moment(args.start, zone) if args.start else _now()
    if args.end:
        end = parse_moment(args.end, zone)
    else:
        end = start + (timedelta(seconds=parse_duration(args.span)) if args.span else YEAR)
    check_span(start, end)
    outages = [*(_outage(text, zone) for text in args.outage), *crashes(args.crashes, args.seed, start, end)]
    return start, end, in_order(outages, start, end)


def _now() -> datetime:
    from fencepost.service.following import system_clock

    return from_us(system_clock().wall_us()).replace(microsecond=0)


def _outage(text: str, zone: Zone) -> Outage:
    first, dots, last = text.partition("..")
    if not dots:
        raise Invalid(f"--outage {text!r} is no stretch of time; write 2027-03-27T22:00..2027-03-28T08:00.")
    found = Outage(parse_moment(first, zone), parse_moment(last, zone))
    if found.end <= found.start:
        raise Invalid(f"--outage {text!r} ends before it begins; swap the two.")
    return found


def _expected(args: argparse.Namespace, scenario: Scenario) -> Mapping[str, Expected]:
    """Let what was said stand before what was recorded, and a schedule's own word before the one for all."""
    durations = _words("--duration", args.duration, scenario.schedules)
    costs = _words("--cost", args.cost, scenario.schedules)
    found = {}
    for name in scenario.schedules:
        one = scenario.expects(name)
        if (said := durations.get(name, durations.get(""))) is not None:
            one = replace(one, duration=_duration(said), duration_from="--duration")
        if (said := costs.get(name, costs.get(""))) is not None:
            one = replace(one, cost=parse_usd(said, name="--cost"), cost_from="--cost")
        found[name] = one
    return found


def _duration(text: str) -> timedelta:
    found = timedelta(seconds=parse_duration(text))
    if not found:
        raise Invalid(f"--duration {text!r} is nothing; a run takes some time, for example {DURATION.seconds // 60}m.")
    return found


def _words(option: str, said: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """Read NAME=VALUE, or a VALUE for all."""
    from fencepost.config.value_kinds import did_you_mean

    found = {}
    for text in said:
        name, equals, value = text.partition("=")
        if equals and name not in known:
            raise Invalid(f"{option} {text!r}: there is no schedule {name!r} here.{did_you_mean(name, known)}")
        found[name if equals else ""] = value if equals else text
    return found


def _number(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and int(text[:11]) <= most):
            raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to {most}")
        return int(text)

    return read
