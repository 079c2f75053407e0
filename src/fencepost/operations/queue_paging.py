"""What runs and waits in one order, so that it can be listed part by part while it moves."""

from fencepost.operations.project_commands import Command
from fencepost.operations.records.run_record import project_of
from fencepost.operations.run_queries import LIVE_MAX, RunListing, SeenRun, Store, list_live

LivePlace = tuple[int, int, int, str]


def live_after(
    store: Store, tenant: str, after: LivePlace | None, *, waiting_only: bool = False, project: str = ""
) -> tuple[RunListing, list[SeenRun | Command]]:
    """Return what stands after a place: first what runs, oldest first, then what waits, in the order of leasing."""
    listing = list_live(store, tenant, limit=LIVE_MAX, waiting_only=waiting_only)
    found = listing.waiting if waiting_only else [*listing.inside, *listing.waiting]
    wanted = [one for one in found if not project or _project(one) == project]
    return listing, [one for one in sorted(wanted, key=live_place) if after is None or live_place(one) > after]


def live_place(one: SeenRun | Command) -> LivePlace:
    """Return where one stands; a place is never taken by another."""
    if isinstance(one, Command):
        return (int(one.place is not None), *one.turn)
    run = one.run
    return int(run.state != "running"), run.rank, run.place_us, run.id


def _project(one: SeenRun | Command) -> str:
    """Return the project that one is in, or in line for."""
    return one.project if isinstance(one, Command) else project_of(one.run) or ""
