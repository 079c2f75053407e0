"""What the web door asks of a store about webhooks."""

from collections.abc import Callable
from typing import NamedTuple


class HookRow(NamedTuple):
    """A webhook as its file defines it; secrets stand in it as references only."""

    name: str
    agent: str
    definition: str
    source: str


class Parcel(NamedTuple):
    """A delivery of a hook whose deliveries share a run; `payload` spells what the run is told of so many of them."""

    hook: str
    id: str  # empty: nothing makes two deliveries the same one
    digest: str
    hold_us: int
    payload: Callable[[int], str]
    digest_in: Callable[[str], str]  # finds the digest in what a run was told
    label: str = ""  # an unsigned id beside the first: with another body it is refused, and proves nothing else


class Delivered(NamedTuple):
    """What became of a delivery: accepted, coalesced or duplicate; and the digest of the body that is known for it."""

    status: str
    run_id: str
    digest: str
