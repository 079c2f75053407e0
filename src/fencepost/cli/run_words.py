"""How tables and lines of several commands name a run, and the lines that runs wait in."""

from fencepost.cli import render
from fencepost.operations.run_queries import RunListing, SeenRun

WHAT_MAX = 16


def what(seen: SeenRun) -> str:
    """Name what ran: its schedule, or else its agent."""
    return fitted(seen.run.schedule or seen.run.agent)


def fitted(name: str) -> str:
    """Shorten a name to what a table has room for."""
    return render.cut(name, render.room(WHAT_MAX))


def depths(listing: RunListing) -> list[str]:
    """Say how many wait in each project's line."""
    return [f"project {name}: {depth} queued" for name, depth in sorted(listing.depths.items()) if depth]
