"""What kind of file system a path is on, since some of them cannot keep a store."""

import os
import sys

from fencepost.host.mounts import Mount, mounts
from fencepost.host.synced_folders import is_synced_folder, nearest_existing

# Shared between machines, or between a virtual machine and its host: locks and shared memory do not work across it.
_NETWORK = frozenset(
    {
        *("nfs", "nfs3", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "ncpfs", "afpfs", "afs", "coda", "9p"),
        *("ceph", "glusterfs", "lustre", "gpfs", "beegfs", "orangefs", "pvfs2", "ocfs2", "gfs2", "moosefs"),
        *("davfs", "davfs2", "webdav", "ftp", "sshfs", "macfuse", "osxfuse"),
        *("vboxsf", "vmhgfs", "prl_fs", "virtiofs", "osxfs", "fakeowner", "grpcfuse"),
    }
)
# User-space file systems that keep their files on this machine; an unknown one is taken for a network.
_LOCAL_FUSE = frozenset(
    {
        *("bindfs", "mergerfs", "fuse-overlayfs", "lazyfs", "lxcfs", "portal", "encfs", "gocryptfs", "cryfs"),
        *("ntfs", "ntfs-3g", "exfat", "ext2", "fuse-ext2", "apfs", "squashfuse", "zfs", "snapfuse"),
    }
)
LITTLE_BYTES = 50_000_000  # below this, a write that failed may well have failed for want of room


def kind_of(path: str) -> str | None:
    """Return the kind of file system that holds this path, or would hold it, or None if the host does not tell."""
    real = nearest_existing(path)
    found = [mount for mount in _all_mounts() if _is_below(real, mount.point)]
    # Of two mounts at one point the later one covers the earlier, and max() keeps the first of equals.
    return max(reversed(found), key=lambda mount: len(mount.point)).kind if found else None


def is_network(kind: str) -> bool:
    """Tell whether other machines may be using the same files."""
    main, _, sub = kind.lower().partition(".")
    if main in {"fuse", "fuse3", "fuse-t"}:
        return sub not in _LOCAL_FUSE
    return main in _NETWORK or main.startswith("smb")


def _is_below(path: str, point: str) -> bool:
    return path == point or path.startswith(point.rstrip("/") + "/")


def _all_mounts() -> list[Mount]:
    if sys.platform == "darwin":
        from fencepost.host.host_tools import ask

        return [parse_mount(line) for line in ask("mount").text.splitlines() if line.endswith(")")]
    return mounts()


def parse_mount(line: str) -> Mount:
    """Read a line that macOS prints: "//me@nas/share on /Volumes/share (smbfs, nodev)"."""
    where, _, traits = line.rpartition(" (")
    return Mount("/", where.partition(" on ")[2], traits.rstrip(")").split(",", 1)[0])


def little_room(path: str) -> str:
    """Say how little is free where something could not be written; nothing where that is not why."""
    try:
        room = os.statvfs(nearest_existing(path))
    except OSError:
        return ""
    free = room.f_bavail * room.f_frsize
    if free > LITTLE_BYTES and (room.f_favail > 0 or not room.f_files):
        return ""
    return f" Only {free // 1000:,} kB are free at {nearest_existing(path)}."


__all__ = ["is_network", "is_synced_folder", "kind_of", "little_room", "nearest_existing", "parse_mount"]
