"""What a worker works with, and hands to its lanes."""

from collections.abc import Callable
from datetime import timedelta

from fencepost.model.fast_typing import TYPE_CHECKING, NamedTuple
from fencepost.model.secret_rights import NO_LISTS, Rights
from fencepost.ports.engine import Engine
from fencepost.service.command_order import Tools
from fencepost.service.end_lines import Tell, tell_nobody
from fencepost.service.model_gate_client import ModelGateStarter
from fencepost.service.projects import ReachableProjects

if TYPE_CHECKING:
    from fencepost.stores.runtime import RuntimeStore


class WorkerTools(NamedTuple):
    """What a worker works with."""

    tools: Tools
    open_store: Callable[[], "RuntimeStore"]
    engine_of: Callable[[str], Engine]
    folder: str  # the agents' working directory
    log_folder: str
    guard_folder: str
    ttl_seconds: float
    drain_timeout: timedelta
    grounds: ReachableProjects = ReachableProjects()
    tell: Tell = tell_nobody  # of each run that has ended
    rights: Rights = NO_LISTS  # which secrets it hands to which tenant
    model_gate: ModelGateStarter | None = None
