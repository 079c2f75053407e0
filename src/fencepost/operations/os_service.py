"""Keeps `up` running as a service of this user: writes the manager's file, and never touches one that is not ours."""

import os
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

from fencepost.host.host_tools import ask
from fencepost.model.errors import FencepostError, Invalid
from fencepost.model.own_program import own_program
from fencepost.model.service_unit import MARK, Unit, label, launchd_plist, systemd_unit

KEPT = ("PATH", "LANG", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "TZ")
Ask = Callable[..., tuple[int, str]]


class Manager(NamedTuple):
    """Who keeps services running here, and how it is spoken to."""

    kind: str  # systemd or launchd
    folder: str  # where it looks for files of this user
    tell: Ask

    def path(self, name: str) -> str:
        """Return where the file of a service is."""
        file = f"{unit_name(name)}.service" if self.kind == "systemd" else f"{label(name)}.plist"
        return os.path.join(self.folder, file)

    def text(self, unit: Unit) -> str:
        """Return what the file says."""
        return systemd_unit(unit) if self.kind == "systemd" else launchd_plist(unit)

    def start(self, name: str) -> list[str]:
        """Let it be known and started; return what went wrong."""
        if self.kind == "systemd":
            unit = f"{unit_name(name)}.service"
            return self._all(("daemon-reload",), ("enable", unit), ("restart", unit))
        self.tell("launchctl", "bootout", f"gui/{os.getuid()}/{label(name)}")  # none there yet is no matter
        return self._told("launchctl", "bootstrap", f"gui/{os.getuid()}", self.path(name))

    def stop(self, name: str) -> list[str]:
        """Let it be stopped and forgotten; return what went wrong."""
        if self.kind == "systemd":
            return self._all(("disable", "--now", f"{unit_name(name)}.service"))
        return self._told("launchctl", "bootout", f"gui/{os.getuid()}/{label(name)}")

    def is_active(self, name: str) -> bool:
        """Tell whether it runs."""
        if self.kind == "systemd":
            return self.tell("systemctl", "--user", "is-active", f"{unit_name(name)}.service")[1].strip() == "active"
        return self.tell("launchctl", "print", f"gui/{os.getuid()}/{label(name)}")[0] == 0

    def lingers(self) -> bool:
        """Tell whether it runs while the user is not logged in; launchd's agents never do."""
        if self.kind != "systemd":
            return False
        return "Linger=yes" in self.tell("loginctl", "show-user", str(os.getuid()), "--property=Linger")[1]

    def _all(self, *orders: tuple[str, ...]) -> list[str]:
        return [trouble for order in orders for trouble in self._told("systemctl", "--user", *order)]

    def _told(self, *words: str) -> list[str]:
        code, _ = self.tell(*words)
        return [f"'{' '.join(words)}' said no ({code})"] if code else []


def manager(environ: Mapping[str, str], platform: str = sys.platform) -> Manager:
    """Return this machine's manager of services."""
    home = environ.get("HOME") or os.path.expanduser("~")
    if platform == "darwin":
        return Manager("launchd", os.path.join(home, "Library", "LaunchAgents"), _ask)
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    return Manager("systemd", os.path.join(config, "systemd", "user"), _ask)


def unit_of(
    name: str,
    environ: Mapping[str, str],
    *,
    config: str,
    words: tuple[str, ...],
    drain_seconds: float,
) -> Unit:
    """Describe `up` for one configuration, with the paths and the PATH of this very moment."""
    real = os.path.realpath(config)
    argv = (*own_program(), "up", "--config", real, *words)
    kept = {one: environ[one] for one in KEPT if environ.get(one)}
    home = environ.get("HOME") or os.path.expanduser("~")
    log = os.path.join(home, "Library", "Logs", f"{unit_name(name)}.log")
    return Unit(name, argv, os.path.dirname(real), kept, drain_seconds, log)


def unit_name(name: str) -> str:
    """Return the name of the service's file, without its ending."""
    return "fencepost" if name == "default" else f"fencepost-{name}"


def write(path: str, text: str) -> bool:
    """Put the file there as a whole; False if it says that already. A file that is not ours is left alone."""
    there = _ours(path)
    if there == text:
        return False
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    draft = f"{path}.{os.getpid()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError:
        os.unlink(draft)
        raise
    return True


def remove(path: str) -> bool:
    """Remove the file if it is there and ours."""
    if _ours(path) is None:
        return False
    os.unlink(path)
    return True


def is_installed(path: str) -> bool:
    """Tell whether our file is there."""
    return _ours(path) is not None


def _ours(path: str) -> str | None:
    """Return what our file says, None if there is none; raise Invalid for a file that is not ours."""
    if not os.path.lexists(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(1_000_000)
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{path} cannot be read: {error}; move it away first.") from None
    if os.path.islink(path) or MARK not in text:
        raise Invalid(f"{path} was not written by Fencepost and stays as it is; move it away, or choose --name.")
    return text


def _ask(*words: str) -> tuple[int, str]:
    try:
        answer = ask(*words)
    except FencepostError:
        return 127, ""
    return answer.code, answer.text
