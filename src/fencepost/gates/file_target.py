"""Where a file gate stands: the one spelling of its target, and what may be below it."""

import os

from fencepost.model.errors import Invalid
from fencepost.model.fast_typing import NamedTuple

FOLDER = ".fencepost"  # beside the target, where a gate keeps its marks
DELETE = 0x7F


class Place(NamedTuple):
    """A real directory, and the file in it or no name for all of the directory."""

    directory: str
    name: str
    kind: str = "file"

    @property
    def target(self) -> str:
        """The one spelling of it; a directory's ends in a slash."""
        return f"{self.kind}:" + os.path.join(self.directory, self.name)

    @property
    def folder(self) -> str:
        """The path of the folder of marks."""
        return os.path.join(self.directory, FOLDER)


def place_of(path: str) -> Place:
    """Resolve the symlinks above a target, once; below a gated directory none is ever followed."""
    if not path or "\0" in path:
        raise Invalid(f"{path!r} is no path; write file:PATH, for example file:out/report.json.")
    parent, name = os.path.split(path)
    if name in ("", ".", "..") or os.path.isdir(path):
        return _allowed(Place(_real(path), ""))
    return _allowed(Place(_real(parent or "."), name))


def named_place(path: str, *, kind: str) -> Place:
    """Return the place of a name itself, whatever it is a symlink to."""
    parent, name = os.path.split(path.rstrip("/"))
    if not name or name in (".", "..") or "\0" in path:
        raise Invalid(f"{path!r} names no directory to publish to; write {kind}:PATH, for example {kind}:www/site.")
    return _allowed(Place(_real(parent or "."), name, kind))


def beneath_of(place: Place, beneath: str) -> Place:
    """Return the file that is to be written: the gate's own, or one below its directory."""
    if place.name and beneath:
        raise Invalid(f"{place.target} is one file; nothing is below it.")
    if place.name:
        return place
    parts = [part for part in beneath.split("/") if part not in ("", ".")]
    if not parts:
        raise Invalid(f"{place.target} is a directory; name a file below it.")
    if beneath.startswith("/") or beneath.endswith("/") or ".." in parts:
        raise Invalid(
            f"{beneath!r} does not name a file below {place.directory}; write it from there on, without any .."
        )
    return _allowed(Place(os.path.join(place.directory, *parts[:-1]), parts[-1]))


def _real(path: str) -> str:
    # POSIX leaves the meaning of exactly two slashes at the start open, and realpath keeps them.
    return "/" + os.path.realpath(path).lstrip("/")


def _allowed(place: Place) -> Place:
    if any(_is_unspeakable(character) for character in place.target):
        raise Invalid(f"{place.target!r} has a control character or a byte that is no UTF-8 in its name; rename it.")
    # In any case: some file systems do not tell .Fencepost from .fencepost.
    if FOLDER in place.target.casefold().split("/"):
        raise Invalid(f"{place.target} is where a gate keeps its marks; nothing else may be written there.")
    return place


def _is_unspeakable(character: str) -> bool:
    return character < " " or ord(character) == DELETE or "\ud800" <= character <= "\udfff"
