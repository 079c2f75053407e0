"""Run scheduled AI agents: no tick twice, no overlap where it must not be, no zombie writes."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fencepost.api import lease as lease
    from fencepost.api import try_lease as try_lease
    from fencepost.app import Fencepost as Fencepost
    from fencepost.app.run import Run as Run
    from fencepost.context import RunContext as RunContext
    from fencepost.model.effect_ledger import Done as Done
    from fencepost.model.effect_ledger import NotDone as NotDone
    from fencepost.model.errors import Busy as Busy
    from fencepost.model.errors import FencepostError as FencepostError
    from fencepost.model.errors import FenceRefused as FenceRefused
    from fencepost.model.errors import InDoubt as InDoubt
    from fencepost.model.errors import LeaseLost as LeaseLost
    from fencepost.model.errors import StoreUnavailable as StoreUnavailable
    from fencepost.service.held_lease import HeldLease as HeldLease

# Loaded when first asked for: `fencepost exec` in a crontab needs none of them.
_HOMES = {
    "Busy": "model.errors",
    "Done": "model.effect_ledger",
    "FenceRefused": "model.errors",
    "Fencepost": "app",
    "FencepostError": "model.errors",
    "HeldLease": "service.held_lease",
    "InDoubt": "model.errors",
    "LeaseLost": "model.errors",
    "NotDone": "model.effect_ledger",
    "Run": "app.run",
    "RunContext": "context",
    "StoreUnavailable": "model.errors",
    "lease": "api",
    "try_lease": "api",
}
__all__ = sorted(_HOMES)  # noqa: PLE0605  # a sorted list of the names above


def __getattr__(name: str) -> object:
    """Load a public name from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fencepost' has no attribute {name!r}")
    return getattr(__import__(f"fencepost.{_HOMES[name]}", fromlist=[name]), name)
