"""What the web door asks of a store about webhooks."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fencepost.model.errors import FencepostError
from fencepost.ports.requests import Grounds, Placement


class HookRow(NamedTuple):
    """A webhook as its file defines it; secrets stand in it as references only."""

    name: str
    agent: str
    definition: str
    source: str


class Parcel(NamedTuple):
    """A genuine delivery; `payload` spells what a run is told that stands for so many of them."""

    run_id: str  # of its run, if it gets one of its own
    id: str  # empty: nothing makes two deliveries the same one
    key: str | None  # of the request for its run
    digest: str
    payload: Callable[[int], str]
    label: str = ""  # an unsigned id beside the first: with another body it is refused, and proves nothing else


class HookParcels(NamedTuple):
    """Deliveries of one hook that came at about the same time, in their order."""

    hook: str
    hold_us: int  # how long a run waits for more of them; 0: each is a run of its own
    digest_in: Callable[[str], str]  # finds the digest in what a run was told
    each: Sequence[Parcel]


class Delivered(NamedTuple):
    """What became of a delivery: accepted, coalesced or duplicate; and the digest of the body that is known for it."""

    status: str
    run_id: str
    digest: str


DeliveryAnswer = Delivered | FencepostError
DecideDeliveries = Callable[[Grounds, Sequence[Parcel]], Sequence[Placement | FencepostError]]
