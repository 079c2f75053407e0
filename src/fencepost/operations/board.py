"""How it all stands now, for a person who looks at two in the morning: the sentence first, then what it rests on."""

from collections.abc import Iterator
from dataclasses import dataclass

from fencepost.model.run import RunState
from fencepost.operations.phrases import SECOND_US, counted, plain, span
from fencepost.operations.run_queries import RunListing, SeenRun, Store, list_live
from fencepost.operations.scheduler_health import PATIENCE_US, is_driven
from fencepost.ports.read_rows import PauseFacts, ScheduleFacts, Skipped, StorePulse

NEXT_SHOWN = 8
DEAD_SHOWN = 5
ENDED_SHOWN = 12
LIVE_SHOWN = 50
SKIPPED_SHOWN = 8
LATELY_US = 86_400 * SECOND_US


@dataclass(frozen=True, slots=True)
class Headline:
    """One sentence, and how much it matters: well, odd, bad or held."""

    tone: str
    text: str
    more: str = ""


@dataclass(frozen=True, slots=True)
class Board:
    """What runs, waits, comes next and went wrong."""

    now_us: int
    live: RunListing
    coming: list[ScheduleFacts]
    held_back: dict[str, PauseFacts]  # by schedule
    halts: list[PauseFacts]
    dead: list[SeenRun]
    ended: list[SeenRun]
    skipped: list[Skipped]
    health: StorePulse
    driven: bool

    @property
    def headline(self) -> Headline:
        """Say it in one sentence."""
        return headline(self)


def look_around(store: Store, tenant: str) -> Board:
    """Look at everything once; what it costs does not grow with what has ended."""
    look = store.reads(tenant)
    live = list_live(store, tenant, limit=LIVE_SHOWN)
    pauses = look.held_back(live.now_us)
    dead = look.runs(state=RunState.DEAD.value, kept=True, limit=DEAD_SHOWN)
    attempts = look.attempts(run.id for run in dead)
    ended = look.ended(limit=ENDED_SHOWN)
    return Board(
        live.now_us,
        live,
        look.next_due(limit=NEXT_SHOWN),
        {one.schedule: one for one in pauses if one.schedule},
        [one for one in pauses if not one.schedule],
        [SeenRun(run, attempts=attempts.get(run.id, ())) for run in dead],
        [SeenRun(run) for run in ended],
        look.skipped(since_us=live.now_us - LATELY_US, limit=SKIPPED_SHOWN + 1),
        look.health(late_us=live.now_us - PATIENCE_US),
        is_driven(store, tenant),
    )


def headline(board: Board) -> Headline:
    """Put what matters most first."""
    going = _going(board)
    trouble = next(_troubles(board), None)
    if trouble is not None:
        return Headline(trouble.tone, trouble.text, f"{going}.")
    if not board.health.schedules and not board.live.runs and not board.ended:
        return Headline("well", "Nothing is scheduled yet. Write a fencepost.toml, then: fencepost apply")
    return Headline("well", f"All is well: {going[0].lower()}{going[1:]}.")


def _troubles(board: Board) -> Iterator[Headline]:
    late = counted(board.health.overdue, "schedule is", "schedules are")
    for halt in board.halts:
        note = f": “{plain(halt.note)}”" if halt.note else ""
        yield Headline("held", f"Everything is halted since {span(board.now_us - halt.since_us)}{note}")
    if board.health.overdue and not board.driven:
        yield Headline("bad", f"No scheduler drives the schedules: {late} overdue. Is fencepost up running?")
    if board.health.overdue:
        yield Headline("odd", f"The scheduler lags: {late} overdue.")
    if board.health.dead:
        yield Headline("bad", f"{counted(board.health.dead, 'run needs', 'runs need')} a person.")
    if board.health.schedules and not board.driven:
        yield Headline("odd", "No scheduler drives the schedules. Is fencepost up running?")


def _going(board: Board) -> str:
    parts = [f"{board.health.running} running" if board.health.running else "Nothing is running"]
    if board.health.ready:
        parts.append(f"{board.health.ready} waiting")
    following = next((one for one in board.coming if one.name not in board.held_back), None)
    if following is not None and following.due_us is not None:
        away = following.due_us - board.now_us
        parts.append(f"next in {span(away)}" if away >= SECOND_US else "the next one is due")
    return ", ".join(parts)
