"""Which files and folders are out of the reach of other users."""

import pytest

from fencepost.model.trust import Account, FileRights, accepted_uids, distrust

ME = Account(1000, "alice", 1000, "alice")
SHARED = Account(501, "alice", 20, "staff")  # as on macOS: one group for all
RENUMBERED = Account(1000, "alice", 1007, "alice")
NUMBERED = Account(1000, "", 1000, "")  # as in a container that does not know the number
OPENED = Account(1000, "alice", 1000, "alice", ("www-data",))


@pytest.mark.parametrize(
    ("owner", "why"), [(1000, ""), (0, ""), (1001, "owner"), (65_534, "owner")], ids=["we", "root", "bob", "nobody"]
)
def test_only_root_and_we_are_trusted(owner: int, why: str) -> None:
    for is_folder in (False, True):
        assert distrust(FileRights(owner, 1000, 0o600, is_folder), [ME]) == why


@pytest.mark.parametrize(
    ("account", "group", "why"),
    [
        (ME, 1000, ""),
        (RENUMBERED, 1007, ""),
        (NUMBERED, 1000, ""),
        (ME, 0, ""),
        (ME, 100, "group"),
        (SHARED, 20, "group"),
        (OPENED, 1000, "group"),
    ],
)
def test_a_group_may_write_if_only_its_user_is_in_it(account: Account, group: int, why: str) -> None:
    assert distrust(FileRights(account.uid, group, 0o664), [account]) == why
    assert distrust(FileRights(account.uid, group, 0o775, is_folder=True), [account]) == why
    assert distrust(FileRights(account.uid, group, 0o644), [account]) == ""


def test_all_may_write_nothing_but_a_sticky_folder() -> None:
    assert distrust(FileRights(1000, 1000, 0o666), [ME]) == "all"
    assert distrust(FileRights(1000, 1000, 0o777, is_folder=True), [ME]) == "all"
    assert distrust(FileRights(0, 0, 0o1777, is_folder=True), [ME]) == ""
    assert distrust(FileRights(1001, 0, 0o1777, is_folder=True), [ME]) == "owner"
    assert distrust(FileRights(1000, 1000, 0o1666), [ME]) == "all", "of a file the bit says nothing"


def test_root_by_sudo_takes_the_files_of_who_called_it_and_nobody_else_does() -> None:
    assert accepted_uids(0, "1000") == (0, 1000)
    assert accepted_uids(0, "") == (0,)
    assert accepted_uids(0, "-1") == accepted_uids(0, "x") == (0,)
    assert accepted_uids(1000, "1001") == (1000,)
