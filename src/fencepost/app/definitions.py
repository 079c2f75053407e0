"""What decorators wrote down, in the shape of a configuration file, so that the same code checks both."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from types import FrameType, ModuleType
from typing import Any

from fencepost.config.load import Config, check
from fencepost.config.problems import TextPlace
from fencepost.config.read import Document
from fencepost.model.errors import Invalid

Function = Callable[..., Any]


@dataclass(frozen=True)
class WrittenInPython(Document):
    """Definitions of a Python program; a key's place is the line where its section was written."""

    places: Mapping[tuple[str | int, ...], int] = field(default_factory=dict)

    def place(self, *path: str | int) -> TextPlace:
        """Return the line of the nearest thing that was written down."""
        lengths = range(len(path), 0, -1)
        return TextPlace(next((self.places[path[:end]] for end in lengths if path[:end] in self.places), 1), 1)


class Definitions:
    """The sections of one program, gathered as its decorators run."""

    def __init__(self, source: str, general: Mapping[str, object], line: int) -> None:
        self.source = source
        self._table: dict[str, Any] = {"fencepost": {name: spelled(value) for name, value in general.items() if value}}
        self._places: dict[tuple[str | int, ...], int] = {("fencepost",): line}

    def add(self, section: str, name: str, values: Mapping[str, object], *, line: int) -> None:
        """Write a section down; the same name twice would hide the first."""
        table = self._table.setdefault(section, {})
        if name in table:
            first = self._places[section, name]
            raise Invalid(
                f"{self.source}:{line}: there are two {section} called {name!r}, the first on line {first}; "
                "give one of them another name."
            )
        table[name] = {key: spelled(value) for key, value in values.items()}
        self._places[section, name] = line

    def has(self, section: str, name: str) -> bool:
        """Tell whether a section was written down."""
        return name in self._table.get(section, {})

    def config(self) -> Config:
        """Check everything, or raise InvalidConfig with every problem and its line."""
        shown = os.path.relpath(self.source) if self.source.startswith(os.getcwd() + os.sep) else self.source
        return check(WrittenInPython(shown, "", self._table, places=self._places), self.source)


def spelled(value: object) -> object:
    """Spell a Python value as TOML would have given it; what it has no word for is left to the check."""
    if isinstance(value, timedelta):
        return f"{value / timedelta(milliseconds=1):.0f}ms"
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(key): spelled(one) for key, one in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [spelled(one) for one in value]
    return value


def name_of(function: Function) -> str:
    """Name a definition after its function."""
    return function.__name__.strip("_").lower().replace("_", "-")


def target_of(function: Function) -> str:
    """Return `module:function`, by which a worker's child finds it; what has no such name cannot run there."""
    qualified = getattr(function, "__qualname__", "")
    if not qualified or "<" in qualified:
        raise Invalid(
            f"{qualified or function!r} is not at the top of its module, so that a worker could not import it; "
            "define it there with def or async def."
        )
    return f"{module_name(sys.modules[function.__module__])}:{qualified}"


def module_name(module: ModuleType) -> str:
    """Return by what name another process imports a module, also one that was started as a program."""
    spec = getattr(module, "__spec__", None)
    if spec is not None and spec.name:
        return str(spec.name)
    path = getattr(module, "__file__", None)
    if module.__name__ != "__main__":
        return str(module.__name__)
    if not path:
        raise Invalid("functions of an interactive session cannot be scheduled: a worker could not import them.")
    return os.path.splitext(os.path.basename(str(path)))[0]


def source_of(frame: FrameType) -> tuple[str, str]:
    """Return the file that a frame is in, and the folder from which its module is imported."""
    path = frame.f_globals.get("__file__")
    if not path:
        raise Invalid("Fencepost(...) needs a file that owns its definitions; write it in a module, or give source=.")
    path = os.path.realpath(path)
    name = module_name(sys.modules[frame.f_globals["__name__"]])
    folder = os.path.dirname(path)
    for _ in range(name.count(".") + (os.path.basename(path) == "__init__.py")):
        folder = os.path.dirname(folder)
    return path, folder
