"""Every kind of gate that a seed can be played with."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from fencepost.gates.sql import open_database as sql_open
from tests.simulation.gates.repository import GitBehind, HookedBehind, made_up_remotes
from tests.simulation.gates.servers import ForgetfulRedisBehind, RedisBehind, S3Behind
from tests.simulation.gates.services import MiddlewareBehind, PostgresBehind, ProxyBehind
from tests.simulation.gates.targets import Behind, DirectoryBehind, FileBehind, SqliteBehind, TargetScene

KINDS: dict[str, Callable[[TargetScene], Behind]] = {
    "file": lambda scene: FileBehind(scene, scene.pause),
    "dir": DirectoryBehind,
    "sqlite": SqliteBehind,
    "postgres": PostgresBehind,
    "git": GitBehind,
    "git-hook": HookedBehind,
    "http": MiddlewareBehind,
    "proxy": ProxyBehind,
    "s3": S3Behind,
    "redis": RedisBehind,
}
SPELLED = {
    "": "file",
    "sqlite": "sql",
    "postgres": "sql",
    "git-hook": "git",
    "proxy": "http",
    "redis-everysec": "redis",
}
BEST_EFFORT: dict[str, Callable[[TargetScene], Behind]] = {"redis-everysec": ForgetfulRedisBehind}


def spelled(kind: str, path: str) -> str:
    """Spell the target at a path: by it the store knows whether writes can outlive their sender."""
    return f"{SPELLED.get(kind, kind)}:{path}"


def open_behind(kind: str, scene: TargetScene) -> Behind:
    """Open the counter of a place; without a kind it is a file, as in all seeds of old."""
    return {**KINDS, **BEST_EFFORT}[kind](scene) if kind else FileBehind(scene)


@contextmanager
def made_up_servers() -> Iterator[None]:
    """Let gates find made-up servers, and nobody wait in real time."""
    with made_up_remotes(), patch.object(sql_open, "WAIT_SECONDS", 0):
        yield
