"""How a run is known to those who trace: all its attempts are one trace, and each is one span of it (W3C)."""

from hashlib import sha256

TRACE_DIGITS, SPAN_DIGITS = 32, 16


def trace_id(run_id: str) -> str:
    """Return the trace of a run: a reader who knows the run can find it, and every attempt is in it."""
    return _digits(f"fencepost run {run_id}", TRACE_DIGITS)


def span_id(run_id: str, fence: int) -> str:
    """Return the span of one attempt."""
    return _digits(f"fencepost attempt {run_id} {fence}", SPAN_DIGITS)


def traceparent(run_id: str, fence: int) -> str:
    """Return what the agent hands on, so that its own spans hang below the attempt's."""
    return f"00-{trace_id(run_id)}-{span_id(run_id, fence)}-01"


def _digits(text: str, number: int) -> str:
    return sha256(text.encode()).hexdigest()[:number]
