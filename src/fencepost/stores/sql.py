"""Loads named statements from .sql files: `-- :name NAME` starts one, the next name or the file's end closes it."""

import os
from _thread import allocate_lock

MARK = "-- :name "


FIRST = ("lease.sql", "meta.sql", "waiter.sql")  # all that `exec` and `lease` ever need


class Statements(dict[str, str]):
    """The named statements of a folder, each file read when a name is asked for that was not in those before it."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        names = sorted(entry for entry in os.listdir(folder) if entry.endswith(".sql"))
        names.sort(key=lambda name: name not in FIRST)
        self._unread = [os.path.join(folder, name) for name in names]
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
        for name, text in parse(read(path)):
            assert name not in self, f"two statements are called {name}"
            self[name] = text


def load(package_file: str) -> Statements:
    """Return the named statements in the `sql` folder beside a module."""
    return Statements(os.path.join(os.path.dirname(package_file), "sql"))


def parse(text: str) -> list[tuple[str, str]]:
    """Split a file into its named statements."""
    blocks = ("\n" + text).split("\n" + MARK)[1:]
    pairs = (block.partition("\n") for block in blocks)
    return [(name.strip(), body.strip()) for name, _, body in pairs]


def migrations(package_file: str) -> list[tuple[int, str]]:
    """Return the numbered migrations beside a module, oldest first."""
    folder, names = _migration_files(package_file)
    return [(_number(name), read(os.path.join(folder, name))) for name in names]


def newest_migration(package_file: str) -> int:
    """Return the number of the newest one, without reading any."""
    return _number(_migration_files(package_file)[1][-1])


def _migration_files(package_file: str) -> tuple[str, list[str]]:
    folder = os.path.join(os.path.dirname(package_file), "migrations")
    return folder, sorted(entry for entry in os.listdir(folder) if entry.endswith(".sql"))


def _number(name: str) -> int:
    return int(name.partition("_")[0])


def read(path: str) -> str:
    """Return a text file's content."""
    with open(path, encoding="utf-8") as file:
        return file.read()
