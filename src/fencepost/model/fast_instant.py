"""An instant as text for the commands that start all the time; datetime would cost more than they do."""

import time


def instant(us: int | None) -> str | None:
    """Spell an instant as RFC 3339 in UTC, to the second."""
    return None if us is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(us // 1_000_000))
