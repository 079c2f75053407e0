"""What the http engine must not write down: which values are references, and the variables that carry them."""

from collections.abc import Mapping
from typing import Any

from fencepost.model.secret_rights import is_reference

URL, SECRET = "FENCEPOST_HTTP_URL", "FENCEPOST_HTTP_SECRET"  # names, not values


def header_secret(place: int) -> str:
    """Return the variable that carries the value of the header at a place, by name."""
    return f"FENCEPOST_HTTP_HEADER_{place}"


def secrets_in(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the references in an http agent's options by the variable that carries each."""
    found = {name: options.get(key, "") for key, name in (("url", URL), ("secret", SECRET))}
    headers = sorted((options.get("headers") or {}).items())
    found.update({header_secret(place): value for place, (_, value) in enumerate(headers)})
    return {name: value for name, value in found.items() if is_reference(value)}
