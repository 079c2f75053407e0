"""Writes down how an attempt ended; whoever took its lease meanwhile has the last word."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from fencepost.flow.closed_gate import closed_gate
from fencepost.host.logs import last_lines, log_path
from fencepost.model.definition import AgentDefinition, retry_of
from fencepost.model.errors import LeaseLost, StoreUnavailable
from fencepost.model.light import NamedTuple
from fencepost.model.moment import from_us
from fencepost.model.outcome import NotStarted, Outcome, Settlement, TimedOut
from fencepost.model.retry import settle
from fencepost.model.run import Reason, RunId
from fencepost.ports.runs import LeasedRun, Report, RunRow
from fencepost.service.bench import AttemptStore, Bench
from fencepost.service.listening import Told
from fencepost.service.renewal import Term
from fencepost.service.spans import Told as ToldSpan
from fencepost.service.spans import tell_span, wants_spans
from fencepost.service.telling import end_of

SETTLE_AGAIN_SECONDS = 0.5
T = TypeVar("T")


class End(NamedTuple):
    """How an attempt ended, and what it left."""

    outcome: Outcome
    started: bool
    exit_code: int | None = None
    told: Told = Told()
    gone: bool = True  # its whole tree


class Settling:
    """One attempt's way into the books."""

    def __init__(self, bench: Bench, store: AttemptStore, term: Term) -> None:
        self._bench = bench
        self._tools = bench.tools
        self._store = store
        self._term = term

    def settle(self, found: LeasedRun, agent: AgentDefinition, end: End, *, began_us: int) -> None:
        """Decide the run's next state, write it down, and tell whoever collects spans."""
        run = found.run
        settlement = self._patiently(lambda: self._decide(run, agent, end.outcome))
        path = log_path(self._bench.log_folder, run.id, found.lease.fence)
        report = Report(
            outcome=type(end.outcome).__name__.lower(),
            exit_code=end.exit_code if end.started or isinstance(end.outcome, NotStarted) else None,
            log=path,
            last_log=last_lines(path),
            stalled=end.outcome == TimedOut(Reason.STALL_TIMEOUT),
            **end.told._asdict(),
        )
        if self._write_down(found, settlement, report, gone=end.gone):
            took = (self._tools.clock.wall_us() - began_us) / 1e6
            self._bench.tell(end_of(run, settlement, report, seconds=took))
        if wants_spans(os.environ):
            told = ToldSpan(found, agent, settlement, report, began_us, self._tools.clock.wall_us())
            tell_span(told, os.environ, self._tools.say)

    def _decide(self, run: RunRow, agent: AgentDefinition, outcome: Outcome) -> Settlement:
        now = from_us(self._store.clock_us())
        return settle(
            outcome,
            run_id=RunId(run.id),
            attempt=run.attempt,
            retry=retry_of(agent),
            now=now,
            closed=closed_gate(outcome, lambda: self._store.attempts(run.id), now),
        )

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Ask the store until it answers or the lease is over: the end must not be lost because it was away just then."""
        while True:
            try:
                return ask()
            except StoreUnavailable:
                if self._term.over:
                    raise
                self._tools.clock.sleep(SETTLE_AGAIN_SECONDS)

    def _write_down(self, found: LeasedRun, settlement: Settlement, report: Report, *, gone: bool) -> bool:
        """Try until it is written or the lease is over; a store that is away for a moment costs nobody's work."""
        while True:
            try:
                self._store.settle(found.lease, settlement, report, clean=gone)
            except LeaseLost:
                if gone:
                    with suppress(StoreUnavailable):  # the next holder finds nothing left of it, and forgets it then
                        self._store.bury(found.lease)
                return False
            except StoreUnavailable:
                if self._term.over:
                    raise
                self._tools.clock.sleep(SETTLE_AGAIN_SECONDS)
            else:
                return True
