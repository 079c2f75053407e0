"""The ready definitions of agent CLIs: data files beside the engines."""

import os
import tomllib
from functools import cache
from typing import Any

FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "engines", "definitions")


@cache
def shipped_names() -> tuple[str, ...]:
    """Return what there is a definition for."""
    return tuple(sorted(name.removesuffix(".toml") for name in os.listdir(FOLDER) if name.endswith(".toml")))


@cache
def shipped(name: str) -> dict[str, Any]:
    """Return a definition as it is written; the name is one of those shipped."""
    assert name in shipped_names(), name
    with open(os.path.join(FOLDER, f"{name}.toml"), "rb") as file:
        return tomllib.load(file)
