"""Loads named statements from .sql files: `-- :name NAME` starts one, the next name or the file's end closes it.

What both dialects say alike stands once, in `sql/` beside this module, and is spelled for each of them when it is loaded. What
they say differently stands in `sql/` of each dialect. `{run_fact}` and its like stand for the columns of a run, see `run_columns`.
"""

import os
from _thread import allocate_lock

from fencepost.model.fast_typing import Callable

MARK = "-- :name "
APART = "\n;;\n"  # is in no statement
ALIKE = os.path.join(os.path.dirname(__file__), "sql")
FIRST = ("lease.sql", "meta.sql", "waiter.sql")  # all that `exec` and `lease` ever need


class Statements(dict[str, str]):
    """The named statements of a dialect. A file is read when a name is asked for that the files before it do not have."""

    def __init__(self, folder: str, spelled: Callable[[str], str]) -> None:
        super().__init__()
        self._spelled = spelled
        self._folders = (folder, ALIKE)
        self._unread = [
            path for name in FIRST for within in self._folders if os.path.exists(path := f"{within}/{name}")
        ]
        self._unfilled: dict[str, str] = {}  # texts that still say `{...}`
        self._listed = False  # the other files
        self._reading = allocate_lock()  # a worker asks from several threads, and one may be in the middle of a file

    def __missing__(self, name: str) -> str:
        with self._reading:
            while name not in self and name not in self._unfilled and self._has_more():
                self._read(self._unread.pop(0))
            if name in self._unfilled:
                self._fill(name)
        if name in self:
            return self[name]
        raise KeyError(name)

    def complete(self) -> "Statements":
        """Read all of them."""
        with self._reading:
            while self._has_more():
                self._read(self._unread.pop(0))
            for name in [*self._unfilled]:
                self._fill(name)
        return self

    def _has_more(self) -> bool:
        if not self._unread and not self._listed:
            found = (path for folder in self._folders for path in _files(folder))
            self._unread = [path for path in found if os.path.basename(path) not in FIRST]
            self._listed = True
        return bool(self._unread)

    def _read(self, path: str) -> None:
        found = parse(read(path))
        if os.path.dirname(path) == ALIKE:
            spelled = self._spelled(APART.join(text for _, text in found)).split(APART)  # all at once is quicker
            found = [(name, text) for (name, _), text in zip(found, spelled, strict=True)]
        for name, text in found:
            known = name in self or name in self._unfilled
            assert not known, f"two statements are called {name}"
            (self._unfilled if "{" in text else self)[name] = text

    def _fill(self, name: str) -> None:
        """Put the columns of a run where a statement names them."""
        from fencepost.stores.run_columns import COLUMNS  # late: `exec` and `lease` know nothing of runs

        text = self._unfilled.pop(name)
        for word, columns in COLUMNS.items():
            text = text.replace(f"{{{word}}}", self._spelled(columns))
        self[name] = text


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
    return [(_number(path), read(path)) for path in _files(_migration_folder(package_file))]


def newest_migration(package_file: str) -> int:
    """Return the number of the newest one, without reading any."""
    return _number(max(os.listdir(_migration_folder(package_file))))


def _migration_folder(package_file: str) -> str:
    return os.path.join(os.path.dirname(package_file), "migrations")


def _files(folder: str) -> list[str]:
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".sql")]


def _number(path: str) -> int:
    return int(os.path.basename(path).partition("_")[0])


def read(path: str) -> str:
    """Return a text file's content."""
    with open(path, encoding="utf-8") as file:
        return file.read()
