"""Attempts that came to nothing → how long a closed gate has kept a run from starting."""

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import takewhile

from fencepost.model.instants import from_us
from fencepost.model.outcome import NotStarted, Outcome
from fencepost.model.retry import Closed
from fencepost.model.run import Reason
from fencepost.ports.runs import AttemptRow

TURNED_AWAY = "notstarted"


def closed_gate(outcome: Outcome, attempts: Callable[[], Sequence[AttemptRow]], now: datetime) -> Closed:
    """Look back to the run's last start: a gate that was away before then has nothing to do with this."""
    if outcome != NotStarted(Reason.GATE_UNREACHABLE):
        return Closed()
    since_start = takewhile(lambda one: one.started_us is None, reversed(attempts()))
    tries_us = [one.ended_us for one in since_start if one.outcome == TURNED_AWAY and one.ended_us is not None]
    if not tries_us:
        return Closed()
    first, last = from_us(min(tries_us)), from_us(max(tries_us))
    return Closed(by_now=now - first, before=last - first)
