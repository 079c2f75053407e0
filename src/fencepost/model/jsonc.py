"""Changes a JSON text in place: what is not touched keeps its spelling, its order, its blanks and its comments.

Settings files belong to people. Reading one and writing it anew would lose their comments and move their lines, so an
edit here is a few characters put in or taken out. Comments and trailing commas are understood, as some programs do.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

DEPTH_MAX = 200
BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
COMMENT = re.compile(r"//[^\n]*\n?|/\*.*?\*/", re.DOTALL)
STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
WORD = re.compile(r"[-+.\w]+")


class NotThisShape(ValueError):
    """Something else stands where an object or a list was looked for."""


class Node(NamedTuple):
    """A value, and where in the text it stands."""

    start: int
    end: int
    value: Any
    keys: tuple[str, ...] = ()
    parts: tuple[Node, ...] = ()  # of an object or a list
    key_starts: tuple[int, ...] = ()

    def begins(self, place: int) -> int:
        """Where a part begins, with its key if it has one."""
        return self.key_starts[place] if self.key_starts else self.parts[place].start

    def part(self, key: str) -> Node | None:
        """Return a member of an object."""
        return self.parts[self.keys.index(key)] if key in self.keys else None


def parse(text: str) -> Node:
    """Read a text, or raise ValueError with the line that cannot be read."""
    try:
        node, end = _value(text, _skip(text, 0), 0)
        _expect_end(text, end)
    except _Stop as stop:
        line = text.count("\n", 0, stop.place) + 1
        raise ValueError(f"line {line}: {stop.why}") from None
    return node


def append(text: str, path: tuple[str, ...], value: object) -> str:
    """Add a value to the list at a path of keys; lists and objects that are missing are made."""
    node = parse(text)
    for place, key in enumerate(path):
        if not isinstance(node.value, dict):
            raise NotThisShape(f"{'.'.join(path[:place]) or 'the whole'} is no object")
        found = node.part(key)
        if found is None:
            for missing in reversed(path[place + 1 :]):
                value = {missing: [value]} if missing == path[-1] else {missing: value}
            return _insert(text, node, [value] if place == len(path) - 1 else value, key)
        node = found
    if not isinstance(node.value, list):
        raise NotThisShape(f"{'.'.join(path)} is no list")
    return _insert(text, node, value)


def remove(text: str, path: tuple[str | int, ...]) -> str:
    """Take out what stands at a path of keys and places; comments around it stay."""
    node = parse(text)
    for step in path[:-1]:
        node = node.parts[node.keys.index(step) if isinstance(step, str) else step]
    last = path[-1]
    place = node.keys.index(last) if isinstance(last, str) else last
    start, end = node.begins(place), node.parts[place].end
    if len(node.parts) == 1:
        inner = text[node.start + 1 : start] + _without_comma(text[end : node.end - 1])
        return text[: node.start + 1] + (inner if inner.strip() else "") + text[node.end - 1 :]
    if place == 0:
        return text[:start] + _without_comma(text[end : node.begins(1)], blanks=True) + text[node.begins(1) :]
    before = node.parts[place - 1].end
    return text[:before] + _without_comma(text[before:start], blanks=True) + text[end:]


def _insert(text: str, into: Node, value: object, key: str | None = None) -> str:
    unit, indent = _unit(text), _indent(text, into)
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    if not into.parts:
        inner = text[into.start + 1 : into.end - 1]
        tail = inner if inner.strip() else f"\n{indent}"
        added = f"\n{indent}{unit}{name}" + f"\n{indent}{unit}".join(lines) + tail
        return text[: into.start + 1] + added + text[into.end - 1 :]
    after = into.parts[-1].end
    own_line = "\n" in text[into.start : into.begins(0)]
    gap = f"\n{indent}{unit}" if own_line else " "
    body = f"\n{indent}{unit}".join(lines) if own_line else json.dumps(value, ensure_ascii=False)
    return f"{text[:after]},{gap}{name}{body}{text[after:]}"  # a trailing comma ends up behind the last again


def _without_comma(gap: str, *, blanks: bool = False) -> str:
    """Take the first comma out of what stands between two parts; only comments are worth keeping the rest for."""
    comments = COMMENT.findall(gap)
    if not comments:
        return "" if blanks else gap.replace(",", "", 1)
    bare = COMMENT.sub(lambda found: "\0" * len(found[0]), gap)
    place = bare.find(",")
    return gap if place < 0 else gap[:place] + gap[place + 1 :]


def _unit(text: str) -> str:
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _indent(text: str, node: Node) -> str:
    line = text[text.rfind("\n", 0, node.start) + 1 : node.start]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _expect_end(text: str, place: int) -> None:
    place = _skip(text, place)
    if place != len(text):
        raise _Stop(place, "something stands behind the end")


class _Stop(Exception):
    def __init__(self, place: int, why: str) -> None:
        super().__init__(why)
        self.place, self.why = place, why


def _skip(text: str, place: int) -> int:
    found = BLANK.match(text, place)
    return found.end() if found else place


def _value(text: str, place: int, depth: int) -> tuple[Node, int]:
    if depth > DEPTH_MAX:
        raise _Stop(place, "it is nested too deep")
    opening = text[place : place + 1]
    if opening == "{":
        return _object(text, place, depth)
    if opening == "[":
        return _list(text, place, depth)
    found = STRING.match(text, place) or WORD.match(text, place)
    if found is None:
        raise _Stop(place, "a value is missing" if not opening else f"{opening!r} begins no value")
    try:
        return Node(place, found.end(), json.loads(found[0], parse_constant=_refuse)), found.end()
    except ValueError:
        raise _Stop(place, f"{found[0][:40]} is no value") from None


def _refuse(word: str) -> None:
    raise ValueError(word)


def _object(text: str, start: int, depth: int) -> tuple[Node, int]:
    keys: list[str] = []
    key_starts: list[int] = []
    parts: list[Node] = []
    place = _skip(text, start + 1)
    while text[place : place + 1] != "}":
        key = STRING.match(text, place)
        if key is None:
            raise _Stop(place, "a key in quotes is missing")
        colon = _skip(text, key.end())
        if text[colon : colon + 1] != ":":
            raise _Stop(colon, "a colon is missing")
        name = _value(text, place, depth)[0].value
        if name in keys:
            raise _Stop(place, f"{name!r} stands there twice")
        node, end = _value(text, _skip(text, colon + 1), depth + 1)
        keys.append(name)
        key_starts.append(place)
        parts.append(node)
        place = _next(text, end, "}")
    value = dict(zip(keys, (part.value for part in parts), strict=True))
    return Node(start, place + 1, value, tuple(keys), tuple(parts), tuple(key_starts)), place + 1


def _list(text: str, start: int, depth: int) -> tuple[Node, int]:
    parts: list[Node] = []
    place = _skip(text, start + 1)
    while text[place : place + 1] != "]":
        node, end = _value(text, place, depth + 1)
        parts.append(node)
        place = _next(text, end, "]")
    return Node(start, place + 1, [part.value for part in parts], (), tuple(parts)), place + 1


def _next(text: str, end: int, closing: str) -> int:
    """Go on behind a comma, or stop before the closing bracket."""
    place = _skip(text, end)
    if text[place : place + 1] == ",":
        return _skip(text, place + 1)
    if text[place : place + 1] != closing:
        raise _Stop(place, f"a comma or {closing} is missing")
    return place
