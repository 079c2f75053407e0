"""Finds the configuration file and what it says about the store."""

from __future__ import annotations

import os

from fencepost.model.errors import Invalid, Misconfigured
from fencepost.model.fast_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Any, Mapping

FILE = "fencepost.toml"
FALLBACK = "pyproject.toml"
NAME_IT = "It was found and not named; if you trust it, name it: --config {path} (or FENCEPOST_CONFIG)."
LIES_ELSEWHERE = "It is read as your own settings; if they lie elsewhere, set XDG_CONFIG_HOME."


def config_path(environ: Mapping[str, str], cwd: str) -> str | None:
    """Return the configuration in force: the one that is named, or the first one upwards from here.

    One that was only found must be ours, like every folder on the way to it: another user could have put it there.
    """
    named = environ.get("FENCEPOST_CONFIG")
    if named:
        if not os.path.isfile(named):
            raise Invalid(f"{named} is not a file; --config or FENCEPOST_CONFIG names it as the configuration.")
        return os.path.abspath(named)
    folders = [os.path.abspath(cwd)]
    while True:
        for name in (FILE, FALLBACK):
            path = os.path.join(folders[-1], name)
            if os.path.isfile(path) and (name == FILE or _speaks_of_us(path)):
                _demand_own(path, folders, environ, NAME_IT)
                return path
        parent = os.path.dirname(folders[-1])
        if parent == folders[-1]:
            return None
        folders.append(parent)


def user_path(environ: Mapping[str, str]) -> str | None:
    """Return the file of this user's own settings, which stand in for what a configuration leaves out."""
    path = os.path.join(config_folder(environ), FILE)
    if not os.path.isfile(path):
        return None
    _demand_own(path, [os.path.dirname(path)], environ, LIES_ELSEWHERE)
    return path


def _demand_own(path: str, folders: list[str], environ: Mapping[str, str], otherwise: str) -> None:
    from fencepost.config.file_trust import demand_own  # bare exec finds no file, and need not load this
    from fencepost.model.lease_check import quoted

    demand_own(path, folders, environ, otherwise=otherwise.format(path=quoted(path)))


def _speaks_of_us(path: str) -> bool:
    """Tell whether a pyproject.toml has our table; most have not, and need not be parsed to see that."""
    try:
        with open(path, "rb") as file:
            if b"fencepost" not in file.read():
                return False
    except OSError:
        return False  # what we cannot read was not written for us
    return "fencepost" in _part(_table(path, is_ours=False), "tool")


def store_url_of(path: str, environ: Mapping[str, str], tenant: str | None = None) -> str:
    """Return where a configuration or this user keeps a tenant, or the store that belongs to the configuration's path."""
    return resolved_store(_store_of(_general(path, environ), environ, tenant), path, environ)


def store_url_of_user(environ: Mapping[str, str], tenant: str | None = None) -> str | None:
    """Return where this user's own settings keep a tenant, where there is no configuration."""
    path = user_path(environ)
    store = _store_of(_user_settings(environ), environ, tenant) if path else None
    return resolved_store(store, path, environ) if path and store else None


def _store_of(settings: dict[str, Any], environ: Mapping[str, str], tenant: str | None) -> object:
    """Return the store of a tenant, by default the one whose definitions the configuration holds."""
    whose = tenant or environ.get("FENCEPOST_TENANT") or settings.get("tenant", "default")
    return _part(settings, "stores").get(whose, settings.get("store"))


def resolved_store_of(path: str, environ: Mapping[str, str]) -> str:
    """Return the store of a configuration, unless another one is named for all."""
    return environ.get("FENCEPOST_STORE") or store_url_of(path, environ)


def resolved_store(store: object, path: str, environ: Mapping[str, str]) -> str:
    """Return the URL that a configuration's `store` means."""
    if store is None or store == "":
        from hashlib import sha256

        digest = sha256(os.path.realpath(path).encode()).hexdigest()[:16]
        return f"sqlite:{state_folder(environ)}/{digest}.db"
    if not isinstance(store, str):
        raise Invalid(f'{path}: store is a text such as "sqlite:/path/state.db" or "postgresql://host/db".')
    if store.startswith("env:"):
        value = environ.get(store[4:])
        if not value:
            raise Misconfigured(f"{path}: store is {store!r}, but {store[4:]} is not set.")
        return _anchored(value, path)
    return _anchored(store, path)


def without_password(url: str) -> str:
    """Return a store's URL as people may see it."""
    before, at, after = url.rpartition("@")
    scheme, slashes, login = before.partition("//")
    return f"{scheme}{slashes}{login.partition(':')[0]}{at}{after}"


def _anchored(url: str, path: str) -> str:
    """Take a file that is named relatively from the configuration's folder: wherever it is used from, it is one store."""
    kind, colon, file = url.partition(":")
    if kind != "sqlite" or file.startswith(("/", "~", ":")) or not file:
        return url
    return f"{kind}{colon}{os.path.join(os.path.dirname(os.path.realpath(path)), file)}"


def tenant_of(path: str | None, environ: Mapping[str, str]) -> str:
    """Return whose definitions a configuration holds."""
    tenant = _general(path, environ).get("tenant", "default")
    if not isinstance(tenant, str):
        raise Invalid(f'{path}: tenant is a text such as "default".')
    return tenant


def audit_key_of(path: str | None, environ: Mapping[str, str]) -> str:
    """Return the reference to the key that seals the audit, or nothing."""
    reference = _general(path, environ).get("audit_key", "")
    if not isinstance(reference, str):
        raise Invalid(f'{path}: audit_key is a reference such as "env:NAME" or "file:/path".')
    return reference


def gate_target(path: str, name: str) -> str | None:
    """Return the target of a gate that the configuration describes by name; paths are relative to the file."""
    from fencepost.model.target import PATHS, target_of

    table = _table(path)
    if os.path.basename(path) == FALLBACK:
        table = _part(_part(table, "tool"), "fencepost")
    gate = _part(_part(table, "gates"), name)
    if not isinstance(gate.get("kind"), str):
        return None
    if gate["kind"] in PATHS and isinstance(gate.get("path"), str):
        gate = {**gate, "path": os.path.join(os.path.dirname(path), gate["path"])}
    return target_of(gate)


def gates_of(path: str) -> list[str]:
    """Return the names of the gates that a configuration describes."""
    table = _table(path)
    if os.path.basename(path) == FALLBACK:
        table = _part(_part(table, "tool"), "fencepost")
    return list(_part(table, "gates"))


def gates_of_agents(path: str) -> list[str]:
    """Return the targets that agents of a configuration name themselves, each once."""
    from fencepost.model.target import is_target

    table = _table(path)
    if os.path.basename(path) == FALLBACK:
        table = _part(_part(table, "tool"), "fencepost")
    agents = _part(table, "agents")
    named = [name for agent in agents.values() if isinstance(agent, dict) for name in _texts(agent.get("gates"))]
    return [name for name in dict.fromkeys(named) if is_target(name)]


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def projects_of(path: str) -> dict[str, dict[str, Any]]:
    """Return the projects that a configuration declares, as far as they are written in the right form."""
    table = _table(path)
    if os.path.basename(path) == FALLBACK:
        table = _part(_part(table, "tool"), "fencepost")
    projects = _part(table, "projects")
    return {name: _project(path, name, values) for name, values in projects.items() if isinstance(values, dict)}


def _project(path: str, name: str, values: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(values.get("path"), str) or not isinstance(values.get("concurrency", 1), int):
        raise Invalid(f"{path}: projects.{name} is not in order; see: fencepost plan")
    empty = {"isolation": "none", "worktree_base": "", "worktrees_dir": "", "copy": (), "discard": (), "merge": "keep"}
    return {"concurrency": 1, **empty, **values}


def config_folder(environ: Mapping[str, str]) -> str:
    """Return where this user's settings are kept."""
    base = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".config")
    return os.path.join(base, "fencepost")


def state_folder(environ: Mapping[str, str]) -> str:
    """Return where this user's state is kept."""
    base = environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "fencepost")


def _general(path: str | None, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the general settings, this user's where the file says nothing; in pyproject.toml they stand in our table."""
    settings = _user_settings(environ)
    if path is None:
        return settings
    table = _table(path)
    if os.path.basename(path) != FALLBACK:
        return {**settings, **_part(table, "fencepost")}
    section = _part(_part(table, "tool"), "fencepost")
    return {**settings, **section, **_part(section, "fencepost")}


def _user_settings(environ: Mapping[str, str]) -> dict[str, Any]:
    path = user_path(environ)
    return anchor_store(_part(_table(path), "fencepost"), path) if path else {}


def anchor_store(settings: dict[str, Any], path: str) -> dict[str, Any]:
    """Take stores that are named relatively from the folder of the file that names them."""
    found = dict(settings)
    if isinstance(store := found.get("store"), str):
        found["store"] = _anchored(store, path)
    if isinstance(stores := found.get("stores"), dict):
        found["stores"] = {name: _anchored(one, path) if isinstance(one, str) else one for name, one in stores.items()}
    return found


def _part(table: dict[str, Any], name: str) -> dict[str, Any]:
    part = table.get(name, {})
    return part if isinstance(part, dict) else {}


def _table(path: str, *, is_ours: bool = True) -> dict[str, Any]:
    """Parse a file; one that is ours may not be changed by every user."""
    import tomllib

    from fencepost.config.file_trust import refuse_open_to_all

    try:
        with open(path, "rb") as file:
            if is_ours:
                refuse_open_to_all(os.fstat(file.fileno()).st_mode, path)
            return tomllib.loads(file.read().decode("utf-8-sig"))
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{path} is not valid TOML: {error}.") from None
