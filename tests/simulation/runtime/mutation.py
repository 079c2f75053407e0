"""A mistake on purpose."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

Patches = Callable[[], Sequence[AbstractContextManager[object]]]


class Mutation(NamedTuple):
    """A mistake, and in which kind of trouble it shows, if not in any."""

    patches: Patches
    profile: str | None = None
