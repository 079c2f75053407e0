"""Opens a gate by its target or by its name. Each kind's module is loaded when a gate of that kind is opened."""

import os

from fencepost.model.errors import Invalid
from fencepost.model.fast_typing import TYPE_CHECKING, Callable
from fencepost.model.target import OURS, Target, is_target, parse_target

if TYPE_CHECKING:
    from fencepost.gates.file import FileGate
    from fencepost.gates.git.gate import GitGate
    from fencepost.ports.clock import Clock
    from fencepost.ports.gate import Disk, Fetch, Gate

    Opener = Callable[[Target, Fetch], Gate]


def open_gate(name: str, fetch: "Fetch | None" = None) -> "Gate":
    """Open a gate: `kind:where`, or the name of one that the configuration describes.

    `fetch` decides what its references mean, for a worker that opens it for a tenant; a process that writes for itself has
    nothing but what was handed to it.
    """
    target = parse_target(target_named(name))
    if target.kind not in OPENERS:
        raise Invalid(
            f"gates of kind {target.kind!r} come with a later version; there are {', '.join(kind for kind in OPENERS if kind not in OURS)}."
        )
    return OPENERS[target.kind](target, fetch or _own)


def load_kinds() -> None:
    """Load every kind's module whose library is installed: for a process whose children shall import nothing."""
    from contextlib import suppress
    from importlib import import_module
    from pkgutil import walk_packages

    from fencepost import gates
    from fencepost.host import clock, filesystem, git_users, secrets  # noqa: F401  # what opening them loads

    for module in walk_packages(gates.__path__, f"{gates.__name__}."):
        with suppress(ModuleNotFoundError):  # an extra that is not there; opening such a gate says so
            import_module(module.name)


def _own(reference: str) -> str:
    from fencepost.host.secrets import own_secret

    return own_secret(reference)


def target_named(name: str) -> str:
    """Return the target that a name stands for; a target stands for itself."""
    if is_target(name):
        return name
    from fencepost.config.find import config_path, gate_target

    path = config_path(os.environ, os.getcwd())
    found = gate_target(path, name) if path and name else None
    if found is None:
        where = f"{path} describes none of that name" if path else "there is no fencepost.toml here to describe one"
        raise Invalid(
            f"{name!r} is no gate: {where}; write kind:where, for example file:{name or 'report.json'}, "
            f"or describe it as [gates.{name or 'NAME'}]."
        )
    return found


def file_gate(path: str) -> "FileGate":
    """Open the gate of a file, or of everything below a directory."""
    from fencepost.gates.file import FileGate

    return FileGate(path, clock=_clock(), disk=disk)


def _clock() -> "Clock":
    """Return this machine's clock: in an agent's own process nothing is wired."""
    from fencepost.host.clock import SystemClock

    return SystemClock()


def disk() -> "Disk":
    """Return what the host knows about places of files; asked for only where it matters."""
    from fencepost.host import filesystem

    return filesystem


def _sql(target: Target, fetch: "Fetch") -> "Gate":
    from fencepost.gates.sql.gate import open_sql_gate

    return open_sql_gate(target, clock=_clock(), fetch=fetch)


def git_gate(target: Target, fetch: "Fetch", remote: str = "") -> "GitGate":
    """Open the gate of a branch; `remote` is another way to the same repository, which a clone knows."""
    from fencepost.gates.git.gate import GitGate
    from fencepost.host import git_users

    return GitGate(target, clock=_clock(), fetch=fetch, witness=git_users, remote=remote)


def _redis(target: Target, fetch: "Fetch") -> "Gate":
    from fencepost.gates.redis.gate import open_redis_gate

    return open_redis_gate(target, clock=_clock(), fetch=fetch)


def _s3(target: Target, fetch: "Fetch") -> "Gate":
    from fencepost.gates.s3.gate import open_s3_gate

    return open_s3_gate(target, clock=_clock(), fetch=fetch)


def _http(target: Target, fetch: "Fetch") -> "Gate":
    from fencepost.gates.http.gate import open_http_gate

    return open_http_gate(target, fetch=fetch)


def _directory(target: Target, _: "Fetch") -> "Gate":
    from fencepost.gates.directory import DirectoryGate

    return DirectoryGate(target.where, clock=_clock(), disk=disk)


def _repository(target: Target, _: "Fetch") -> "Gate":
    from fencepost.gates.git.repository import RepositoryGate
    from fencepost.host import git_users
    from fencepost.host.identity import this_host

    return RepositoryGate(target, clock=_clock(), machine=this_host().machine, witness=git_users)


OPENERS: "dict[str, Opener]" = {
    "file": lambda target, _: file_gate(target.where),
    "dir": _directory,
    "sql": _sql,
    "git": git_gate,
    "http": _http,
    "s3": _s3,
    "redis": _redis,
    "repo": _repository,
}
