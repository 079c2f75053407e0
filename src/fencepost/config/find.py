"""Finds the configuration file and what it says about the store."""

import os
from collections.abc import Mapping

from fencepost.model.errors import Invalid, Misconfigured
from fencepost.model.light import Any

FILE = "fencepost.toml"
FALLBACK = "pyproject.toml"


def config_path(environ: Mapping[str, str], cwd: str) -> str | None:
    """Return the configuration in force: the one that is named, or the first one upwards from here."""
    named = environ.get("FENCEPOST_CONFIG")
    if named:
        if not os.path.isfile(named):
            raise Invalid(f"FENCEPOST_CONFIG names {named}, which is not a file.")
        return os.path.abspath(named)
    folder = os.path.abspath(cwd)
    while True:
        for name in (FILE, FALLBACK):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and (name == FILE or "fencepost" in _table(path).get("tool", {})):
                return path
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def store_url_of(path: str, environ: Mapping[str, str]) -> str:
    """Return the store that a configuration names, or the one that belongs to its path."""
    table = _table(path)
    section = table.get("tool", {}).get("fencepost", {}) if path.endswith(FALLBACK) else table
    store = section.get("fencepost", section if path.endswith(FALLBACK) else {}).get("store")
    if store is None:
        from hashlib import sha256

        digest = sha256(os.path.realpath(path).encode()).hexdigest()[:16]
        return f"sqlite:{state_folder(environ)}/{digest}.db"
    if not isinstance(store, str):
        raise Invalid(f'{path}: store is a text such as "sqlite:/path/state.db" or "postgresql://host/db".')
    if store.startswith("env:"):
        value = environ.get(store[4:])
        if not value:
            raise Misconfigured(f"{path}: store is {store!r}, but {store[4:]} is not set.")
        return value
    return store


def state_folder(environ: Mapping[str, str]) -> str:
    """Return where this user's state is kept."""
    base = environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "fencepost")


def _table(path: str) -> dict[str, Any]:
    import tomllib

    with open(path, "rb") as file:
        try:
            return tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise Invalid(f"{path} is not valid TOML: {error}.") from None
