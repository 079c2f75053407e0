"""`fencepost timeline`: what ran, waited and was left out, drawn in letters."""

import argparse
import json
from collections.abc import Iterator

from fencepost.cli import options, render
from fencepost.cli.top import COLOURS
from fencepost.drawing.blocks import UNITS, Drawn, axis, legend, row_lines
from fencepost.drawing.timeline import By, holder, kind_of
from fencepost.model.budget import money
from fencepost.model.instants import to_us
from fencepost.model.zone import find_zone
from fencepost.operations.chart import SPANS, Chart, View, chart
from fencepost.operations.phrases import counted, rfc3339
from fencepost.operations.preview import parse_moment
from fencepost.operations.schedule_registry import find_schedule

EXAMPLES = """\
  fencepost timeline nightly
  fencepost timeline nightly --span 7d
  fencepost timeline --by worker --span 6h --until 2027-04-09T12:00:00Z
"""


def main(argv: list[str]) -> int:
    """Draw a stretch of time."""
    args = parser().parse_args(argv)
    width = render.frame_width()
    until = to_us(parse_moment(args.until, find_zone("UTC"))) if args.until else None
    with options.opened(args) as store:
        tenant = options.tenant_of(args)
        if args.name:
            find_schedule(store.registry(), args.name, tenant=tenant)  # or say what it may have been meant to be
        view = View(args.span, until, By(args.by), args.name or "")
        found = chart(store, tenant, view, width=width * UNITS)
    for line in map(json.dumps, fields(found)) if args.json else page(found, width):
        print(line)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser("timeline", "Draw what ran, waited and was left out, as time went by.", EXAMPLES)
    made.add_argument("name", nargs="?", metavar="NAME", help="only this schedule (default: all)")
    made.add_argument("--span", choices=list(SPANS), default="1d", metavar="D", help=f"{', '.join(SPANS)} (default 1d)")
    made.add_argument("--until", metavar="T", help="before this instant, or this time in UTC (default: now)")
    made.add_argument("--by", choices=list(By), default="schedule", help="what a row is (default: schedule)")
    options.add_json(made)
    options.add_store(made)
    return made


def page(found: Chart, width: int) -> Iterator[str]:
    """Yield the picture: the axis, the rows, the takeovers, and what the letters mean."""
    picture = found.picture
    scale = picture.scale
    yield options.paint(f"{rfc3339(scale.from_us)} to {rfc3339(scale.until_us)}", options.FAINT)
    if not picture.rows:
        yield "Nothing ran, waited or was left out in this time."
        return
    for line in axis(scale, width):
        yield options.paint(line, options.FAINT)
    for row in picture.rows:
        told = [counted(row.runs.total(), "run")] if row.runs else []
        told += [f"{row.runs[kind]} {kind}" for kind in ("running", "waiting", "dead") if row.runs[kind]]
        told += [f"{row.skips.total()} without a run"] if row.skips else []
        told += [money(row.cost_micro)] if row.cost_micro else []
        name = render.plain(row.key) or ("in no project" if found.view.by is By.PROJECT else "with no worker yet")
        yield render.fit(f"{name} · {', '.join(told)}", width).rstrip()
        yield from (painted(line) for line in row_lines(row, width))
    for one in picture.takeovers:
        yield (
            f"takeover of {one.run_id}: {render.plain(holder(one.old.worker))}, fence {one.old.fence} → "
            f"{render.plain(holder(one.new.worker))}, fence {one.new.fence}"
        )[:width]
    words = "  ".join(f"{letter} {kind}" for letter, kind in legend(picture))
    yield options.paint(options.wrapped(f"{words}  ─ waited"), options.FAINT)


def painted(line: Drawn) -> str:
    """Colour a line of letters, where there are colours."""
    if not options.coloured():
        return line.text.rstrip()
    return "".join(
        options.paint(letter, COLOURS.get(kind, "")) for letter, kind in zip(line.text, line.kinds, strict=True)
    ).rstrip()


def fields(found: Chart) -> Iterator[dict[str, object]]:
    """Yield each attempt and each row's ticks without a run, as scripts see them."""
    picture = found.picture
    newest = {
        one.run_id: max(two.fence or 0 for two in picture.facts if two.run_id == one.run_id) for one in picture.facts
    }
    for place, one in enumerate(picture.facts):
        yield {
            "run": one.run_id,
            "schedule": one.schedule,
            "agent": one.agent,
            "project": one.project,
            "attempt": one.number,
            "kind": kind_of(one, last=(one.fence or 0) == newest[one.run_id]),
            "resumed": place in picture.resumed,
            "fence": one.fence,
            "worker": one.worker,
            "made_at": rfc3339(one.created_us),
            "started_at": rfc3339(one.started_us),
            "ended_at": rfc3339(one.ended_us),
        }
    for row in picture.rows:
        for mark in row.marks:
            yield {
                "row": row.key,
                "ticks": dict(mark.counts),
                "from": rfc3339(mark.first_us),
                "until": rfc3339(mark.last_us),
            }
