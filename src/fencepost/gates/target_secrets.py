"""Turns what a target says about its place into the place itself: `env:NAME` and `file:PATH` hold secrets."""

from fencepost.model.errors import Misconfigured
from fencepost.model.secret_rights import is_referred_place
from fencepost.ports.gate import Fetch


def resolved(where: str, fetch: Fetch) -> str:
    """Return the place; a reference is fetched by `fetch`, which decides whether it may be; its content is never shown."""
    if not is_referred_place(where):
        return where
    value = fetch(where).strip()
    if not value:
        raise Misconfigured(f"the gate's place is {where!r}, and nothing stands there.")
    return value
