"""Which machine this is, in which boot, seen from which pid namespace."""

from __future__ import annotations

import os
import sys

from fencepost.model.process import Host

# The kernel gives its first namespaces fixed numbers; any other number means a container.
_FIRST_PID_NAMESPACE = "4026531836"
_FIRST_HOST_NAMESPACE = "4026531838"


def this_host() -> Host:
    """Return where the calling process runs."""
    boot = _boot()
    machine = _machine() or f"boot-{boot}"
    if _in_container():
        # Images are copied with their machine id inside; the boot keeps two hosts of one image apart.
        machine = f"{machine}@{boot}"
    return Host(
        name=os.uname().nodename,
        machine=machine,
        # With no boot id every boot looks like the same one: nothing is taken for dead because of it.
        boot=boot or f"machine-{machine}",
        pid_namespace=_namespace("pid"),
    )


def sees_every_process() -> bool:
    """Tell whether this process table shows all processes of the machine, and not those of a container alone."""
    return _namespace("pid") == _FIRST_PID_NAMESPACE


def _boot() -> str:
    if sys.platform == "darwin":
        from fencepost.host.host_tools import ask

        return ask("sysctl", "-n", "kern.bootsessionuuid").text.strip()
    return _read("/proc/sys/kernel/random/boot_id")


def _machine() -> str:
    if sys.platform == "darwin":
        return _platform_uuid() or _kept_machine_id()
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        if _is_machine_id(found := _read(path)):
            return found
    return _kept_machine_id()


def _platform_uuid() -> str:
    from fencepost.host.host_tools import ask

    for line in ask("ioreg", "-rd1", "-c", "IOPlatformExpertDevice").text.splitlines():
        name, _, value = line.partition("=")
        if "IOPlatformUUID" in name:
            return value.strip().strip('"')
    return ""


def _kept_machine_id() -> str:
    """Return the id that was made up for a machine without one, the same for all who ask at once."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    folder = os.path.join(home, "fencepost")
    path = os.path.join(folder, "machine-id")
    if _is_machine_id(found := _read(path)):
        return found
    try:
        _keep(path, os.urandom(16).hex())
    except OSError:  # nowhere to keep it; the boot id must do
        return ""
    return _read(path)


def _keep(path: str, machine_id: str) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    draft = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(machine_id + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)  # unlike rename, it never replaces an id that is in use
    except FileExistsError:
        if not _is_machine_id(_read(path)):
            os.replace(draft, path)
            return
    os.unlink(draft)


def _is_machine_id(text: str) -> bool:
    """Refuse an empty file and systemd's word "uninitialized"."""
    return len(text) == 32 and all(digit in "0123456789abcdef" for digit in text)  # noqa: PLR2004 - by definition


def _in_container() -> bool:
    return sys.platform == "linux" and (
        _namespace("pid") != _FIRST_PID_NAMESPACE or _namespace("uts") != _FIRST_HOST_NAMESPACE
    )


def _namespace(kind: str) -> str:
    try:
        return str(os.stat(f"/proc/self/ns/{kind}").st_ino)
    except OSError:
        return ""


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(256).strip()
    except OSError:
        return ""
