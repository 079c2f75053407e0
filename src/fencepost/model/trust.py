"""Whose word is taken: a file whose content is run must be out of the reach of other users.

The order is git's `safe.directory` for owners. Git does not look at modes; we do, because a file that other users may
write is theirs as much as ours. What counts is who *can* write, not which bits are set: a umask of 002, the default of
Debian, Ubuntu and Fedora, lets the owner's private group write everything, and no other user is in that group.
"""

from __future__ import annotations

from fencepost.model.fast_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Collection

ROOT = 0
STICKY, GROUP_WRITES, ALL_WRITE = 0o1000, 0o020, 0o002


class FileRights(NamedTuple):
    """Who owns a file or a folder, and who may write there."""

    owner: int
    group: int
    mode: int
    is_folder: bool = False


class Account(NamedTuple):
    """A user whose word is taken, with the primary group and who else is listed as a member of it."""

    uid: int
    name: str  # nothing where the machine knows the number alone, as in a container
    group: int
    group_name: str
    members: tuple[str, ...] = ()


def distrust(found: FileRights, accounts: Collection[Account]) -> str:
    """Say why a file or folder is not to be trusted: `owner`, `all` or `group`; nothing if it is.

    In a sticky folder, such as /tmp, other users can add names and cannot change ours, so that its owner decides.
    """
    if found.owner != ROOT and all(found.owner != one.uid for one in accounts):
        return "owner"
    if found.is_folder and found.mode & STICKY:
        return ""
    if found.mode & ALL_WRITE:
        return "all"
    if found.mode & GROUP_WRITES and not is_private(found.group, accounts):
        return "group"
    return ""


def is_private(group: int, accounts: Collection[Account]) -> bool:
    """Tell whether only root and we can write by a group.

    A private group is its user's primary group and named, or numbered, as the user is (as pam_umask's `usergroups` has
    it), with no other member. Root's group has no members who could not become root.
    """
    return group == ROOT or any(
        group == one.group
        and (one.group_name == one.name or one.group == one.uid)
        and all(member == one.name for member in one.members)
        for one in accounts
    )


def accepted_uids(uid: int, sudo_uid: str) -> tuple[int, ...]:
    """Return whose files are taken: our own and, for root by sudo, those of the person who called sudo, as git does."""
    if uid == ROOT and sudo_uid.isascii() and sudo_uid.isdigit():
        return (uid, int(sudo_uid[:10]))
    return (uid,)
