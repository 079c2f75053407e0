"""What a loop asks to know when to wake up."""

from fencepost.model.light import NamedTuple, Protocol


class Agenda(NamedTuple):
    """What waits now, and what comes next, by the store's clock."""

    now_us: int
    ready: int
    next_ready_us: int | None
    next_due_us: int | None


class AgendaStore(Protocol):
    """A store that can tell what comes next."""

    def agenda(self, limit: int) -> Agenda:
        """Return how many runs wait (up to a limit), and when the next run or tick is due."""
        ...
