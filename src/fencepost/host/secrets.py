"""The one place where `env:NAME` and `file:PATH` become what they mean: first it is decided whether the tenant may have it."""

from __future__ import annotations

import os

from fencepost.model.errors import Misconfigured, Withheld
from fencepost.model.fast_typing import TYPE_CHECKING
from fencepost.model.secret_rights import NO_LISTS, Rights, refusal

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Mapping

SECRET_MAX = 65_536


def hand_over(
    reference: str, *, tenant: str, rights: Rights, what: str, environ: Mapping[str, str] | None = None
) -> str:
    """Return what a reference means on this machine, or raise: Withheld if it is not for the tenant, else Misconfigured.

    `what` is how an error names it; what it contains is never shown.
    """
    permit(reference, tenant=tenant, rights=rights, what=what)
    kind, _, where = reference.partition(":")
    if kind == "env":
        value = (os.environ if environ is None else environ).get(where)
        if value is None:
            raise Misconfigured(f"{what}: {reference} is not set here.")
        return value
    if kind != "file":
        raise Misconfigured(f"{what}: {reference!r} is no reference; write env:NAME or file:/path.")
    try:
        return _content(os.path.expanduser(where) if not rights.listed else _real(where), follow=not rights.listed)
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(
            f"{what}: {reference} cannot be read: {error.strerror if isinstance(error, OSError) else error}."
        ) from None


def permit(reference: str, *, tenant: str, rights: Rights, what: str) -> None:
    """Raise Withheld unless the tenant may have what a reference means."""
    why = refusal(reference, tenant=tenant, rights=rights, real=_real)
    if why is not None:
        raise Withheld(f"{what}: {why}")


def own_secret(reference: str) -> str:
    """Return what a reference means to the process that asks for itself: nothing changes hands."""
    return hand_over(reference, tenant="", rights=NO_LISTS, what="it")


def _real(path: str) -> str:
    return os.path.realpath(os.path.expanduser(path))


def _content(path: str, *, follow: bool) -> str:
    """Read a secret; where the real path was compared, a link that took its place since then is not followed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    with open(descriptor, encoding="utf-8") as file:
        return file.read(SECRET_MAX).rstrip("\n")
