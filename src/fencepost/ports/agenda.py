"""What a loop asks to know when to wake up."""

from fencepost.model.fast_typing import NamedTuple


class Agenda(NamedTuple):
    """What waits now, and what comes next, by the store's clock."""

    now_us: int
    ready: int
    next_ready_us: int | None
    next_due_us: int | None
