"""How many ticks a second: ours against cronsim, both with time zone policy, and both over naive time.

Each round runs both sides on every expression, one after the other, so that a busy machine slows both.
Reported are medians over the rounds. Exits with 1 if the zone-aware ratio is below the target.
"""

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from statistics import geometric_mean, median
from time import perf_counter
from zoneinfo import ZoneInfo

from cronsim import CronSim

from fencepost.model.cron import Cron, parse_cron
from fencepost.model.instants import from_wall, to_wall
from fencepost.model.trigger import CronTrigger, cron_trigger

ZONE = "Europe/Berlin"
EXPRESSIONS = (
    "* * * * *",
    "*/5 * * * *",
    "*/15 * * * *",
    "7 * * * *",
    "0 */2 * * *",
    "30 2 * * *",
    "0 0 * * *",
    "15 6,18 * * *",
    "0 9-17 * * MON-FRI",
    "*/10 8-18 * * 1-5",
    "0 9 * * MON",
    "0 0 1 * *",
    "0 12 15 * *",
    "0 0 L * *",
    "0 8 * * 1#1",
    "0 18 * * 5L",
    "0 0 1 1,4,7,10 *",
    "0 0 1 1 *",
    "0 0 1,15 * FRI",
    "*/20 * * * * *",
)
ROUNDS = 5
OURS_COUNT, THEIRS_COUNT = 4000, 150  # per round; each side gets enough to measure
TARGET = 10.0
START = datetime(2026, 1, 1, tzinfo=UTC)
NAIVE_START = START.replace(tzinfo=None)
FAR = START + timedelta(days=365 * 5000)

Rates = dict[str, tuple[float, float, float]]


def main() -> int:
    """Measure, print, judge."""
    aware = measure(ours_aware, ours_next, theirs_aware)
    naive = measure(ours_naive, ours_naive_next, theirs_naive)
    show(f"with zone policy ({ZONE})", aware)
    show("naive", naive)
    ratio = geometric_mean([ours / theirs for ours, _, theirs in aware.values()])
    worst = min(ours / theirs for ours, _, theirs in aware.values())
    stepped = geometric_mean([step / theirs for _, step, theirs in aware.values()])
    print(
        f"ratio with zone policy: {ratio:.0f}x (worst expression {worst:.0f}x; one stateless call per tick {stepped:.0f}x)"
    )
    print(f"target: at least {TARGET:.0f}x: {'met' if ratio >= TARGET else 'MISSED'}")
    return 0 if ratio >= TARGET else 1


def measure(
    iterate: Callable[[str], Iterator[datetime]],
    step: Callable[[str], Iterator[datetime]],
    theirs: Callable[[str], Iterator[datetime]],
) -> Rates:
    """Return ticks per second, by expression: our iterator, our stateless next, cronsim."""
    seen: dict[str, list[tuple[float, float, float]]] = {expression: [] for expression in EXPRESSIONS}
    for _ in range(ROUNDS):
        for expression in EXPRESSIONS:
            count = THEIRS_COUNT if expression != "0 0 1 1 *" else 20
            rates = (
                rate(iterate(expression), OURS_COUNT),
                rate(step(expression), OURS_COUNT),
                rate(theirs(expression), count),
            )
            seen[expression].append(rates)
    return {expression: tuple(map(median, zip(*rates, strict=True))) for expression, rates in seen.items()}


def rate(ticks: Iterator[datetime], count: int) -> float:
    """Return how many ticks a second come out; setting up counts."""
    began = perf_counter()
    found = sum(1 for _ in islice(ticks, count))
    return found / (perf_counter() - began)


def ours_aware(expression: str) -> Iterator[datetime]:
    """Iterate."""
    return cron_trigger(expression, ZONE).instants(START, FAR)


def ours_next(expression: str) -> Iterator[datetime]:
    """Ask for the next tick again and again, each time from nothing but an instant."""
    return stepping(cron_trigger(expression, ZONE))


def stepping(trigger: CronTrigger) -> Iterator[datetime]:
    """Yield the tick after START, the tick after that, and so on."""
    at = START
    while tick := trigger.next_after(at):
        at = tick.tick_at
        yield at


def theirs_aware(expression: str) -> Iterator[datetime]:
    """Let cronsim iterate over aware datetimes."""
    return CronSim(expression, START.astimezone(ZoneInfo(ZONE)))


def ours_naive(expression: str) -> Iterator[datetime]:
    """Iterate over wall time."""
    return map(to_wall, parse_cron(expression).slots(from_wall(NAIVE_START), from_wall(FAR.replace(tzinfo=None))))


def ours_naive_next(expression: str) -> Iterator[datetime]:
    """Ask for the next slot again and again."""
    return naive_stepping(parse_cron(expression))


def naive_stepping(cron: Cron) -> Iterator[datetime]:
    """Yield the slot after the start, the slot after that, and so on."""
    wall = cron.next_slot(from_wall(NAIVE_START))
    while wall is not None:
        yield to_wall(wall)
        wall = cron.next_slot(wall + 1)


def theirs_naive(expression: str) -> Iterator[datetime]:
    """Let cronsim iterate over naive datetimes."""
    return CronSim(expression, NAIVE_START)


def show(title: str, rates: Rates) -> None:
    """Print a table."""
    print(f"{title}: ticks per second")
    print(f"{'expression':<24}{'iterator':>12}{'next_after':>12}{'cronsim':>12}{'ratio':>9}")
    for expression, (ours, step, theirs) in rates.items():
        print(f"{expression:<24}{ours:>12,.0f}{step:>12,.0f}{theirs:>12,.0f}{ours / theirs:>8.0f}x")
    print()


if __name__ == "__main__":
    sys.exit(main())
