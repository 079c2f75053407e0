"""A service as its manager reads it: a systemd user unit, or a launchd property list."""

from collections.abc import Mapping, Sequence
from plistlib import dumps
from typing import NamedTuple

from fencepost.model.errors import Invalid

MARK = "Written by `fencepost service install`; it is written anew by the next one."
STOP_SECONDS = 40  # what a station takes after its drain, and some more
RESTART_SECONDS = 5
LEAVE = "FENCEPOST_ON_TERM=leave"
TASKS_MAX, FILES_MAX = "infinity", 65_536  # a thousand agents, each with a guard
SECRETS_FILE = "%h/.config/fencepost/service.env"


class Unit(NamedTuple):
    """What shall be kept running. Everything is absolute: a manager has neither a PATH nor a folder of its own."""

    name: str
    argv: Sequence[str]
    folder: str
    environment: Mapping[str, str]
    drain_seconds: float
    log: str = ""  # launchd alone needs a file; systemd has its journal

    @property
    def stop_seconds(self) -> int:
        """How long a stop may take: runs finish or are handed back before an agent is killed."""
        return round(self.drain_seconds) + STOP_SECONDS


def systemd_unit(unit: Unit) -> str:
    """Write a user unit. Its cgroup is delegated, so that each run can have one of its own.

    A restart ends the worker alone, which leaves running agents to the next one: they and their guards stay.
    """
    variables = [f"Environment={_quoted(f'{name}={value}')}" for name, value in unit.environment.items()]
    lines = [
        f"# {MARK}",
        "[Unit]",
        f"Description=Fencepost ({unit.name})",
        "StartLimitIntervalSec=300",
        "StartLimitBurst=10",
        "",
        "[Service]",
        "Type=simple",
        f"WorkingDirectory={_path(unit.folder)}",
        f"ExecStart={' '.join(map(_word, unit.argv))}",
        *variables,
        f"Environment={LEAVE}",
        f"EnvironmentFile=-{SECRETS_FILE}",
        "Delegate=yes",
        "KillMode=process",
        f"TasksMax={TASKS_MAX}",
        f"LimitNOFILE={FILES_MAX}",
        f"TimeoutStopSec={unit.stop_seconds}",
        "Restart=on-failure",
        f"RestartSec={RESTART_SECONDS}",
        "# A configuration that is wrong does not get better by trying again.",
        "RestartPreventExitStatus=2 78",
        "",
        "[Install]",
        "WantedBy=default.target",
        "",
    ]
    return "\n".join(lines)


def launchd_plist(unit: Unit) -> str:
    """Write a property list for a user's agent."""
    content = {
        "Label": label(unit.name),
        "ProgramArguments": list(unit.argv),
        "WorkingDirectory": unit.folder,
        "EnvironmentVariables": {**unit.environment, **dict([LEAVE.split("=")])},
        "AbandonProcessGroup": True,
        "SoftResourceLimits": {"NumberOfFiles": FILES_MAX},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": RESTART_SECONDS,
        "ExitTimeOut": unit.stop_seconds,
        "StandardOutPath": unit.log,
        "StandardErrorPath": unit.log,
    }
    head, line, rest = dumps(content, sort_keys=False).decode().partition("<plist")
    return f"{head}<!-- {MARK} -->\n{line}{rest}"


def label(name: str) -> str:
    """Return a service's name among all of launchd's."""
    return f"dev.fencepost.{name}"


def _word(text: str) -> str:
    """Spell one argument: quoted, and safe from the manager's own specifiers and variables."""
    return _quoted(text).replace("$", "$$")


def _quoted(text: str) -> str:
    if any(ord(one) < ord(" ") or one == "\x7f" for one in text):
        raise Invalid(f"{text!r} has control characters, which no unit can hold; rename it.")
    spelt = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{spelt}"'


def _path(text: str) -> str:
    """Spell a path where no quotes are understood."""
    _quoted(text)
    return text.replace("%", "%%")
