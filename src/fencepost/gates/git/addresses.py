"""Tells whether two addresses lead to one repository: git has many spellings for each."""

import os
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

PORTS = {"ssh": "22", "git": "9418", "http": "80", "https": "443"}
SCHEMES = {"git+ssh": "ssh", "ssh+git": "ssh"}
# Where git looks for a repository that is named by its path, in its own order.
SUFFIXES = ("/.git", "", ".git/.git", ".git")


class Likeness(Enum):
    """How sure it is that two addresses lead to one repository."""

    SAME = "same"
    ALIKE = "alike"  # one host and one path by two ways, such as ssh and https: whether the marks are there decides
    OTHER = "other"


class Address(NamedTuple):
    """A repository somewhere: on this machine it is a path, elsewhere a host and a path of it."""

    scheme: str
    user: str
    host: str
    port: str
    path: str


def likeness(one: str, other: str, *, folder: str = ".") -> Likeness:
    """Compare two addresses; relative paths start at the folder."""
    ours, theirs = read_address(one, folder), read_address(other, folder)
    if ours == theirs or (_is_here(ours) and _is_here(theirs) and _are_one(ours.path, theirs.path)):
        return Likeness.SAME
    if _is_here(ours) or _is_here(theirs):
        return Likeness.OTHER
    apart = ours.scheme == theirs.scheme and ours.port != theirs.port
    alike = ours.host == theirs.host and ours.path.casefold() == theirs.path.casefold() and not apart
    return Likeness.ALIKE if alike else Likeness.OTHER


def read_address(text: str, folder: str = ".") -> Address:
    """Take an address apart, as git does; in a URL any letter may be spelled %XX."""
    scheme, slashes, rest = text.partition("://")
    if slashes and scheme != "file":
        return _of_url(SCHEMES.get(scheme.lower(), scheme.lower()), rest)
    if slashes:
        return Address("", "", "", "", os.fsdecode(unquote_to_bytes("/" + rest.partition("/")[2])))
    login, colon, path = text.partition(":")
    if colon and "/" not in login:
        user, _, host = login.rpartition("@")
        return Address("ssh", user, host.strip("[]").lower(), PORTS["ssh"], _bare(path))
    return Address("", "", "", "", os.path.normpath(os.path.join(os.path.abspath(folder), os.path.expanduser(text))))


def rewritten(address: str, rules: Iterable[tuple[str, str]]) -> str:
    """Return where git pushes to for an address, by the rules `url.BASE.pushInsteadOf` and `url.BASE.insteadOf`."""
    for ending in (".pushinsteadof", ".insteadof"):
        found = ("", "")
        for key, prefix in rules:
            if key.endswith(ending) and address.startswith(prefix) and len(prefix) > len(found[0]):
                found = (prefix, key[len("url.") : -len(ending)])
        if found[0]:
            return found[1] + address[len(found[0]) :]
    return address


def without_password(text: str) -> str:
    """Return an address that may be written down."""
    scheme, slashes, rest = text.partition("://")
    login, at, place = rest.partition("/")[0].rpartition("@")
    if not slashes or not at or ":" not in login:
        return text
    return f"{scheme}://{login.partition(':')[0]}@{place}{rest[len(login) + len(at) + len(place) :]}"


def _of_url(scheme: str, rest: str) -> Address:
    place, _, path = rest.partition("/")
    login, _, host = place.rpartition("@")
    name, colon, port = host.rpartition(":")
    if not colon or port.endswith("]"):
        name, port = host, ""
    user, name, path = (os.fsdecode(unquote_to_bytes(part)) for part in (login.partition(":")[0], name, path))
    return Address(scheme, user, name.strip("[]").lower(), port or PORTS.get(scheme, ""), _bare(path))


def _bare(path: str) -> str:
    return path.strip("/").removesuffix(".git").rstrip("/")


def _is_here(address: Address) -> bool:
    return not address.scheme


def _are_one(one: str, other: str) -> bool:
    """Tell whether two paths lead to one directory, through links and other names."""
    found = [_repository(path) for path in (one, other)]
    try:
        return bool(found[0] and found[1]) and os.path.samefile(found[0], found[1])
    except OSError:
        return False


def _repository(path: str) -> str:
    """Return the git directory that git would take for this path, or nothing."""
    for suffix in SUFFIXES:
        if os.path.isdir(os.path.join(path + suffix, "objects")):
            return path + suffix
    return ""
