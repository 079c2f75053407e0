"""The few names of typing and collections.abc that run-time code needs, without the cost of importing those.

`exec`, `lease` and `gate` start from crontabs and on every tool call, and typing alone would double their start-up.
To a type checker these names *are* typing's. At run time a NamedTuple is a tuple with names for its places, a
Protocol is a plain class, and the others only have to exist. Use it in modules on the path of those commands.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from enum import Enum
    from typing import Any, NamedTuple, Protocol, Self, TypeVar
else:
    from _collections import _tuplegetter  # as typing's own has them
    from _collections_abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    class _Named(type):
        """Reads the fields of a NamedTuple from its annotations."""

        def __new__(cls, name, bases, space):
            annotate = space.get("__annotate_func__") or space.get("__annotate__")
            annotations = space.get("__annotations__") or (annotate(1) if annotate else {})
            fields = tuple(annotations) if bases != (tuple,) else ()
            space["_field_defaults"] = {field: space.pop(field) for field in fields if field in space}
            space["_tail"] = tuple(space["_field_defaults"].values())  # of the last fields: no other may have a default
            space.update({field: _tuplegetter(place, None) for place, field in enumerate(fields)})
            return super().__new__(cls, name, bases, {**space, "_fields": fields, "__slots__": ()})

    class NamedTuple(tuple, metaclass=_Named):
        """A tuple with names for its places."""

        def __new__(cls, *values, **named):
            if not named and 0 <= (missing := len(cls._fields) - len(values)) <= len(cls._tail):
                return tuple.__new__(cls, values + cls._tail[len(cls._tail) - missing :] if missing else values)
            rest = cls._fields[len(values) :]
            filled = [named.pop(field) if field in named else cls._default(field) for field in rest]
            if named or len(values) > len(cls._fields):
                raise TypeError(f"{cls.__name__} takes {', '.join(cls._fields)}; not {list(named) or values}")
            return tuple.__new__(cls, (*values, *filled))

        @classmethod
        def _default(cls, field):
            if field not in cls._field_defaults:
                raise TypeError(f"{cls.__name__} needs {field}")
            return cls._field_defaults[field]

        @classmethod
        def _make(cls, values):
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"{cls.__name__} takes {', '.join(cls._fields)}; not {values}")
            return made

        def _replace(self, **changes):
            return type(self)(*{**self._asdict(), **changes}.values())

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in self._asdict().items())})"

        def __getnewargs__(self):
            return tuple(self)

    class _Members(type):
        """Makes one value of each name in an Enum's body."""

        def __init__(cls, name, bases, space):
            super().__init__(name, bases, space)
            cls._members = {}
            for word, value in space.items():
                if not word.startswith("_") and not callable(value) and not isinstance(value, property):
                    member = object.__new__(cls)
                    member.name, member.value = word, value
                    cls._members[word] = member
                    setattr(cls, word, member)

        def __iter__(cls):
            return iter(cls._members.values())

    class Enum(metaclass=_Members):
        """A few values with names."""

        def __repr__(self):
            return f"<{type(self).__name__}.{self.name}: {self.value!r}>"

    class Protocol:
        """What a class must offer; only a type checker looks."""

    Any = Self = object

    def TypeVar(name, **_):  # noqa: N802  # typing's own spelling
        """Stand for a type."""
        return name


__all__ = [
    "TYPE_CHECKING",
    "Any",
    "Callable",
    "Collection",
    "Enum",
    "Iterable",
    "Iterator",
    "Mapping",
    "NamedTuple",
    "Protocol",
    "Self",
    "Sequence",
    "TypeVar",
]
