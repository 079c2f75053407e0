"""Which schema a store has, and whether this program may work with it.

Migrations only add at first and remove later (expand, then contract). A schema says from which
version on a program can still work with it, so an old worker goes on during an upgrade.
"""

from __future__ import annotations

from fencepost.model.errors import StoreUnavailable
from fencepost.model.fast_typing import TYPE_CHECKING
from fencepost.stores import sql

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Mapping


def check_schema(url: str, meta: Mapping[str, str], *, newest: int) -> None:
    """Refuse a schema that is older than this program needs, or too new for it."""
    found, needs = int(meta["schema"]), int(meta["schema_needs"])
    if found < newest:
        raise StoreUnavailable(
            f"{url} has schema {found}, and this Fencepost needs {newest}; bring it up with: fencepost store migrate"
        )
    if newest < needs:
        raise StoreUnavailable(
            f"{url} has schema {found}, which needs a Fencepost that knows schema {needs}; "
            f"this one knows {newest}. Upgrade Fencepost; there is no way back for the store."
        )


def missing_migrations(package_file: str, schema: int) -> list[tuple[int, str]]:
    """Return what one transaction applies to a store with this schema: the next migration, or all to a new one."""
    missing = [(number, script) for number, script in sql.migrations(package_file) if number > schema]
    return missing[:1] if schema else missing


def unheard(_schema: int, _newest: int) -> None:
    """Say nothing about progress."""
