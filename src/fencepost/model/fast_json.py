"""JSON in and out for the commands that start all the time: json itself would import re, enum and more.

The same text as json.dumps writes and the same values as json.loads reads, through the same C code.
"""

try:
    from _json import encode_basestring_ascii, make_scanner
except ImportError:  # another Python than CPython
    from json import dumps, loads
else:
    TYPE_CHECKING = False
    if TYPE_CHECKING:
        from typing import Any

    class _Context:
        """What the scanner wants to know."""

        strict = True
        object_hook = object_pairs_hook = None
        parse_float, parse_int = float, int
        parse_constant = staticmethod(float)
        memo: "dict[str, str]" = {}  # noqa: RUF012  # the scanner clears it

    _scan = make_scanner(_Context())  # type: ignore[arg-type]  # any object with these attributes will do

    def dumps(value: object) -> str:  # type: ignore[misc]  # the other branch has unused options
        """Write a value of plain types."""
        match value:
            case str():
                return str(encode_basestring_ascii(value))
            case None | True | False:
                return {None: "null", True: "true", False: "false"}[value]
            case int() | float():
                return repr(value)
            case dict():
                return "{" + ", ".join(f"{dumps(str(key))}: {dumps(one)}" for key, one in value.items()) + "}"
            case list() | tuple():
                return "[" + ", ".join(map(dumps, value)) + "]"
        raise TypeError(f"{type(value).__name__} is no JSON")

    def loads(text: "str | bytes") -> "Any":  # type: ignore[misc]  # noqa: ANN401  # likewise
        """Read a value, or raise ValueError."""
        words = (text.decode() if isinstance(text, bytes) else text).strip(" \t\r\n")
        try:
            value, end = _scan(words, 0)
        except StopIteration as stop:
            raise ValueError(f"no JSON at character {stop.value}") from None
        except (
            SystemError
        ):  # the scanner takes its own error from json, and fails without words if that was not imported
            import json

            json.loads(words)
            raise ValueError("this is no JSON") from None
        if end != len(words):
            raise ValueError(f"more than one JSON value, the second at character {end}")
        return value


__all__ = ["dumps", "loads"]
