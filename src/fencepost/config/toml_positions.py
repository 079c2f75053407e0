"""Finds where each key of a TOML text stands; the parser of the standard library does not tell.

The text has been parsed before, so this only follows its structure. Should it lose its way all the same, it stops
there, and what comes after is reported at the nearest place that it knows.
"""

import re
import sys
from bisect import bisect_right
from contextlib import suppress

from fencepost.config.problems import TextPlace

Path = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL = re.compile(r"'[^'\n]*'")
_LONG_BASIC = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}(?!")', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''.*?'{3,5}(?!')", re.DOTALL)
_SCALAR = re.compile(r"[^,\]}#\n]*")
_ESCAPE = re.compile(r'\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(["\\bfnrte/]))')
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "e": "\x1b", '"': '"', "\\": "\\", "/": "/"}


class UnreadableToml(Exception):
    """The text is not what it should be here."""


class TomlPositions:
    """The places of all keys of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.offsets: dict[Path, int] = {}
        self._arrays: dict[Path, int] = {}
        with suppress(UnreadableToml, RecursionError):
            self._document()

    def place(self, *path: str | int) -> TextPlace:
        """Return where a key stands, or the nearest one above it."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.offsets:
                return self.place_of(self.offsets[path[:end]])
        return TextPlace(1, 1)

    def place_of(self, offset: int) -> TextPlace:
        """Return line and column of an offset into the text."""
        line = bisect_right(self._starts, offset)
        return TextPlace(line, offset - self._starts[line - 1] + 1)

    def _document(self) -> None:
        table: Path = ()
        at = self._skip(_BLANK, 0)
        while at < len(self._text):
            if self._text[at] == "[":
                table, at = self._header(at)
            else:
                at = self._pair(table, at)
            at = self._skip(_BLANK, at)

    def _header(self, at: int) -> tuple[Path, int]:
        """Read `[a.b]` or `[[a.b]]` and return the path that the keys below it belong to."""
        is_array = self._text.startswith("[[", at)
        start = self._skip(_SPACE, at + 1 + is_array)
        words, end = self._key(start)
        path: Path = ()
        for word in words[:-1]:
            path = self._entered((*path, word))
            self.offsets.setdefault(path, at)
        path = (*path, words[-1])
        if is_array:
            self.offsets.setdefault(path, at)
            self._arrays[path] = self._arrays.get(path, -1) + 1
        path = self._entered(path)
        self.offsets[path] = at
        closing = "]]" if is_array else "]"
        if not self._text.startswith(closing, end):
            raise UnreadableToml
        return path, end + len(closing)

    def _entered(self, path: Path) -> Path:
        """Return the newest element, if the path leads to an array of tables."""
        return (*path, self._arrays[path]) if path in self._arrays else path

    def _pair(self, table: Path, at: int) -> int:
        words, end = self._key(at)
        path = table
        for word in words:
            path = (*path, word)
            self.offsets.setdefault(path, at)
        if not self._text.startswith("=", end):
            raise UnreadableToml
        return self._value(path, self._skip(_SPACE, end + 1))

    def _key(self, at: int) -> tuple[list[str], int]:
        """Read a dotted key; return its words and where it ends."""
        words = []
        while True:
            word, at = self._word(at)
            words.append(word)
            at = self._skip(_SPACE, at)
            if not self._text.startswith(".", at):
                return words, at
            at = self._skip(_SPACE, at + 1)

    def _word(self, at: int) -> tuple[str, int]:
        for pattern in (_BARE, _BASIC, _LITERAL):
            match = pattern.match(self._text, at)
            if match:
                found = match[0]
                if pattern is _BASIC:
                    return _ESCAPE.sub(_unescaped, found[1:-1]), match.end()
                return (found[1:-1] if pattern is _LITERAL else found), match.end()
        raise UnreadableToml

    def _value(self, path: Path, at: int) -> int:
        """Walk over a value, noting the places of what is inside; return where it ends."""
        for opening, pattern in (('"""', _LONG_BASIC), ("'''", _LONG_LITERAL), ('"', _BASIC), ("'", _LITERAL)):
            if self._text.startswith(opening, at):
                return self._end(pattern, at)
        if self._text.startswith("[", at):
            return self._array(path, at + 1)
        if self._text.startswith("{", at):
            return self._inline_table(path, at + 1)
        return self._end(_SCALAR, at)

    def _array(self, path: Path, at: int) -> int:
        index = 0
        while True:
            at = self._skip(_BLANK, at)
            if self._text.startswith("]", at):
                return at + 1
            self.offsets.setdefault((*path, index), at)
            at = self._skip(_BLANK, self._value((*path, index), at))
            index += 1
            if self._text.startswith(",", at):
                at += 1
            elif not self._text.startswith("]", at):
                raise UnreadableToml

    def _inline_table(self, path: Path, at: int) -> int:
        while True:
            at = self._skip(_BLANK, at)
            if self._text.startswith("}", at):
                return at + 1
            at = self._skip(_BLANK, self._pair(path, at))
            if self._text.startswith(",", at):
                at += 1
            elif not self._text.startswith("}", at):
                raise UnreadableToml

    def _skip(self, pattern: re.Pattern[str], at: int) -> int:
        match = pattern.match(self._text, at)
        assert match is not None, "a pattern of blanks matches the empty text too"
        return match.end()

    def _end(self, pattern: re.Pattern[str], at: int) -> int:
        match = pattern.match(self._text, at)
        if not match:
            raise UnreadableToml
        return match.end()


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if not code:
        return _ESCAPED[match[3]]
    return chr(int(code, 16)) if int(code, 16) <= sys.maxunicode else "\ufffd"
