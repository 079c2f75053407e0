"""Turns what a target says about its place into the place itself: `env:NAME` and `file:PATH` hold secrets."""

import os

from fencepost.model.errors import Misconfigured
from fencepost.model.light import Mapping

SECRET_MAX = 65_536


def resolved(where: str, environ: Mapping[str, str] | None = None) -> str:
    """Return the place, or raise Misconfigured if the reference leads nowhere; its content is never shown."""
    kind, _, name = where.partition(":")
    if kind == "env":
        value = (os.environ if environ is None else environ).get(name, "")
        if not value:
            raise Misconfigured(f"the gate's url is {where!r}, but {name} is not set here.")
        return value
    if kind == "file" and not name.startswith("//"):
        try:
            with open(name, encoding="utf-8") as file:
                return file.read(SECRET_MAX).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Misconfigured(f"the gate's url is {where!r}, which cannot be read: {error}.") from None
    return where
