"""An idle daemon without web: its memory and its share of a processor, all its processes together.

Memory is PSS (shared pages are split among those who share them), summed over the daemon and its children; RSS is shown
too. The processor's share is taken over half a minute of idling with 100 schedules that are not due.
"""

import sys
import time
from pathlib import Path

from bench.ground import KINDS, apply, daemon, opened, report, stores
from fencepost.model.definition import ScheduleDefinition

SECONDS = 30.0
SETTLE_SECONDS = 5.0
PSS_MB, CPU_PERCENT = 60.0, 1.0


def main() -> int:
    """Measure, print, judge."""
    rows = []
    with stores([one for one in KINDS if one in sys.argv] or KINDS) as found:
        for kind, url in found:
            with opened(url):
                pass
            apply(
                url,
                {f"s-{n}": ScheduleDefinition(f"s-{n}", "agent", cron="0 0 1 1 *", timezone="UTC") for n in range(100)},
            )
            with daemon(url, "up", "--no-web") as process:
                rows.append(measure(kind, process.pid))
    report(
        "idle daemon without web", rows, target=f"at most {PSS_MB:g} MB (PSS), below {CPU_PERCENT:g} % of a processor"
    )
    return int(any(float(str(row["pss_mb"])) > PSS_MB or float(str(row["cpu_percent"])) >= CPU_PERCENT for row in rows))


def measure(kind: str, pid: int) -> dict[str, object]:
    """Let it settle, then watch it."""
    time.sleep(SETTLE_SECONDS)
    before, begin = cpu_seconds(pid), time.perf_counter()
    time.sleep(SECONDS)
    used = (cpu_seconds(pid) - before) / (time.perf_counter() - begin) * 100
    family = tree(pid)
    return {
        "store": kind,
        "processes": len(family),
        "pss_mb": round(sum(kilobytes(one, "Pss") for one in family) / 1024, 1),
        "rss_mb": round(sum(kilobytes(one, "Rss") for one in family) / 1024, 1),
        "cpu_percent": round(used, 2),
    }


def tree(pid: int) -> list[int]:
    """Return a process and all below it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [pid, *(one for child in children for one in tree(int(child)))]


def kilobytes(pid: int, what: str) -> int:
    """Return a sum from the process's memory map, which workers show to root alone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except PermissionError:
        sys.exit("workers keep their memory to themselves: measure as root")
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))


def cpu_seconds(pid: int) -> float:
    """Return how long the family has been on a processor."""
    return sum(int(stat(one)[11]) + int(stat(one)[12]) for one in tree(pid)) / 100


def stat(pid: int) -> list[str]:
    """Return the numbers of /proc/PID/stat that follow the name."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()


if __name__ == "__main__":
    sys.exit(main())
