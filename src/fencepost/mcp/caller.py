"""Who sits at the door: whose things they see, what they may do, and how the audit names them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mcp.server.mcpserver.exceptions import ToolError

from fencepost.model.access import Role
from fencepost.model.errors import FencepostError, Invalid
from fencepost.model.secret_rights import Rights
from fencepost.operations.run_queries import Store


@dataclass(frozen=True, slots=True)
class Seat:
    """One caller. Over stdio it is the local user; over HTTP the owner of the key."""

    tenant: str
    role: Role
    actor: str


@dataclass(frozen=True, slots=True)
class Counter:
    """What the tools need of their surroundings.

    `seat` is asked at each call, so that one server can serve many callers: over HTTP it tells whose request this is.
    """

    seat: Callable[[], Seat]
    open_store: Callable[[], Store]
    new_run_id: Callable[[], str]
    log_folder: str
    rights: Callable[[], Rights] = Rights  # what this machine's [tenants] says

    @contextmanager
    def served(self, wanted: Role) -> Iterator[tuple[Store, Seat]]:
        """Open the store for a caller who may do this; each call has its own, because calls come in threads."""
        try:
            seat = self.seat()
            if not seat.role.covers(wanted):
                raise Invalid(f"this needs the role {wanted.value}, and yours is {seat.role.value}.")
            store = self.open_store()
            try:
                yield store, seat
            finally:
                store.close()
        except FencepostError as error:  # the words of any other exception are kept from the caller
            raise ToolError(str(error)) from error
