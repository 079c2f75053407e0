"""Says which store and which tenant a command means, by its options, the environment and the configuration."""

from __future__ import annotations

import os

from fencepost.model.errors import Misconfigured
from fencepost.model.fast_typing import TYPE_CHECKING
from fencepost.wiring import exec_store_url, is_cells, sqlite_opening, sqlite_path

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from fencepost.config.load import Config
    from fencepost.model.fast_typing import Iterator


def store_url(explicit: str | None, tenant: str | None = None) -> str:
    """Return the store of every other command: named, or where the configuration or this user keeps the tenant, or else the one of `exec`."""
    from fencepost.config.find import config_path, store_url_of, store_url_of_user

    if explicit or os.environ.get("FENCEPOST_STORE"):
        return exec_store_url(explicit)
    path = config_path(os.environ, os.getcwd())
    if path:
        return store_url_of(path, os.environ, tenant)
    return store_url_of_user(os.environ, tenant) or exec_store_url(None)


def store_of_config(explicit: str | None, config: Config, tenant: str) -> str:
    """Return the store that a configuration's definitions go to; raise Misconfigured if its map and a person name two."""
    from fencepost.config.find import resolved_store, without_password

    mapped = resolved_store(config.settings.store_of(tenant), config.path, os.environ)
    named = explicit or os.environ.get("FENCEPOST_STORE")
    if named and named != mapped and tenant in config.settings.stores:
        how = "--store" if explicit else "FENCEPOST_STORE"
        raise Misconfigured(
            f"{config.path} keeps tenant {tenant} in {without_password(mapped)}, and {how} names another store; a tenant never spans two. "
            f"Leave {how} out, or change the file's stores after the tenant was moved: fencepost store backup --help"
        )
    return named or mapped


def machine_store(explicit: str | None) -> Iterator[str]:
    """Yield this machine's own store, that of bare `exec`, where a configuration's is meant and it is another one."""
    own = exec_store_url(None)
    if not explicit and store_url(None) != own and may_be_there(own) and not is_cells(own):
        yield own


def tenant_name(explicit: str | None) -> str:
    """Return whose things are meant: named, or the configuration's, or else the default tenant's."""
    from fencepost.config.find import config_path, tenant_of

    named = explicit or os.environ.get("FENCEPOST_TENANT")
    if named:
        return named
    path = config_path(os.environ, os.getcwd())
    return tenant_of(path, os.environ)


def is_tenant_of_this_machine(tenant: str) -> bool:
    """Tell whether a tenant is the one whose configuration this machine goes by; all others only rent it."""
    from fencepost.model.errors import FencepostError

    try:
        return tenant == tenant_name(None)
    except FencepostError:
        return False  # a configuration that cannot be read says nothing of whose it is


def existing_store(explicit: str | None, tenant: str | None = None) -> str:
    """Return the store of a command that looks or acts: a file that is named must be there.

    Else a slip of the pen would be answered with a new store in which nothing ever happened.
    """
    named = explicit or os.environ.get("FENCEPOST_STORE")
    if named:
        refuse_missing(named, "--store" if explicit else "FENCEPOST_STORE")
    return store_url(explicit, tenant)


def refuse_missing(url: str, how: str, makers: str = "fencepost apply, up, exec or store migrate") -> None:
    """Raise an error about a file that is not there; `how` it was named, and what would make it."""
    from fencepost.model.errors import StoreUnavailable

    path = sqlite_path(url.partition(":")[2])
    if url.startswith("sqlite:") and not os.path.exists(path):
        raise StoreUnavailable(
            f"there is no store at {path}, which {how} names. "
            f"Check the path; if it is to be a new store, make it with: {makers}"
        )


def may_be_there(url: str) -> bool:
    """Tell whether a store could be opened without making one: a file that exists, or any server."""
    scheme, _, path = url.partition(":")
    return scheme != "sqlite" or os.path.exists(sqlite_opening(path).path)


def planning_url(url: str) -> AbstractContextManager[str]:
    """Name for a while the store to compare with; for one that is not there yet, an empty one stands in."""
    from contextlib import contextmanager, nullcontext
    from tempfile import TemporaryDirectory

    @contextmanager
    def stand_in() -> Iterator[str]:
        sqlite_opening(url.partition(":")[2]).check_place()
        with TemporaryDirectory(prefix="fencepost-plan-") as folder:
            yield f"sqlite:{folder}/state.db"

    return nullcontext(url) if may_be_there(url) else stand_in()
