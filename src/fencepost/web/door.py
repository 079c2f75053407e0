"""What the handlers of the web door work with."""

from collections.abc import Callable
from typing import NamedTuple

from fastapi import Request

from fencepost.model.secret_rights import Rights
from fencepost.operations.run_queries import Store
from fencepost.operations.web_keys import Caller
from fencepost.web.security import RequestCaller
from fencepost.web.store_threads import StoreThreads


class Door(NamedTuple):
    """The way to the store, and what belongs to this machine."""

    desk: StoreThreads
    new_run_ids: Callable[[int], list[str]]  # as many as are wanted, in their order
    log_folder: str
    now_us: Callable[[], int]
    fetch_secret: Callable[[str, str], str]  # by its reference, for a tenant
    open_store: Callable[[], Store]
    stream_seconds: float = 600.0  # then a browser takes its stream up anew
    is_leaving: Callable[[], bool] = lambda: False  # whether the server is asked to stop
    rights: Callable[[], Rights] = Rights  # what this machine's [tenants] says
    tell: Callable[[str], None] = lambda _: None  # the operator, on this server's own output

    def new_run_id(self) -> str:
        """Name one run."""
        return self.new_run_ids(1)[0]

    def now_seconds(self) -> int:
        """Return seconds since 1970, for signatures that carry a time."""
        return self.now_us() // 1_000_000


def door_of(request: Request) -> Door:
    """Return the door that a request came through."""
    door = request.app.state.door
    assert isinstance(door, Door)
    return door


def admission_of(request: Request) -> RequestCaller:
    """Return what the gatekeeper has found out about the caller."""
    found = request.state.admission
    assert isinstance(found, RequestCaller)
    return found


def caller_of(request: Request) -> Caller:
    """Return who asks, as the gatekeeper has found out."""
    return admission_of(request).caller
