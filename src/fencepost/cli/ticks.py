"""`fencepost ticks`: preview the ticks of a schedule or a cron expression; with --batch, answer many questions from a script."""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain, islice

from fencepost.model.cron_warnings import cron_warnings
from fencepost.model.errors import Invalid
from fencepost.model.instants import format_instant
from fencepost.model.trigger import CronTrigger, cron_trigger
from fencepost.model.zone import Zone, find_zone, tzdata_version
from fencepost.operations.preview import PreviewedTick, parse_moment, preview
from fencepost.operations.records import as_json
from fencepost.operations.records.preview_record import preview_record

SHOWN_DEFAULT = 10
SHOWN_UNTIL_DEFAULT = 1000
YELLOW, PLAIN = "\033[33m", "\033[0m"
EPILOG = """\
examples:
  fencepost ticks nightly --until 2026-12-01
  fencepost ticks --cron '30 2 * * *' --timezone Europe/Berlin -n 5
  fencepost ticks --cron '@hourly' --timezone America/New_York \\
      --from 2026-11-01 --until 2026-11-02
  fencepost ticks --cron '0 9 * * MON-FRI' --timezone UTC --json --limit 3

with --batch, one JSON object per line is read from standard input:
  {"expr": "30 2 * * *", "zone": "Europe/Berlin", "dst_gap": "skip",
   "start": "2026-03-28T00:00:00Z", "end": "2026-03-31T00:00:00Z"}
and answered by one line, in order:
  {"fired":["2026-03-28T01:30:00Z",...],"skipped":["2026-03-29T02:30:00"]}
or {"error":"..."}. dst_gap and dst_fold may be left out.
"""


def main(argv: list[str]) -> int:
    """Run the command."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.batch:
        if args.name or args.cron or args.timezone or args.start or args.end or args.limit:
            parser.error("--batch reads everything from standard input; leave the other options out")
        from fencepost.cli.ticks_batch import answer_all

        answer_all(sys.stdin.buffer, sys.stdout)
        return 0
    if args.name:
        return _schedule(parser, args)
    trigger = _trigger(args)
    zone = trigger.zone
    start = parse_moment(args.start, zone) if args.start else _now()
    end = parse_moment(args.end, zone) if args.end else None
    if end and end < start:
        raise Invalid(f"--until ({args.end}) is before --from ({format_instant(start)}); swap them.")
    limit = args.limit or (SHOWN_UNTIL_DEFAULT if end else SHOWN_DEFAULT)
    lines = preview(trigger, start, end)
    told = _json_lines(map(preview_record, islice(lines, limit))) if args.json else None
    for text in told or _page(trigger, lines, limit, bounded=end is not None):
        print(text)
    _warn(args.cron, zone.name)
    return 0


def _schedule(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    """Preview a schedule of the registry."""
    from fencepost.cli import ticks_schedule

    if args.cron or args.timezone or args.dst_gap or args.dst_fold:
        parser.error("SCHEDULE has its own expression, zone and policies; leave --cron, --timezone and --dst-... out")
    asked = ticks_schedule.ask(args)
    limit = args.limit or (SHOWN_UNTIL_DEFAULT if asked.end else SHOWN_DEFAULT)
    if args.json:
        known = map(preview_record, islice(asked.lines, limit))
        row = asked.listed.row
        texts = _json_lines(
            known if asked.trigger else ticks_schedule.fields_after_an_end(asked, limit), row.name, row.version
        )
    else:
        rows = _rows(asked.zone, asked.lines, limit, bounded=asked.end is not None)
        texts = chain(
            map(_fit, ticks_schedule.head(asked)), rows if asked.trigger else ticks_schedule.after_an_end(asked, limit)
        )
    for text in texts:
        print(text)
    _warn(asked.listed.definition.cron, asked.listed.definition.timezone)
    return 0


def _warn(lines: str | Iterable[str], zone: str) -> None:
    for warning in cron_warnings(lines, zone):
        print(f"warning: {warning}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fencepost ticks",
        description="Preview a schedule or a cron expression, days of clock changes in words.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", metavar="SCHEDULE", help="a schedule of the registry")
    parser.add_argument("--cron", metavar="E", help="five fields, six with leading seconds, or a macro like @daily")
    parser.add_argument("--timezone", metavar="Z", help="an IANA name, such as Europe/Berlin")
    parser.add_argument("--from", dest="start", metavar="T", help="instant, or wall time in the zone (default: now)")
    parser.add_argument("--until", dest="end", metavar="T", help="where to stop; this instant itself is left out")
    parser.add_argument(
        "-n", "--limit", type=_positive, metavar="N", help="how many lines (default: 10; 1000 with --until)"
    )
    parser.add_argument("--dst-gap", metavar="P", help="when clocks jump ahead: skip (default) or shift")
    parser.add_argument("--dst-fold", metavar="P", help="when they go back: auto (default), first, last, both")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--store", metavar="URL", help="with SCHEDULE: sqlite:/path or postgresql://host/db")
    parser.add_argument("--tenant", metavar="NAME", help="with SCHEDULE: whose schedule")
    parser.add_argument("--config", metavar="FILE", help="with SCHEDULE: the fencepost.toml to go by")
    parser.add_argument("--batch", action="store_true", help="answer JSON lines from standard input")
    return parser


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text[:9]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text[:9])


def _trigger(args: argparse.Namespace) -> CronTrigger:
    if not args.cron:
        raise Invalid(
            "say which schedule: fencepost ticks SCHEDULE; "
            "or which expression: fencepost ticks --cron '0 9 * * *' --timezone Europe/Berlin."
        )
    if not args.timezone:
        raise Invalid(
            "a cron expression needs its --timezone, such as Europe/Berlin or UTC; there is no silent default."
        )
    find_zone(args.timezone)
    return cron_trigger(args.cron, args.timezone, dst_gap=args.dst_gap or "skip", dst_fold=args.dst_fold or "auto")


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251  # only where a preview starts; nothing is decided by it


def _json_lines(ticks: Iterable[object], schedule: str | None = None, version: int | None = None) -> Iterator[str]:
    """Yield a line for each, with the fields of a recorded tick; there is no run of it yet."""
    whose = {"schedule": schedule, "version": version, "run_id": None}
    return (json.dumps({**whose, **as_json(one)}) for one in ticks)


def _page(trigger: CronTrigger, lines: Iterator[PreviewedTick], limit: int, *, bounded: bool) -> Iterator[str]:
    auto = " (auto)" if trigger.fold != trigger.fold_decided else ""
    yield _fit(trigger.cron.text)
    yield f"{trigger.zone.name}, tzdata {tzdata_version()}, gap: {trigger.gap}, fold: {trigger.fold_decided}{auto}"
    yield ""
    yield from _rows(trigger.zone, lines, limit, bounded=bounded)


def _rows(zone: Zone, lines: Iterator[PreviewedTick], limit: int, *, bounded: bool) -> Iterator[str]:
    coloured = _colours()
    shown = 0
    for shown, line in enumerate(islice(lines, limit), 1):  # noqa: B007  # counted for what follows
        text = _row(zone, line)
        yield f"{YELLOW}{text}{PLAIN}" if coloured and line.note else text
    if not shown:
        yield "no ticks" + (" in this window" if bounded else " in the next 400 years")
    elif bounded and next(lines, None):
        yield f"... and more; this shows {limit}, ask for others with -n N"


def _row(zone: Zone, line: PreviewedTick) -> str:
    first = line.occurrence
    if first.missing:
        return _fit(f"{first.slot:%a} {first.slot.isoformat(' ')}  {line.note}")
    local = zone.local(first.tick_at)
    return f"{local:%a} {local.isoformat(' ')}  {format_instant(first.tick_at)}  {line.note}".rstrip()


def _fit(text: str) -> str:
    from fencepost.cli import render

    return render.cut(text, render.width())


def _colours() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
