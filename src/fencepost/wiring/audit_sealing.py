"""Finds the key that seals the audit, and what this machine remembers of earlier seals."""

from __future__ import annotations

import os

from fencepost.model.fast_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.host.kept_seals import KeptSeals
    from fencepost.ports.store import LeaseStore


def audit_key(*, create: bool) -> bytes | None:
    """Return the key that seals the audit here: the configuration's, or this machine's own."""
    from fencepost.config.find import audit_key_of, config_path, state_folder
    from fencepost.host.audit_key import key_from, own_key

    path = config_path(os.environ, os.getcwd())
    reference = audit_key_of(path, os.environ)
    if reference:
        return key_from(reference)
    return own_key(os.path.join(state_folder(os.environ), "audit.key"), create=create)


def kept_seals(store: LeaseStore) -> KeptSeals:
    """Return what this machine remembers of a store's audit.

    It goes by where the store is, not by the id that the store gives itself: a writer of the store can change that.
    """
    from hashlib import sha256

    from fencepost.config.find import state_folder
    from fencepost.host.kept_seals import KeptSeals

    scheme, _, rest = store.facts().url.partition(":")
    place = (
        os.path.realpath(rest) if scheme == "sqlite" else rest.rpartition("@")[2].lstrip("/")
    )  # the login does not count
    name = sha256(f"{scheme}:{place}".encode()).hexdigest()[:16]
    return KeptSeals(os.path.join(state_folder(os.environ), "audit-seals", name))


def audit_key_from(reference: str) -> bytes:
    """Return a key of the audit by its reference."""
    from fencepost.host.audit_key import key_from

    return key_from(reference)
