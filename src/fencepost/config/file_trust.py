"""Refuses a configuration that other users of this machine can write: what it says is run as us."""

from __future__ import annotations

import os
import stat

from fencepost.model.errors import Invalid
from fencepost.model.fast_typing import TYPE_CHECKING
from fencepost.model.lease_check import quoted
from fencepost.model.trust import Account, FileRights, accepted_uids, distrust, is_private

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Iterable, Iterator, Mapping

WRITES = {"all": "may be changed by every user of this machine", "group": "may be changed by the group {group}"}
CLOSES = {"all": "o-w", "group": "g-w"}


def demand_own(path: str, folders: Iterable[str], environ: Mapping[str, str], *, otherwise: str) -> None:
    """Raise Invalid if a file, or one of the folders on the way to it, is in the reach of other users.

    `otherwise` says what a person can do who trusts it nevertheless.
    """
    accounts = tuple(map(_account, accepted_uids(os.geteuid(), environ.get("SUDO_UID", ""))))
    try:
        for place, standing in _standings(path, folders):
            if why := distrust(standing, accounts):
                raise Invalid(f"{_complaint(place, path, standing, why)} {otherwise}")
    except OSError as error:
        raise Invalid(f"{error.filename} cannot be looked at: {error.strerror}. {otherwise}") from None


def _standings(path: str, folders: Iterable[str]) -> Iterator[tuple[str, FileRights]]:
    yield path, _standing(os.stat(path))
    if os.path.islink(path):  # who made the link chose the file
        yield path, _standing(os.lstat(path))._replace(mode=0)
        real = os.path.dirname(os.path.realpath(path))
        yield real, _standing(os.stat(real))
    for folder in folders:
        yield folder, _standing(os.stat(folder))


def _standing(found: os.stat_result) -> FileRights:
    return FileRights(found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode), stat.S_ISDIR(found.st_mode))


def _complaint(place: str, path: str, standing: FileRights, why: str) -> str:
    what = f"the folder {place}, on the way to {path}," if standing.is_folder else place
    result = (
        f"and what {path} says would be run as you" if standing.is_folder else "and what it says would be run as you"
    )
    if why == "owner":
        return f"{what} belongs to {_user(standing.owner)}, {result}."
    may = WRITES[why].format(group=_group(standing.group))
    return f"{what} {may}, {result}; forbid that with: chmod {CLOSES[why]} {quoted(place)}."


def refuse_open_to_all(mode: int, path: str) -> None:
    """Raise Invalid for a file that every user may write, even if it was named on purpose."""
    if stat.S_ISREG(mode) and mode & stat.S_IWOTH:
        raise Invalid(
            f"{path} {WRITES['all']}, and what it says is run as you; forbid that with: chmod o-w {quoted(path)}"
        )


def is_private_group(group: int) -> bool:
    """Tell whether only root and this user can write by a group."""
    return is_private(group, [_account(os.geteuid())])


def _account(uid: int) -> Account:
    import grp
    import pwd

    try:
        known = pwd.getpwuid(uid)
        name, group = known.pw_name, known.pw_gid
    except KeyError:
        name, group = "", uid  # a container knows the number alone; there, a group of that number is its own
    try:
        listed = grp.getgrgid(group)
    except KeyError:
        return Account(uid, name, group, "")
    return Account(uid, name, group, listed.gr_name, tuple(listed.gr_mem))


def _user(uid: int) -> str:
    import pwd

    try:
        return f"another user, {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"another user, number {uid}"


def _group(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return f"number {gid}"
