"""What an id means wherever one can be shown: a run, a guarded command, or a command in a project or in its line."""

from typing import NamedTuple

from fencepost.model.errors import Invalid, Unknown
from fencepost.operations import guarded
from fencepost.operations.commands import Command
from fencepost.operations.fields import live_fields
from fencepost.operations.looking import LIKE_MAX, LIVE_MAX, Detail, Listing, Store, list_live, show
from fencepost.ports.looking import CommandRow


class Guarded(NamedTuple):
    """A guarded command with its row, and when that was read."""

    now_us: int
    row: CommandRow


class Present(NamedTuple):
    """A command that has no row: a session that holds a project, or what waits in its line."""

    listing: Listing
    command: Command


def show_any(store: Store, tenant: str, text: str) -> Detail | Guarded | Present:
    """Return everything about what an id, or the unique beginning of one, means."""
    look = store.reads(tenant)
    rows = look.commands_like(text, limit=LIKE_MAX + 1) if text else []
    if not rows:
        return _without_row(store, tenant, text)
    names = [*(one.id for one in look.runs_like(text, limit=1)), *(one.id for one in rows)]
    if len(names) > 1:
        more = ", …" if len(names) > LIKE_MAX else ""
        raise Invalid(f"several begin with {text!r}: {', '.join(names[:LIKE_MAX])}{more}")
    return Guarded(look.clock_us(), rows[0])


def command_detail(found: Guarded | Present) -> dict[str, object]:
    """Return a command as scripts see it, in the fields that a list of its kind has."""
    if isinstance(found, Guarded):
        return guarded.command_fields(found.row)
    return live_fields(found.command, found.listing)


def _without_row(store: Store, tenant: str, text: str) -> Detail | Present:
    try:
        return show(store, tenant, text)
    except Unknown:
        listing = list_live(store, tenant, limit=LIVE_MAX)
        like = [one for one in listing.commands if text and one.run_id.startswith(text)]
        if len(like) != 1:
            raise
        return Present(listing, like[0])
