"""Hands secrets and gates to the tenants that may have them."""

from __future__ import annotations

import os

from fencepost.model.fast_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Callable
    from fencepost.model.secret_rights import Rights
    from fencepost.ports.gate import Gate


def own_rights() -> Rights:
    """Return what this machine's own configuration says about tenants: which secrets each of them gets."""
    from fencepost.config.find import config_path
    from fencepost.config.load import load
    from fencepost.model.secret_rights import NO_LISTS

    path = config_path(os.environ, os.getcwd())
    return load(path).rights if path else NO_LISTS


def gate_opener(rights: Rights) -> Callable[[str, str], Gate]:
    """Return how gates are opened for tenants: a secret is handed only to a tenant that may have it."""
    from fencepost.operations.gate_kinds import open_gate as open_kind

    return lambda name, tenant: open_kind(name, lambda one: fetch_secret(one, tenant, rights, what=f"gate {name}"))


def fetch_secret(reference: str, tenant: str, rights: Rights, *, what: str = "the secret") -> str:
    """Return what `env:NAME` or `file:PATH` means on this machine, for a tenant that may have it."""
    from fencepost.host.secrets import hand_over

    return hand_over(reference, tenant=tenant, rights=rights, what=what)
