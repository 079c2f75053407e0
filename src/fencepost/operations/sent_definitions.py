"""Definitions that were sent, and not written on this machine: read like a file, with nothing of this machine in them."""

from collections.abc import Mapping
from typing import NamedTuple

from fencepost.config.load import Config, check
from fencepost.config.read import Document, read_text
from fencepost.model.errors import Invalid
from fencepost.model.secret_rights import Rights

# What of a file goes into the registry, or is needed to check what does. The rest belongs to machines.
SECTIONS = ("fencepost", "agents", "schedules", "gates", "hooks", "engines", "projects")
GENERAL = ("tenant", "timezone")


class Sent(NamedTuple):
    """Definitions in order, and the keys of the text that were left alone."""

    config: Config
    ignored: tuple[str, ...]


def read_definitions(text: str, *, name: str, files: Mapping[str, str], tenant: str, rights: Rights) -> Sent:
    """Check a text as `apply` checks a file; raise InvalidConfig with every problem there is.

    Files are those that were sent along, never this machine's. `rights` are what this machine's own [tenants] says:
    a text cannot give its tenant more.
    """
    owner = f"http:{name}"
    document = read_text(owner, text, files)
    _check_tenant(document, tenant)
    config = check(document, owner, whose=(tenant, rights))
    return Sent(config, tuple(_ignored(document)))


def _check_tenant(document: Document, tenant: str) -> None:
    general = document.table.get("fencepost")
    said = general.get("tenant", tenant) if isinstance(general, dict) else tenant
    if said != tenant:
        raise Invalid(f"the definitions are for the tenant {said!r}, and the key for {tenant!r}; use a key of theirs.")


def _ignored(document: Document) -> list[str]:
    general = document.table.get("fencepost", {})
    keys = [f"fencepost.{key}" for key in general if key not in GENERAL]
    return [*keys, *(name for name in document.table if name not in SECTIONS)]
