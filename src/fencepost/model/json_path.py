"""Finds values in JSON by a short path: `message.content[type=tool_use].id`, `modelUsage.*.costUSD`, `errors.0`.

A name goes into an object, a number or `*` into a list (`*` into an object too), and `[name=value]` keeps only those
objects of a list that have the value. Where nothing is, nothing is found: a path is never an error on hostile input.
"""

import re
from functools import lru_cache
from typing import Any, NamedTuple

from fencepost.model.errors import Invalid

_STEP = re.compile(r"(?P<name>[A-Za-z0-9_$-]+|\*)(?P<filter>\[(?P<key>[A-Za-z0-9_$-]+)=(?P<value>[^\]\[]*)\])?(?:\.|$)")


class PathStep(NamedTuple):
    """One step of a path."""

    name: str
    key: str = ""
    value: str = ""


@lru_cache(maxsize=1024)
def parse_path(path: str) -> tuple[PathStep, ...]:
    """Read a path, or raise Invalid."""
    steps, place = [], 0
    while place < len(path):
        found = _STEP.match(path, place)
        if found is None:
            raise Invalid(f"{path!r} is no path at character {place + 1}; write names with dots, such as item.id.")
        steps.append(PathStep(found["name"], found["key"] or "", found["value"] or ""))
        place = found.end()
    if not steps or path.endswith("."):
        raise Invalid(f"{path!r} is no path; write names with dots, such as item.id.")
    return tuple(steps)


def find(value: Any, path: str) -> list[Any]:  # noqa: ANN401  # JSON of any shape
    """Return what is there, in order; nothing if nothing is."""
    found = [value]
    for step in parse_path(path):
        found = [below for one in found for below in _go(one, step)]
        if not found:
            break
    return found


def _go(value: Any, step: PathStep) -> list[Any]:  # noqa: ANN401  # likewise
    below = _below(value, step.name)
    if not step.key:
        return below
    items = [item for one in below for item in (one if isinstance(one, list) else [one])]
    return [item for item in items if isinstance(item, dict) and spelled(item.get(step.key)) == step.value]


def _below(value: Any, name: str) -> list[Any]:  # noqa: ANN401  # likewise
    if isinstance(value, dict):
        if name == "*":
            return list(value.values())
        return [value[name]] if name in value else []
    if isinstance(value, list):
        if name == "*":
            return value
        if name.isascii() and name.isdigit() and int(name) < len(value):
            return [value[int(name)]]
    return []


def spelled(value: object) -> str | None:
    """Spell a plain value as JSON has it, text without quotes; None for what is no plain value."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | float():
            return repr(value)
        case None:
            return "null"
        case _:
            return None
