"""Instants as the store keeps them: microseconds since 1970."""

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
FOREVER_US = 9_223_372_036_854_775_807  # an open end


def to_us(at: datetime) -> int:
    """Return an instant as the store keeps it."""
    return (at - EPOCH) // MICROSECOND


def from_us(us: int) -> datetime:
    """Return a kept instant; one without an end is the last there is."""
    try:
        return EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
