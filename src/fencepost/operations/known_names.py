"""What may be asked by a shell that completes a word: the names of schedules, agents and projects, and the newest runs."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from fencepost.config.find import config_path, projects_of
from fencepost.operations.phrases import ago
from fencepost.operations.run_queries import Store

RUNS_MAX = 100
STORED = ("schedule", "agent", "run")


class KnownName(NamedTuple):
    """A word that a person may mean, and what to say beside it."""

    name: str
    note: str


def stored_names(store: Store, tenant: str, kind: str, prefix: str) -> Iterator[KnownName]:
    """Yield the names of one kind in the store that begin so, in order; runs newest first."""
    look = store.reads(tenant)
    if kind == "run":
        found = look.runs_like(prefix, limit=RUNS_MAX) if prefix else look.runs(limit=RUNS_MAX)
        now_us = look.clock_us()
        for run in found:
            yield KnownName(run.id, f"{run.schedule or run.agent}, {run.state}, {ago(run.created_us, now_us)}")
        return
    names = sorted(one.name for one in look.names() if one.kind == kind and one.name.startswith(prefix))
    yield from (KnownName(name, kind) for name in names)


def project_names(environ: Mapping[str, str], cwd: str, prefix: str) -> Iterator[KnownName]:
    """Yield the projects that the configuration in force declares."""
    path = config_path(environ, cwd)
    for name, values in (projects_of(path) if path else {}).items():
        if name.startswith(prefix):
            yield KnownName(name, str(values["path"]))
