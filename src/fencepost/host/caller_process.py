"""Finds the program that started us, past the shells in between."""

import os
import subprocess

from fencepost.host.processes import SystemProcesses
from fencepost.model.process import ProcessId

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "ash", "busybox", "env", "timeout"})
STEPS_MAX = 16


def caller(processes: SystemProcesses) -> ProcessId | None:
    """Return the nearest process above us that is no shell: the agent whose hook this is."""
    pid = os.getppid()
    for _ in range(STEPS_MAX):
        if pid <= 1:
            return None
        name, parent = _name_and_parent(pid)
        if name.lstrip("-") not in SHELLS:
            return processes.identify(pid)
        pid = parent
    return None


def _name_and_parent(pid: int) -> tuple[str, int]:
    try:
        with open(f"/proc/{pid}/stat") as file:
            head, _, rest = file.read().rpartition(")")
        return head.partition("(")[2], int(rest.split()[1])
    except (OSError, ValueError, IndexError):
        ran = subprocess.run(["ps", "-o", "ppid=,comm=", "-p", str(pid)], capture_output=True, text=True, check=False)
        parent, _, name = ran.stdout.strip().partition(" ")
        return os.path.basename(name.strip()), int(parent) if parent.isdigit() else 0
