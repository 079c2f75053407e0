"""Reads a TOML file, also with a byte order mark or odd line ends, and says where it cannot be read."""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from fencepost.config.file_trust import refuse_open_to_all
from fencepost.config.find import FALLBACK
from fencepost.config.problems import InvalidConfig, Problem, TextPlace
from fencepost.config.toml_positions import TomlPositions
from fencepost.model.errors import Invalid

BYTES_MAX = 10_000_000
DEPTH_MAX = 32
_AT = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")
_LONG_NUMBER = re.compile(r"[0-9_]{1000,}")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")

# What the parser says, and what to do about it.
HINTS = {
    "Invalid value": 'text stands in quotes, as in cron = "0 9 * * *"',
    "Expected '=' after a key": 'write a setting as key = "value"',
    "Invalid statement": "a line is a [section], a key = value or a # comment",
    "Expected newline or end of document": "one setting stands on one line, and text in quotes",
    "Cannot declare": "the same section stands here twice; join the two",
    "Cannot overwrite a value": "this key was set before; keep one of the two",
    "Unescaped '\\' in a string": "write \\\\ for a backslash, or put the text in single quotes",
    "Illegal character": "close the quotes on the same line, or use three of them",
    "Unterminated string": "close the quotes",
    "Unclosed array": "close it with ]",
    "Unclosed inline table": "close it with }, on the same line",
}


@dataclass(frozen=True)
class Document:
    """A file's content, and the way back from a key to its line."""

    path: str  # as it was named, for messages
    text: str
    table: dict[str, Any]
    prefix: tuple[str, ...] = ()  # where our part of the file begins
    files: Mapping[str, str] | None = None  # what came with a text that has no folder; None: files are on the disk

    @cached_property
    def lines(self) -> TomlPositions:
        """Where each key stands; worked out when something is to be said about one."""
        return TomlPositions(self.text)

    def place(self, *path: str | int) -> TextPlace:
        """Return where a key of our part stands."""
        return self.lines.place(*self.prefix, *path)


def read_document(path: str) -> Document:
    """Read and parse a file, or raise InvalidConfig with the place of the trouble."""
    shown = os.path.relpath(path) if path.startswith(os.getcwd() + os.sep) else path
    text = _decode(shown, _bytes(path, shown))
    document = Document(shown, text, _parse(shown, text))
    if os.path.basename(path) != FALLBACK:
        return document
    tool = document.table.get("tool")
    ours = tool.get("fencepost") if isinstance(tool, dict) else None
    if not isinstance(ours, dict):
        raise Invalid(f"{shown} has no section [tool.fencepost]; name another file, or write one: fencepost init")
    return Document(shown, text, _gathered(ours), ("tool", "fencepost"))


def read_text(name: str, text: str, files: Mapping[str, str]) -> Document:
    """Parse a text that was sent, with the files that it names, or raise InvalidConfig."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    return Document(name, text, _parse(name, text), files=files)


def _gathered(ours: dict[str, Any]) -> dict[str, Any]:
    """In pyproject.toml the general settings stand in [tool.fencepost] itself."""
    general = {name: value for name, value in ours.items() if not isinstance(value, dict)}
    sections = {name: value for name, value in ours.items() if isinstance(value, dict)}
    if not general:
        return sections
    nested = sections.get("fencepost", {})
    return {**sections, "fencepost": {**general, **nested}}


def _bytes(path: str, shown: str) -> bytes:
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise Invalid(f"{shown} cannot be read: {error.strerror}.") from None
    refuse_open_to_all(mode, shown)
    if len(data) > BYTES_MAX:
        raise Invalid(f"{shown} is larger than {BYTES_MAX // 1_000_000} MB; split it into several files.")
    return data


def _decode(path: str, data: bytes) -> str:
    if data.startswith(_UTF_16):
        raise Invalid(f"{path} is in UTF-16; save it as UTF-8.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", "replace")
        place = TomlPositions(before).place_of(len(before))
        byte = data[error.start]
        raise InvalidConfig(
            path, [Problem(place, f"byte 0x{byte:02x} is not UTF-8; save the file as UTF-8.")]
        ) from None
    return text.replace("\r\n", "\n")


def _parse(path: str, text: str) -> dict[str, Any]:
    try:
        table = tomllib.loads(text, parse_float=Decimal)
    except RecursionError:
        raise Invalid(f"{path} is nested deeper than {DEPTH_MAX} levels; flatten it.") from None
    except (ValueError, ArithmeticError) as error:  # the parser's own errors, and numbers beyond all bounds
        raise InvalidConfig(path, [_syntax_problem(text, str(error))]) from None
    if _depth(table) > DEPTH_MAX:
        raise Invalid(f"{path} is nested deeper than {DEPTH_MAX} levels; flatten it.")
    return table


def _syntax_problem(text: str, message: str) -> Problem:
    found = _AT.search(message)
    what = message[: found.start()] if found else message
    if what.startswith("Exceeds the limit") or "decimal" in what:
        what = "a number is beyond all bounds"
    hint = next((hint for words, hint in HINTS.items() if what.startswith(words)), "")
    if found and found[1]:
        place = TextPlace(int(found[1]), int(found[2]))
    else:
        long_number = _LONG_NUMBER.search(text)
        place = TomlPositions(text).place_of(long_number.start() if long_number and not found else len(text))
    return Problem(place, f"this is not valid TOML: {what}" + (f"; {hint}." if hint else "."))


def _depth(table: dict[str, Any]) -> int:
    """Measure without recursion, so that depth itself cannot hurt."""
    deepest = 0
    todo: list[tuple[int, dict[str, Any] | list[Any]]] = [(1, table)]
    while todo:
        depth, value = todo.pop()
        deepest = max(deepest, depth)
        inner = value.values() if isinstance(value, dict) else value
        todo += [(depth + 1, one) for one in inner if isinstance(one, dict | list)]
    return deepest
