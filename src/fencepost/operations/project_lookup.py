"""What may be asked about projects: which one a directory belongs to, and which store looks after it."""

from __future__ import annotations

import os

from fencepost.config.find import config_path, projects_of, resolved_store_of, state_folder
from fencepost.host.project_identity import containing, project_resource, resolve
from fencepost.model.errors import Invalid, Misconfigured
from fencepost.model.fast_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Mapping
    from fencepost.model.project import Project

NOTES = "projects"  # the folder that remembers which configuration a directory belongs to
PATH_MAX = 8192


class ProjectGround(NamedTuple):
    """A project, and where its leases are kept."""

    resource: str
    slots: int
    path: str
    name: str  # as it is declared, or nothing
    store: str  # its store's URL, or nothing: no configuration knows it

    @property
    def words(self) -> str:
        """Say which one it is."""
        return f"project {self.name} ({self.path})" if self.name else f"project {self.path}"


def find_ground(text: str, environ: Mapping[str, str], cwd: str) -> ProjectGround:
    """Find the project that a person means: the name of a declared one, else a directory."""
    config = config_path(environ, cwd)
    declared = projects_of(config) if config else {}
    if config and text in declared:
        found = resolve(text, declared[text], os.path.dirname(os.path.realpath(config)))
        return ProjectGround(found.resource, found.slots, found.path, text, resolved_store_of(config, environ))
    path = os.path.join(cwd, os.path.expanduser(text))
    if not os.path.isdir(path):
        raise Invalid(f"{text!r} is neither a directory nor a project{_known(config, list(declared))}.")
    return ground_at(path, environ, cwd)


def ground_at(path: str, environ: Mapping[str, str], cwd: str) -> ProjectGround:
    """Find the project of a directory: in the configuration in force, the one that was noted for it, or one above it."""
    resource = project_resource(path)
    for config in _configs(path, resource, environ, cwd):
        projects = _resolved(config)
        found = containing(path, projects)
        if found is not None:
            return ProjectGround(
                found.resource, found.slots, found.path, found.name, resolved_store_of(config, environ)
            )
    known = config_path(environ, cwd) or config_path(environ, path)
    store = resolved_store_of(known, environ) if known else ""
    return ProjectGround(resource, 1, os.path.realpath(path), "", store)


def note_project(project: Project, config: str, environ: Mapping[str, str]) -> None:
    """Remember which configuration looks after a directory, for those who come from elsewhere."""
    folder = os.path.join(state_folder(environ), NOTES)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, _file(project.resource))
    draft = f"{path}.{os.getpid()}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(os.path.realpath(config))
    os.replace(draft, path)


def _configs(path: str, resource: str, environ: Mapping[str, str], cwd: str) -> list[str]:
    found = [config_path(environ, cwd), _noted(resource, environ), config_path(environ, path)]
    return list(dict.fromkeys(one for one in found if one))


def _noted(resource: str, environ: Mapping[str, str]) -> str | None:
    try:
        with open(os.path.join(state_folder(environ), NOTES, _file(resource))) as file:
            config = file.read(PATH_MAX)
    except OSError:
        return None
    return config if os.path.isfile(config) else None


def _resolved(config: str) -> list[Project]:
    base = os.path.dirname(os.path.realpath(config))
    found = []
    for name, values in projects_of(config).items():
        try:
            found.append(resolve(name, values, base))
        except Misconfigured:
            continue  # it is not on this machine
    return found


def _file(resource: str) -> str:
    return resource.replace("/", "_").replace(":", "-")


def _known(config: str | None, names: list[str]) -> str:
    if config is None:
        return " (there is no fencepost.toml here or above)"
    return f" of {config}, which declares {', '.join(names) or 'none'}"
