"""The named statements of both dialects, with the names of tables put in."""

import os
import re
from collections.abc import Mapping
from functools import lru_cache

from fencepost.model.errors import Invalid

NAME = re.compile(r"[a-z_][a-z0-9_]{0,50}(\.[a-z_][a-z0-9_]{0,50})?", re.ASCII)
MARK = "-- :name "
DEFAULT_TABLE = "fencepost_fence"


class MarkStatements(dict[str, str]):
    """The statements of one dialect for one table of marks."""

    def __init__(self, dialect: str, table: str = DEFAULT_TABLE) -> None:
        self.dialect = dialect
        self.table = checked(table)
        super().__init__(read(f"{dialect}.sql", marks_words(self.table)))


@lru_cache(maxsize=32)
def statements(dialect: str, table: str) -> MarkStatements:
    """Return the statements of a dialect for a table of marks."""
    return MarkStatements(dialect, table)


def marks_words(table: str) -> dict[str, str]:
    """Return what stands for the tables of a gate in its statements."""
    return {"{table}": quote(table), "{pass}": quote(table + "_pass")}


def read(name: str, words: Mapping[str, str]) -> dict[str, str]:
    """Read the statements of a file, and put checked and quoted words in; comments are left out."""
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        parts = [part.partition("\n") for part in file.read().split(MARK)[1:]]
    return {name.strip(): _filled(text, words) for name, _, text in parts}


def _filled(text: str, words: Mapping[str, str]) -> str:
    lines = [line for line in text.splitlines() if not line.startswith("--")]
    filled = "\n".join(lines).strip().rstrip(";")
    for word, value in words.items():
        filled = filled.replace(word, value)
    return filled


def checked(name: str) -> str:
    """Return a name of a table, with or without its schema; everything else is refused rather than escaped."""
    if not NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} is no name for a table here; write it in lower case, as table or schema.table, "
            "with letters, digits and underscores."
        )
    return name


def quote(name: str) -> str:
    """Quote a checked name."""
    return ".".join(f'"{part}"' for part in name.split("."))


def text(value: str) -> str:
    """Quote a text for a place where no parameter can stand; only what a resource may hold gets here."""
    return "'" + value.replace("'", "''") + "'"
