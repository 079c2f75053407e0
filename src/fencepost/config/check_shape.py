"""Checks the shape of a file: known sections, known keys, values of the right kind. Collects, and goes on."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fencepost.config.problems import Problem
from fencepost.config.read import Document
from fencepost.config.sections import BY_NAME, ConfigKey, Section
from fencepost.config.value_kinds import check_name, did_you_mean, said
from fencepost.model.errors import Invalid
from fencepost.model.instants import shown

Path = tuple[str | int, ...]
HOMES_MAX = 2  # a key that stands in many sections is no hint


@dataclass(slots=True)
class NamedSection:
    """One section with its name, as far as it could be read."""

    path: Path
    values: dict[str, Any]  # what was written and is right
    bad: set[str] = field(default_factory=set)  # what was written and is wrong

    @property
    def name(self) -> str:
        """The entry's own name."""
        return str(self.path[-1])

    def says(self, *names: str) -> list[str]:
        """Return which of these keys were written, rightly or not."""
        return [name for name in names if name in self.values or name in self.bad]


class Checker:
    """Reads sections and remembers everything that is wrong."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._keys: dict[str, dict[str, ConfigKey]] = {name: section.by_name for name, section in BY_NAME.items()}
        self._required = {name: [key for key in one.keys if key.required] for name, one in BY_NAME.items()}
        self.problems: list[Problem] = []

    def complain(self, message: str, *path: str | int) -> None:
        """Remember a problem with what stands at a path."""
        where = ".".join(str(part) for part in path)
        self.problems.append(Problem(self._document.place(*path), f"{where}: {message}" if where else message))

    def content(self, name: str, limit: int) -> str:
        """Read a file that is named here: beside the configuration, or sent with it; the disk is nothing to a text."""
        sent = self._document.files
        if sent is not None:
            if name not in sent:
                raise FileNotFoundError(f"it was not sent; send its text in `files` under {shown(name)}")
            return sent[name][:limit]
        folder = os.path.dirname(os.path.abspath(self._document.path))
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return file.read(limit)

    def is_text(self, *path: str | int) -> bool:
        """Tell whether a value was written as one text."""
        value: object = self._document.table
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        return isinstance(value, str)

    def check_sections(self) -> None:
        """Refuse unknown sections."""
        for name, value in self._document.table.items():
            if name not in BY_NAME:
                hint = did_you_mean(name, BY_NAME) or f" There are {', '.join(BY_NAME)}."
                self.complain(f"there is no section {shown(name)}.{hint}", name)
            elif not isinstance(value, dict):
                self.complain(f"expected a section, [{name}], not {said(value)}.", name)

    def single(self, section: Section) -> NamedSection:
        """Read a section of which there is one."""
        table = self._document.table.get(section.name)
        return self._entry(section, table if isinstance(table, dict) else {}, (section.name,))

    def named(self, section: Section) -> Iterator[NamedSection]:
        """Read the sections of a kind, each with its name."""
        table = self._document.table.get(section.name)
        for name, values in table.items() if isinstance(table, dict) else ():
            path = (section.name, name)
            if not isinstance(values, dict):
                hint = did_you_mean(name, self._keys[section.name])
                self.complain(f"expected a section, [{section.name}.NAME], not {said(values)}.{hint}", *path)
                continue
            try:
                check_name(name)
            except Invalid as error:
                self.complain(str(error), *path)
            yield self._entry(section, values, path)

    def _entry(self, section: Section, table: dict[str, Any], path: Path) -> NamedSection:
        entry = NamedSection(path, {})
        keys = self._keys[section.name]
        for name, value in table.items():
            key = keys.get(name)
            if key is None:
                self._unknown(section, name, path)
            else:
                self._read(entry, key, value)
        for key in self._required[section.name]:
            if not entry.says(key.name):
                self.complain(f"{key.name} is missing. {key.meaning}", *path)
                entry.bad.add(key.name)
        return entry

    def _read(self, entry: NamedSection, key: ConfigKey, value: object) -> None:
        try:
            entry.values[key.name] = key.kind.read(value)
        except Invalid as error:
            entry.bad.add(key.name)
            self.complain(str(error), *entry.path, key.name)

    def _unknown(self, section: Section, name: str, path: Path) -> None:
        hint = self._elsewhere(name) or did_you_mean(name, self._keys[section.name])
        if not hint:
            hint = f" There are {', '.join(self._keys[section.name])}."
        self.complain(f"there is no such key.{hint}", *path, name)

    def _elsewhere(self, name: str) -> str:
        """Say where a key belongs that is right in its spelling and only in the wrong place."""
        homes = [section for section in self._keys if name in self._keys[section]]
        places = " or ".join("[fencepost]" if home == "fencepost" else f"[{home}.NAME]" for home in homes[:HOMES_MAX])
        return f" It belongs in {places}." if homes else ""
