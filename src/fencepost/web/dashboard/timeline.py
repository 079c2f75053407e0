"""The timeline as a page shows it: shapes with their places, what each says, and where the buttons lead."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fencepost.drawing.blocks import WORST
from fencepost.drawing.lanes import Bar, Block
from fencepost.drawing.scale import Label
from fencepost.drawing.timeline import By, Picture, Row, Takeover, TickMark, holder, kind_of
from fencepost.model.errors import Invalid
from fencepost.model.instants import parse_instant, to_us
from fencepost.operations.chart import SPANS, Chart, View, chart
from fencepost.operations.phrases import counted, plain, rfc3339, span
from fencepost.operations.run_queries import RunListing, Store, list_live
from fencepost.ports.charts import AttemptFact
from fencepost.web.dashboard import filters
from fencepost.web.dashboard.pages import page
from fencepost.web.door import caller_of, door_of

router = APIRouter(include_in_schema=False)
Plain = Annotated[str, Query(max_length=200)]
AXIS, HEAD, LANE, GAP, MARKS, PAD = 26, 22, 14, 3, 17, 9
TOLD = 100  # attempts and ticks that the table lists
WAITING = 200
ROWS_MAX = 120
LABEL_MAX = 32  # letters: a longer name would lie below the figures of its row
NAMES = {"failed": "failed attempt", "lost": "lost attempt", "waiting": "waiting"}


class Shape(NamedTuple):
    """A bar, a part of a block or a mark: places in per cent, heights in pixels, what it says and where it leads."""

    x: float
    w: float
    y: float
    h: float
    kind: str
    told: str
    href: str = ""
    lead: float | None = None
    fence: bool = False  # a fence was raised here
    number: int = 1  # of an attempt, or of ticks
    resumed: bool = False


class Line(NamedTuple):
    """A takeover."""

    x1: float
    y1: float
    x2: float
    y2: float
    told: str
    href: str


@dataclass(slots=True)
class Strip:
    """A row as it is drawn."""

    label: str
    href: str
    summary: str
    brief: str  # the same for a phone
    y: float
    height: float
    row: Row
    body: float  # where its head ends; the line of the present spares the words in there
    bars: list[Shape] = field(default_factory=list)
    blocks: list[Shape] = field(default_factory=list)
    marks: list[Shape] = field(default_factory=list)
    phone_marks: list[Shape] = field(default_factory=list)

    @property
    def short_label(self) -> str:
        """The label, cut if it is long."""
        return self.label if len(self.label) <= LABEL_MAX else f"{self.label[: LABEL_MAX - 1]}…"


@dataclass(frozen=True, slots=True)
class TimelineView:
    """Everything the template needs."""

    chart: Chart
    strips: list[Strip]
    lines: list[Line]
    labels: list[Label]
    height: float
    now: float | None  # where the present is, in per cent
    nav: Mapping[str, str]  # addresses of the buttons
    spans: list[tuple[str, str, bool]]
    bys: list[tuple[str, str, bool]]
    left_out: int  # rows

    @property
    def top(self) -> int:
        """Where the rows begin."""
        return AXIS

    @property
    def phone_from(self) -> int:
        """Which of the first two labels a phone begins with: it has room for every second one, and a new day is one."""
        return next((place % 2 for place, one in enumerate(self.labels) if one.strong), 0)

    @property
    def words(self) -> str:
        """Which stretch of time it is, and what of it is not told."""
        scale = self.chart.picture.scale
        told = (
            f"{_clock(scale.from_us)} to {_clock(scale.until_us)} UTC. Point at something, or tap it, to read about it."
        )
        if self.left_out:
            told += f" {counted(self.left_out, 'row does', 'rows do')} not fit."
        return told + (" Not every tick without a run is shown." if self.chart.cut else "")

    @property
    def attempts(self) -> list[tuple[AttemptFact, str, bool]]:
        """The newest attempts that are drawn, for the table: the fact, its kind, and whether it was resumed."""
        return list(_listed(self.chart.picture))


@router.get("/timeline")
async def timeline_page(request: Request, span: Plain = "1d", by: Plain = "schedule", until: Plain = "") -> Response:
    """Show what ran, waited and was left out, as time went by."""
    view = view_of(span, until, by)
    found = await door_of(request).desk.ask(chart, caller_of(request).tenant, view)
    drawn = drawn_of(found, "/timeline")
    return page(request, "timeline.html", drawn=drawn, now_us=found.now_us, current="timeline")


@router.get("/projects/{project}")
async def project_page(request: Request, project: str, span: Plain = "1d", until: Plain = "") -> Response:
    """Show one project: its time, and who waits for it."""
    view = view_of(span, until, "schedule", project=project)
    found, live = await door_of(request).desk.ask(_project, caller_of(request).tenant, view)
    drawn = drawn_of(found, f"/projects/{filters.segment(project)}")
    line = [one for one in live.waiting if filters.project_of_line(one) == project]
    return page(request, "project.html", project=project, drawn=drawn, line=line, now_us=found.now_us, current="queues")


def view_of(span: str, until: str, by: str = "schedule", *, schedule: str = "", project: str = "") -> View:
    """Read what an address asks for."""
    if by not in list(By):
        raise Invalid(f"by: {by!r} is none of {', '.join(By)}.")
    return View(span, to_us(parse_instant(until)) if until else None, By(by), schedule, project)


def drawn_of(found: Chart, path: str, *, query: str = "") -> TimelineView:
    """Turn a picture into shapes; `path` is where the buttons lead, `query` what they keep."""
    picture, strips, y = found.picture, [], float(AXIS)
    addresses = _Addresses(found, path, query)
    for row in picture.rows[:ROWS_MAX]:
        strip = _strip(found, row, y, addresses)
        strips.append(strip)
        y += strip.height
    now = picture.scale.place(found.now_us) * 100 if picture.scale.holds(found.now_us) else None
    shown = len(strips)
    lines = [_line(strips, one) for one in picture.takeovers if max(one.old_at[0], one.new_at[0]) < shown]
    return TimelineView(
        found,
        strips,
        lines,
        picture.scale.labels(),
        y + 4,
        now,
        addresses.buttons(),
        [(one, addresses.of(one), one == found.view.span) for one in SPANS],
        [(one.value, addresses.of(found.view.span, by=one), one is found.view.by) for one in By],
        max(0, len(picture.rows) - ROWS_MAX),
    )


class _Addresses:
    """Where the buttons lead."""

    def __init__(self, found: Chart, path: str, query: str) -> None:
        self._found = found
        self._path = path
        self._query = query

    def of(self, span: str, until_us: int | None = None, by: By | None = None) -> str:
        """Spell an address that keeps the end of what is shown, unless another end is named."""
        return self._spell(span, until_us if until_us is not None else self._found.view.until_us, by)

    def _spell(self, span: str, until_us: int | None, by: By | None = None) -> str:
        """Spell an address; one that follows the present names no end."""
        kind = (by or self._found.view.by).value
        until = rfc3339(until_us) if until_us is not None else None
        asked = filters.query_of(span=span, by=kind if kind != By.SCHEDULE else "", until=until or "")
        return f"{self._path}?{'&'.join(one for one in (self._query, asked) if one)}#timeline"

    def buttons(self) -> dict[str, str]:
        """Return where each button leads; one that leads nowhere is left out."""
        view, scale, now_us = self._found.view, self._found.picture.scale, self._found.now_us
        names = list(SPANS)
        at, half = names.index(view.span), view.span_us // 2
        found = {"earlier": self.of(view.span, scale.until_us - half)}
        if view.until_us is not None:
            found["now"] = self._now()
            following = scale.until_us + half
            found["later"] = self.of(view.span, following) if following < now_us else self._now()
        if at:
            found["in"] = self._around(names[at - 1])
        if at + 1 < len(names):
            found["out"] = self._around(names[at + 1])
        return found

    def near(self, place: float) -> str:
        """Return a closer look at a place of the picture."""
        names = list(SPANS)
        closer = names[max(0, names.index(self._found.view.span) - 2)]
        scale = self._found.picture.scale
        middle = scale.from_us + round(place * scale.span_us)
        return self.of(closer, middle + View(closer).span_us // 2)

    def _around(self, span: str) -> str:
        """Keep the middle where it is; a picture that follows the present goes on doing so."""
        view, scale = self._found.view, self._found.picture.scale
        if view.until_us is None:
            return self.of(span)
        return self.of(span, (scale.from_us + scale.until_us + View(span).span_us) // 2)

    def _now(self) -> str:
        return self._spell(self._found.view.span, None)


def _strip(found: Chart, row: Row, y: float, addresses: _Addresses) -> Strip:
    lanes = row.laid.lanes
    top = y + HEAD
    marks_y = top + lanes * (LANE + GAP)
    height = HEAD + lanes * (LANE + GAP) + (MARKS if row.marks else 0) + PAD
    label, href = _label(found.view.by, row.key)
    strip = Strip(label, href, " · ".join(_figures(row)), " · ".join(_most_needed(row)), y, height, row, top)
    strip.bars = [_bar(found, one, top) for one in row.laid.bars]
    strip.blocks = [shape for one in row.laid.blocks for shape in _block(one, top, addresses)]
    strip.marks = [_mark(row, one, marks_y, addresses) for one in row.marks]
    strip.phone_marks = [_mark(row, one, marks_y, addresses) for one in row.phone_marks]
    return strip


def _label(by: By, key: str) -> tuple[str, str]:
    if by is By.SCHEDULE and key.startswith("agent "):
        agent = key.removeprefix("agent ")
        return f"{plain(agent)}, on request", f"/runs?agent={filters.segment(agent)}"
    if by is By.SCHEDULE:
        return plain(key), f"/schedules/{filters.segment(key)}"
    if by is By.PROJECT:
        return (plain(key), f"/projects/{filters.segment(key)}") if key else ("in no project", "")
    return (plain(key), "") if key else ("not with a worker yet", "")


def _figures(row: Row) -> Iterator[str]:
    if row.runs:
        yield counted(row.runs.total(), "run")
    yield from (f"{row.runs[kind]} {kind}" for kind in ("running", "waiting", "dead", "cancelled") if row.runs[kind])
    if row.skips:
        yield f"{row.skips.total()} without a run"
    if row.cost_micro:
        yield filters.money(row.cost_micro)


def _most_needed(row: Row) -> Iterator[str]:
    """Choose what fits beside a name on a phone."""
    if row.runs:
        yield counted(row.runs.total(), "run")
    if row.runs["dead"]:
        yield f"{row.runs['dead']} dead"
    if not row.runs:
        yield f"{row.skips.total()} without a run"


def _bar(found: Chart, bar: Bar, top: float) -> Shape:
    fact = found.picture.facts[bar.thing]
    return Shape(
        bar.x * 100,
        bar.w * 100,
        top + bar.lane * (LANE + GAP),
        LANE,
        bar.kind,
        told_of(found, fact, bar.kind, resumed=bar.thing in found.picture.resumed),
        f"/runs/{filters.segment(fact.run_id)}",
        None if bar.lead is None else bar.lead * 100,
        fence=fact.fence is not None and found.picture.scale.holds(fact.started_us or 0),
        number=fact.number or 1,
        resumed=bar.thing in found.picture.resumed,
    )


def _block(block: Block, top: float, addresses: _Addresses) -> Iterator[Shape]:
    """Stack the kinds of a block, as high as their share; the worst on top, and never so low that it is not seen."""
    y, told = top + block.lane * (LANE + GAP), f"{_counts(block.counts)}; look closer"
    kinds = [kind for kind in WORST if block.counts.get(kind)]
    least = min(3.0, LANE / len(kinds))
    room = LANE - least * len(kinds)
    href = addresses.near(block.x + block.w / 2)
    for kind in kinds:
        height = least + room * block.counts[kind] / block.count
        yield Shape(block.x * 100, block.w * 100, y, height, kind, told, href, number=block.count)
        y += height


def _mark(row: Row, mark: TickMark, y: float, addresses: _Addresses) -> Shape:
    when = (
        _clock(mark.first_us) if mark.first_us == mark.last_us else f"{_clock(mark.first_us)} to {_clock(mark.last_us)}"
    )
    told = f"{row.key}: {_skips(mark.counts)}, {when} UTC"
    href = f"/schedules/{filters.segment(row.key)}?wanted={mark.kind}#ticks" if row.key else ""
    href = href if len(mark.counts) == 1 else addresses.near(mark.x + mark.w / 2)
    return Shape(mark.x * 100, mark.w * 100, y, MARKS, mark.kind, told, href, number=mark.count)


def _line(strips: list[Strip], one: Takeover) -> Line:
    (old_row, old_lane, old_x), (new_row, new_lane, new_x) = one.old_at, one.new_at
    told = (
        f"takeover of {one.run_id}: from {holder(one.old.worker)} (fence {one.old.fence}) "
        f"to {holder(one.new.worker)} (fence {one.new.fence}), {_clock(one.new.started_us or 0)} UTC"
    )
    middle = HEAD + LANE / 2
    y1 = strips[old_row].y + middle + old_lane * (LANE + GAP)
    y2 = strips[new_row].y + middle + new_lane * (LANE + GAP)
    return Line(old_x * 100, y1, new_x * 100, y2, plain(told), f"/runs/{filters.segment(one.run_id)}")


def told_of(found: Chart, fact: AttemptFact, kind: str, *, resumed: bool) -> str:
    """Say everything about one attempt in a line."""
    who = fact.schedule or fact.agent
    parts = [f"{plain(who)} {fact.run_id}", NAMES.get(kind, kind)]
    if fact.number and fact.number > 1:
        parts[1] += f" ({'resumed, ' if resumed else ''}attempt {fact.number})"
    if fact.started_us is None:
        parts.append(f"since {_clock(fact.created_us)} UTC")
    else:
        took = span((fact.ended_us or found.now_us) - fact.started_us)
        parts.append(f"{_clock(fact.started_us)} UTC, {took} on {plain(holder(fact.worker))}, fence {fact.fence}")
        if fact.number == 1 and (waited := fact.started_us - fact.created_us) >= filters.MICRO:
            parts.append(f"waited {span(waited)}")
    if fact.cost_micro:
        parts.append(filters.money(fact.cost_micro))
    return ": ".join((parts[0], ", ".join(parts[1:])))


def _clock(us: int) -> str:
    at = filters.from_us(us)
    return f"{at:%a} {at.day} {at:%b} {at:%H:%M}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {NAMES.get(kind, kind)}" for kind, number in sorted(counts.items()))


def _skips(counts: Mapping[str, int]) -> str:
    return ", ".join(
        f"{counted(number, 'tick')} {filters.WORDS.get(kind, kind)}" for kind, number in sorted(counts.items())
    )


def _listed(picture: Picture) -> Iterator[tuple[AttemptFact, str, bool]]:
    facts, last = picture.facts, {}
    for place in sorted(range(len(facts)), key=lambda at: facts[at].fence or 0):
        last[facts[place].run_id] = place
    newest = sorted(range(len(facts)), key=lambda at: facts[at].started_us or facts[at].created_us, reverse=True)
    for place in newest[:TOLD]:
        yield facts[place], kind_of(facts[place], last=last[facts[place].run_id] == place), place in picture.resumed


def _project(store: Store, tenant: str, view: View) -> tuple[Chart, RunListing]:
    return chart(store, tenant, view), list_live(store, tenant, limit=WAITING)
