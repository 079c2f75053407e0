"""Loads named statements from .sql files: `-- :name NAME` starts one, the next name or the file's end closes it.

What both dialects say alike stands once, in `sql/` beside this module, and is spelled for each of them when it is loaded. What
they say differently stands in `sql/` of each dialect.
"""

import os
from _thread import allocate_lock

from fencepost.model.light import Callable

MARK = "-- :name "
ALIKE = os.path.join(os.path.dirname(__file__), "sql")
FIRST = ("lease.sql", "meta.sql", "waiter.sql")  # all that `exec` and `lease` ever need


class Statements(dict[str, str]):
    """The named statements of a dialect. A file is read when a name is asked for that the files before it do not have."""

    def __init__(self, folder: str, spelled: Callable[[str], str]) -> None:
        super().__init__()
        self._spelled = spelled
        unread = [*_files(folder), *_files(ALIKE)]
        self._unread = sorted(unread, key=lambda path: os.path.basename(path) not in FIRST)
        self._reading = allocate_lock()  # a worker asks from several threads, and one may be in the middle of a file

    def __missing__(self, name: str) -> str:
        with self._reading:
            while name not in self and self._unread:
                self._read(self._unread.pop(0))
        if name in self:
            return self[name]
        raise KeyError(name)

    def complete(self) -> "Statements":
        """Read all of them."""
        with self._reading:
            while self._unread:
                self._read(self._unread.pop(0))
        return self

    def _read(self, path: str) -> None:
        alike = os.path.dirname(path) == ALIKE
        for name, text in parse(read(path)):
            assert name not in self, f"two statements are called {name}"
            self[name] = self._spelled(text) if alike else text


def load(package_file: str, spelled: Callable[[str], str]) -> Statements:
    """Return the named statements of the dialect beside a module; `spelled` is how it writes what both say alike."""
    return Statements(os.path.join(os.path.dirname(package_file), "sql"), spelled)


def parse(text: str) -> list[tuple[str, str]]:
    """Split a file into its named statements."""
    blocks = ("\n" + text).split("\n" + MARK)[1:]
    pairs = (block.partition("\n") for block in blocks)
    return [(name.strip(), body.strip()) for name, _, body in pairs]


def migrations(package_file: str) -> list[tuple[int, str]]:
    """Return the numbered migrations beside a module, oldest first."""
    return [(_number(path), read(path)) for path in _migration_files(package_file)]


def newest_migration(package_file: str) -> int:
    """Return the number of the newest one, without reading any."""
    return _number(_migration_files(package_file)[-1])


def _migration_files(package_file: str) -> list[str]:
    return _files(os.path.join(os.path.dirname(package_file), "migrations"))


def _files(folder: str) -> list[str]:
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".sql")]


def _number(path: str) -> int:
    return int(os.path.basename(path).partition("_")[0])


def read(path: str) -> str:
    """Return a text file's content."""
    with open(path, encoding="utf-8") as file:
        return file.read()
