"""The owner of a file's definitions: its name, or its machine and path; and which of its contents are past."""

from collections.abc import Collection, Iterable
from hashlib import sha256
from typing import NamedTuple

NAMED = "name:"
MACHINE_SHOWN = 8


class FileId(NamedTuple):
    """A file that wants something, and where it lies."""

    path: str
    name: str = ""  # [fencepost] name
    machine: str = ""  # empty where it changes with each start, as in a container: there the path says it all
    host: str = ""

    @property
    def named(self) -> str:
        """The owner of this name."""
        return f"{NAMED}{self.name}" if self.name else ""

    @property
    def apart(self) -> str:
        """The owner for this machine alone, where another machine has a file of the same path."""
        return f"{self.host}-{self.machine[:MACHINE_SHOWN]}:{self.path}" if self.machine else self.path

    @property
    def candidates(self) -> tuple[str, ...]:
        """Every owner that it may belong to, as far as the file itself tells."""
        return tuple(dict.fromkeys(one for one in (self.named, self.path, self.apart) if one))


class Member(NamedTuple):
    """A file on a machine that applies an owner's definitions."""

    machine: str
    path: str
    owner: str


class Owners(NamedTuple):
    """What the registry knows of a file and of the owners that it may belong to."""

    members: Collection[Member]
    in_use: Collection[str]  # those that define something now


class Owner(NamedTuple):
    """The owner of a file."""

    source: str
    renamed: str = ""  # the owner that was called so until now
    is_new: bool = False  # the registry has not seen this file with this owner


class Replaced(NamedTuple):
    """A content that a file had once, and that a later one has replaced."""

    applied_us: int
    applied_by: str


def owner_of(file: FileId, owners: Owners) -> Owner:
    """Return the owner of a file; the first name of an owner without one is given to all that it owns."""
    own = _own(file, owners)
    unnamed = own or _by_path(file, owners)
    if not file.named:
        return Owner(unnamed, is_new=not own and unnamed not in owners.in_use)
    taken = file.named in owners.in_use or any(one.owner == file.named for one in owners.members)
    if not taken and not unnamed.startswith(NAMED) and unnamed in owners.in_use:
        return Owner(file.named, renamed=unnamed)
    return Owner(file.named, is_new=own != file.named)


def _own(file: FileId, owners: Owners) -> str:
    """Return whose definitions this very file has applied before."""
    found = (one.owner for one in owners.members if (one.machine, one.path) == (file.machine, file.path))
    own = next(found, "")
    if not file.machine and own.startswith(NAMED) and own != file.named:
        return ""  # of another container, perhaps, whose file has the same path
    return own


def _by_path(file: FileId, owners: Owners) -> str:
    """Return the owner of a path; two machines with different files of one path must not retire each other's."""
    machines = {one.machine for one in owners.members if one.owner == file.path}
    return file.apart if machines - {file.machine, ""} else file.path


def digest_of(things: Iterable[tuple[str, str, str]]) -> str:
    """Return the digest of a content: what is defined (kind, name, hash or text), in any order."""
    return sha256("\n".join(sorted(" ".join(one) for one in things)).encode()).hexdigest()
