"""The process table as `ps` prints it, for hosts without /proc."""

import sys
from collections.abc import Iterable, Mapping

from fencepost.host.host_tools import ask
from fencepost.host.process_table import MarkedProcesses, ProcessRow

_COLUMNS = ("-o", "pid=", "-o", "ppid=", "-o", "state=", "-o", "lstart=")


class PsTable:
    """Asks ps, which knows start times to the second only."""

    __slots__ = ()

    looks_needed = looks_max = 5  # ps does not tell which processes it missed, so a clear look means little

    def row(self, pid: int) -> ProcessRow | None:
        """Return the process with this pid."""
        return next(map(parse, ask("ps", "-p", str(pid), *_COLUMNS).text.splitlines()), None)

    def rows(self, known: Mapping[int, ProcessRow]) -> dict[int, ProcessRow]:  # noqa: ARG002 - ps prints all or nothing
        """Return all processes but the ps that listed them, by pid."""
        answer = ask("ps", "-A", *_COLUMNS)
        rows = map(parse, answer.text.splitlines())
        return {row.pid: row for row in rows if row.pid != answer.pid}

    def marked(self, marker: str, among: Iterable[ProcessRow]) -> MarkedProcesses:
        """Find those that were started with this NAME=value in their environment.

        ps prints the environment behind the arguments; arguments that merely mention the marker do not count.
        """
        bare, full = _commands("-A", "-ww"), _commands(*_WITH_ENVIRONMENT)
        asked = {row.pid for row in among}
        shown = asked & bare.keys() & full.keys()
        return MarkedProcesses(
            pids={pid for pid in shown if marker in full[pid].removeprefix(bare[pid]).split()},
            unclear=asked - shown,
        )

    def is_older(self, row: ProcessRow, than: str) -> bool:  # noqa: ARG002 - the Table port's signature
        """Tell nothing: printed times cannot be compared."""
        return False


_WITH_ENVIRONMENT = ("-A", "-E", "-ww") if sys.platform == "darwin" else ("axeww",)


def parse(line: str) -> ProcessRow:
    """Read one line; the start time is made of several words."""
    pid, parent, state, started = line.split(None, 3)
    return ProcessRow(int(pid), int(parent), " ".join(started.split()), gone=state[0] in "ZXx")


def _commands(*options: str) -> dict[int, str]:
    lines = (
        line.strip().partition(" ") for line in ask("ps", *options, "-o", "pid=", "-o", "command=").text.split("\n")
    )
    return {int(pid): command.strip() for pid, _, command in lines if pid.isdigit()}
