"""One shape for each noun. `--json`, the HTTP API with its document, MCP answers and the Python API are made of these.

Field names are never changed, only added to. A record holds Python's own values; `as_json` spells them for every door.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar, dataclass_transform

from fencepost.model.budget import MICRO
from fencepost.model.instants import FOREVER_US, format_instant, from_us

PLAIN = (str, int, float, bool, type(None), dict)  # what JSON has already; the values of a dict are JSON, too


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Record:
    """A noun's fields. Written and read like a frozen dataclass, which would cost `ps` and `runs` 2 ms each to define."""

    _fields: ClassVar[tuple[str, ...]] = ()
    _noun: ClassVar[str] = ""  # what documents call it
    _needed: ClassVar[frozenset[str]] = frozenset()  # those without a value of their own

    def __init_subclass__(cls, noun: str = "") -> None:
        cls._noun = noun or cls.__name__.removesuffix("Record")
        inherited = [name for base in cls.__bases__ for name in getattr(base, "_fields", ())]
        cls._fields = tuple(dict.fromkeys([*inherited, *cls.__annotations__]))
        cls._needed = frozenset(name for name in cls._fields if not hasattr(cls, name))

    def __init__(self, **values: Any) -> None:  # noqa: ANN401  # a type checker knows the fields
        if not self._needed <= values.keys() <= {*self._fields}:
            wrong = self._needed - values.keys() | values.keys() - {*self._fields}
            raise TypeError(f"{type(self).__name__} lacks, or does not know, {', '.join(sorted(wrong))}")
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} of a {type(self).__name__} stays as it was when it was looked at")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # some hold lists

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._fields)})"


def as_json(value: Any) -> Any:  # noqa: ANN401  # whatever a record holds
    """Spell a record, or what stands in one: instants as RFC 3339 in UTC to the second, dollars as numbers."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, datetime):
        return format_instant(value.replace(microsecond=0))
    if hasattr(value, "_fields"):  # a record, or a named tuple in one
        return {name: as_json(getattr(value, name)) for name in value._fields}
    if isinstance(value, list | tuple):
        return [as_json(one) for one in value]
    return float(value) if isinstance(value, Decimal) else value


def fields_of(record: Record) -> Mapping[str, Any]:
    """Return what a record holds, to make one with more fields of it."""
    return vars(record)


def at(us: int | None) -> datetime | None:
    """Return a kept instant; one that never comes, or is not known, is nothing."""
    return None if us is None or us >= FOREVER_US else from_us(us)


def usd(micro: int | None) -> Decimal | None:
    """Return a kept amount in dollars."""
    return None if micro is None else Decimal(micro) / MICRO
