"""One calm line for each run that has ended, for the person who watches `up`."""

from collections.abc import Callable, Sequence

from fencepost.model.duration import format_duration
from fencepost.model.fast_typing import NamedTuple
from fencepost.model.instants import format_instant
from fencepost.model.lease_check import printable
from fencepost.model.outcome import Settlement
from fencepost.model.run import Reason, RunState
from fencepost.ports.alike_runs import AlikeEnds
from fencepost.ports.runs import Ended, Report, RunRow

COUNT_SECONDS = 10.0  # how often the short runs of a lane are counted aloud


class EndLine(NamedTuple):
    """What is said, how it should look where there are colours, and what of it a machine may want."""

    text: str
    tone: str = ""  # good, bad, or neither
    facts: tuple[tuple[str, object], ...] = ()


Tell = Callable[[EndLine], None]


def tell_nobody(_: EndLine) -> None:
    """Say nothing."""


def end_of(run: RunRow, settlement: Settlement, report: Report, *, seconds: float | None = None) -> EndLine:
    """Say how an attempt ended and what becomes of its run."""
    facts = (
        ("run_id", run.id),
        ("tenant", run.tenant),
        ("agent", run.agent),
        ("schedule", run.schedule),
        ("state", settlement.state.value),
        ("reason", settlement.reason.value if settlement.reason else None),
        ("exit_code", report.exit_code),
    )
    return _words(run, settlement, report, seconds)._replace(facts=facts)


def _words(run: RunRow, settlement: Settlement, report: Report, seconds: float | None) -> EndLine:
    whose = "" if run.tenant == "default" else f"{run.tenant}: "
    what = f"{whose}{run.schedule or run.agent} {run.id}"
    took = "" if seconds is None else f" after {_span(seconds)}"
    match settlement.state:
        case RunState.SUCCEEDED:
            return EndLine(f"{what} succeeded{took}", "good")
        case RunState.READY:
            later = settlement.ready_at
            when = f", again at {format_instant(later.replace(microsecond=0))}" if later else ", goes on later"
            return EndLine(f"{what} {_cause(settlement, report)}{took}{when}{_in_the_way(settlement, report)}")
        case RunState.CANCELLED:
            return EndLine(f"{what} cancelled{took}: {settlement.reason or 'asked'}")
        case _:
            return EndLine(f"{what} dead{took}: {_cause(settlement, report)}; see: fencepost show {run.id}", "bad")


def _span(seconds: float) -> str:
    """Say how long something took, as exactly as a person wants to know."""
    return format_duration(round(max(0.0, seconds), 2 if seconds < 1 else 0))


def _cause(settlement: Settlement, report: Report) -> str:
    if settlement.reason in (None, Reason.EXIT_CODE, Reason.RETRY) and report.exit_code is not None:
        return f"exit code {report.exit_code}"
    return str(settlement.reason or report.outcome)


def _in_the_way(settlement: Settlement, report: Report) -> str:
    """Say what a closed gate says of itself: the person who reads this can often open it."""
    if settlement.reason != Reason.GATE_UNREACHABLE or not report.last_log:
        return ""
    words = report.last_log.strip().splitlines()[-1].removeprefix("fencepost: not started: ")
    return f": {printable(words)}"


class LaneTelling:
    """Tells of a lane's runs: each that did not simply succeed; the others are counted now and then."""

    def __init__(self, tell: Tell, now_ns: Callable[[], int]) -> None:
        self._tell, self._now_ns = tell, now_ns
        self._count = 0
        self._told_ns = now_ns()

    def tell(self, ended: Sequence[Ended], lost: Sequence[str]) -> None:
        """Take note of runs that were settled; nothing was written about those that were lost."""
        if isinstance(ended, AlikeEnds) and not lost and ended.settlement.state is RunState.SUCCEEDED:
            self._count += len(ended)
            return
        for one in ended:
            if not one.began or one.leased.run.id in lost:
                continue
            if one.settlement.state is RunState.SUCCEEDED:
                self._count += 1
            else:
                self._tell(end_of(one.leased.run, one.settlement, one.report))

    def count(self, *, last: bool = False) -> None:
        """Say how many succeeded, if some did and it is time."""
        if self._count and (last or self._now_ns() - self._told_ns >= COUNT_SECONDS * 1e9):
            self._tell(EndLine(f"{self._count} short run{'s' if self._count > 1 else ''} succeeded", "good"))
            self._count, self._told_ns = 0, self._now_ns()
