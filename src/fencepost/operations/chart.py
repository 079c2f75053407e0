"""What is drawn of a tenant's time: asked for once, told by the store in as many rows as the eye can part."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from fencepost.drawing.scale import TimeScale
from fencepost.drawing.timeline import WIDTH, By, Picture, draw
from fencepost.model.errors import Invalid
from fencepost.operations.records.run_record import project_of
from fencepost.operations.run_queries import Store
from fencepost.ports.charts import AttemptFact, RunBin, RunlessTick
from fencepost.ports.runs import AttemptRow, RunRow

SPANS = {
    "1h": timedelta(hours=1),
    "3h": timedelta(hours=3),
    "6h": timedelta(hours=6),
    "12h": timedelta(hours=12),
    "1d": timedelta(days=1),
    "3d": timedelta(days=3),
    "7d": timedelta(days=7),
    "14d": timedelta(days=14),
    "30d": timedelta(days=30),
}
ONE_BY_ONE = 4_000  # attempts; with more of them, the store counts
TICKS_MAX = 3_000
LIVE_MAX = 500
BINS = WIDTH / 4
MICROSECOND = timedelta(microseconds=1)
AHEAD = 0.04  # of what is shown lies ahead of now, so that the present does not touch the edge


@dataclass(frozen=True, slots=True)
class View:
    """What is looked at: how long, until when (None: now), and what a row is."""

    span: str = "1d"
    until_us: int | None = None
    by: By = By.SCHEDULE
    schedule: str = ""
    project: str = ""

    def __post_init__(self) -> None:
        if self.span not in SPANS:
            raise Invalid(f"span: {self.span!r} is none of {', '.join(SPANS)}.")

    @property
    def span_us(self) -> int:
        """How long it is."""
        return SPANS[self.span] // MICROSECOND

    def scale(self, now_us: int) -> TimeScale:
        """Return the stretch of time; one that follows the present ends a little after it."""
        until_us = self.until_us if self.until_us is not None else now_us + round(self.span_us * AHEAD)
        return TimeScale(until_us - self.span_us, until_us)


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture, and what it shows."""

    now_us: int
    view: View
    picture: Picture
    counted: bool  # there were too many runs to be told one by one
    cut: bool  # not every tick without a run could be told


def chart(store: Store, tenant: str, view: View, *, width: float = WIDTH) -> Chart:
    """Look at a stretch of time, and lay it out."""
    asked = store.charts(tenant)
    now_us = store.clock_us()
    scale = view.scale(now_us)
    limits = {"schedule": view.schedule, "project": view.project}
    facts: list[AttemptFact] = []
    counted = asked.made(scale.from_us, scale.until_us, limit=ONE_BY_ONE + 1, **limits) > ONE_BY_ONE
    if not counted:
        facts = asked.attempts(scale.from_us, scale.until_us, limit=ONE_BY_ONE + 1, **limits)
        counted = len(facts) > ONE_BY_ONE  # a run may take many attempts
    bins: list[RunBin] = []
    if counted:
        bin_us = max(1, round(scale.span_us / BINS))
        bins, facts = asked.bins(scale.from_us, scale.until_us, bin_us=bin_us, by=view.by, **limits), []
    facts += _still_living(store, tenant, view, scale, {one.run_id for one in facts})
    ticks = asked.ticks(scale.from_us, scale.until_us, schedule=view.schedule, limit=TICKS_MAX + 1)
    if view.project:
        ticks = [one for one in ticks if one.project == view.project]
    picture = draw(scale, view.by, facts, _shown(ticks, view), bins, now_us=now_us, width=width)
    return Chart(now_us, view, picture, counted, len(ticks) > TICKS_MAX)


def _shown(ticks: list[RunlessTick], view: View) -> list[RunlessTick]:
    """Leave ticks out where rows are workers: a tick without a run has none."""
    return [] if view.by is By.WORKER else ticks[:TICKS_MAX]


def _still_living(store: Store, tenant: str, view: View, scale: TimeScale, known: set[str]) -> list[AttemptFact]:
    """Return the tries at what still runs or waits and is not among those that are known, however old it is."""
    look = store.reads(tenant)
    runs = [
        run
        for run in look.live(limit=LIVE_MAX)
        if run.id not in known
        and run.created_us < scale.until_us
        and view.schedule in ("", run.schedule)
        and view.project in ("", project_of(run))
    ]
    tries = look.attempts(run.id for run in runs) if runs else {}
    return [fact for run in runs for fact in _facts(run, tries.get(run.id, ()))]


def _facts(run: RunRow, tries: Sequence[AttemptRow]) -> Iterator[AttemptFact]:
    of_run = (run.id, run.schedule, run.agent, project_of(run), run.state, run.reason, run.created_us, run.ended_us)
    shared = (*of_run, run.resume, run.cost_micro)
    for one in tries:
        yield AttemptFact(
            *shared, one.number, one.fence, one.worker, one.started_us, one.ended_us, one.outcome, one.session
        )
    if not tries:
        yield AttemptFact(*shared, *[None] * 7)
