"""Tells the stories of the CLIs that tests ask for, a few at once; each once, whatever the tests look at."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from tests.agents.clis import Cli, tried
from tests.agents.ground import Ground
from tests.agents.install import absent
from tests.agents.model.server import Model

AT_ONCE = 3  # stories; each waits for one process or another most of the time

T = TypeVar("T")


def those(*presets: str) -> list[Any]:
    """Return the CLIs of some kinds that are installed."""
    here = [cli for cli in tried() if cli not in absent() and (not presets or cli.preset in presets)]
    return [pytest.param(cli, id=cli.name) for cli in here]


@contextmanager
def telling(
    request: pytest.FixtureRequest, model: Model, parameter: str, tell: Callable[[Ground], T]
) -> Iterator[dict[str, Future[T]]]:
    """Begin the story of each CLI that a test has as its parameter."""
    folders: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    asked = [item.callspec.params.get(parameter) for item in request.session.items if hasattr(item, "callspec")]
    clis: list[Cli] = [cli for cli in tried() if cli in asked]
    grounds = {cli.name: Ground(folders.mktemp(f"{parameter}-{cli.name}"), cli, model) for cli in clis}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {name: pool.submit(_told, ground, tell) for name, ground in grounds.items()}
        pool.shutdown(cancel_futures=True)
    for ground in grounds.values():
        ground.close()


def _told(ground: Ground, tell: Callable[[Ground], T]) -> T:
    """Tell one story; its agents do not stay behind, also if it breaks off."""
    try:
        return tell(ground)
    except BaseException:
        ground.close()
        raise
