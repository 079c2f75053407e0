import sys
from pathlib import Path

import pytest

from fencepost.host import filesystem
from fencepost.host.filesystem import is_network, is_synced_folder, kind_of, parse_mount
from fencepost.host.mounts import Mount, parse


@pytest.mark.parametrize(
    "kind",
    [
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "davfs", "webdav"),
        *("fuse.sshfs", "fuse.rclone", "fuse.gvfsd-fuse", "fuse", "vboxsf", "virtiofs", "osxfs", "fuse.vmhgfs-fuse"),
    ],
)
def test_files_that_other_machines_see_are_on_a_network(kind: str) -> None:
    assert is_network(kind)


@pytest.mark.parametrize(
    "kind",
    ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "apfs", "hfs", "fuseblk", "fuse.lazyfs", "fuse.mergerfs"],
)
def test_files_that_only_this_machine_sees_are_not(kind: str) -> None:
    assert not is_network(kind)


def test_a_path_is_on_the_innermost_mount_and_the_latest_of_two_at_one_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = tmp_path / "share"
    share.mkdir()
    (tmp_path / "shared").mkdir()
    listed = [Mount("/", "/", "ext4"), Mount("/", str(share), "autofs"), Mount("/", str(share), "nfs4")]
    monkeypatch.setattr(filesystem, "_all_mounts", lambda: listed)

    assert kind_of(str(share / "not" / "there" / "yet.db")) == "nfs4"
    assert kind_of(str(tmp_path / "shared")) == "ext4"


def test_a_link_is_judged_by_where_it_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "share").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "share")
    listed = [Mount("/", "/", "ext4"), Mount("/", str(tmp_path / "share"), "cifs")]
    monkeypatch.setattr(filesystem, "_all_mounts", lambda: listed)

    assert kind_of(str(tmp_path / "link" / "state.db")) == "cifs"


def test_a_host_that_lists_no_mounts_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "_all_mounts", list)

    assert kind_of("/") is None


def test_this_host_knows_the_kind_of_its_own_root() -> None:
    assert kind_of("/")


def test_proc_is_told_apart_from_the_root() -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux has /proc")

    assert kind_of("/proc/self/nothing") == "proc"


def test_a_line_of_mountinfo_is_read_with_its_optional_fields_and_escapes() -> None:
    line = r"36 35 98:0 /mnt1 /my\040disk\134x rw,noatime master:1 shared:2 - fuse.sshfs me@host:/a rw,errors=continue"

    assert parse(line) == Mount("/mnt1", "/my disk\\x", "fuse.sshfs")


def test_a_line_that_macos_prints_is_read() -> None:
    line = "//me@nas._smb._tcp.local/share on /Volumes/my share (x) (smbfs, nodev, nosuid, mounted by me)"

    assert parse_mount(line) == Mount("/", "/Volumes/my share (x)", "smbfs")


@pytest.mark.parametrize(
    ("folder", "service"),
    [
        ("Dropbox/agents", "Dropbox"),
        ("Dropbox (Team)/agents", "Dropbox"),
        ("Library/Mobile Documents/com~apple~CloudDocs/agents", "iCloud Drive"),
        ("OneDrive - Company/agents", "OneDrive"),
        ("Library/CloudStorage/GoogleDrive-me@example.org/My Drive", "Google Drive"),
        ("Dropboxes/agents", None),
        ("plain/agents", None),
    ],
)
def test_a_folder_that_a_service_copies_elsewhere_is_recognised_by_name(
    tmp_path: Path, folder: str, service: str | None
) -> None:
    (tmp_path / folder).mkdir(parents=True)

    assert is_synced_folder(str(tmp_path / folder / "state.db")) == service


def test_a_folder_that_syncthing_copies_is_recognised_by_its_marker(tmp_path: Path) -> None:
    (tmp_path / "shared" / "agents").mkdir(parents=True)
    (tmp_path / "shared" / ".stfolder").mkdir()

    assert is_synced_folder(str(tmp_path / "shared" / "agents" / "state.db")) == "Syncthing"


def test_the_settings_of_dropbox_in_the_home_folder_mark_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".dropbox").mkdir()

    assert is_synced_folder(str(tmp_path / "state.db")) is None
