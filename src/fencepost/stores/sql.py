"""Loads named statements from .sql files: `-- :name NAME` starts one, the next name or the file's end closes it."""

import os

MARK = "-- :name "


def load(package_file: str) -> dict[str, str]:
    """Return every named statement in the `sql` folder beside a module."""
    folder = os.path.join(os.path.dirname(package_file), "sql")
    statements: dict[str, str] = {}
    for entry in sorted(os.listdir(folder)):
        if entry.endswith(".sql"):
            for name, text in parse(read(os.path.join(folder, entry))):
                assert name not in statements, f"two statements are called {name}"
                statements[name] = text
    return statements


def parse(text: str) -> list[tuple[str, str]]:
    """Split a file into its named statements."""
    blocks = ("\n" + text).split("\n" + MARK)[1:]
    pairs = (block.partition("\n") for block in blocks)
    return [(name.strip(), body.strip()) for name, _, body in pairs]


def migrations(package_file: str) -> list[tuple[int, str]]:
    """Return the numbered migrations beside a module, oldest first."""
    folder = os.path.join(os.path.dirname(package_file), "migrations")
    names = sorted(entry for entry in os.listdir(folder) if entry.endswith(".sql"))
    return [(int(name.partition("_")[0]), read(os.path.join(folder, name))) for name in names]


def read(path: str) -> str:
    """Return a text file's content."""
    with open(path, encoding="utf-8") as file:
        return file.read()
