"""What a worker hands to those who carry out its runs."""

from collections.abc import Callable
from datetime import timedelta

from fencepost.model.light import NamedTuple, Protocol
from fencepost.model.rights import NO_LISTS, Rights
from fencepost.ports.engine import Engine
from fencepost.ports.runs import RunStore
from fencepost.ports.store import LeaseStore
from fencepost.service.order import Tools
from fencepost.service.projects import Grounds
from fencepost.service.telling import Tell, tell_nobody


class AttemptStore(RunStore, LeaseStore, Protocol):
    """The verbs that an attempt uses."""

    def clock_us(self) -> int:
        """Return the store's own time."""
        ...


class Bench(NamedTuple):
    """What an attempt needs of its worker."""

    tools: Tools
    open_runtime: Callable[[], AttemptStore]
    engine_of: Callable[[str], Engine]
    folder: str  # the agent's working directory
    log_folder: str
    ttl_seconds: float
    drain_timeout: timedelta
    grounds: Grounds = Grounds()
    tell: Tell = tell_nobody  # of each run that has ended
    rights: Rights = NO_LISTS  # which secrets it hands to which tenant
