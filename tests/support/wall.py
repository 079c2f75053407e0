"""Clocks that can be set for some processes only, while they run: a small library that they load first.

The wall clock can be set; a sleep of the host can be played, which the wall clock and the time since boot count and the time
awake does not; and the crystal can run fast or slow.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int real(clockid_t clock, struct timespec *now) {
    static int (*found)(clockid_t, struct timespec *);
    if (!found) found = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    return found(clock, now);
}

/* What stands in the file: seconds that the wall clock is off, and seconds that the host has slept. */
static void read_offsets(long *wall, long *asleep) {
    const char *path = getenv("WALL_OFFSET_FILE");
    char text[64] = {0};
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    *wall = *asleep = 0;
    if (file < 0) return;
    if (read(file, text, sizeof text - 1) > 0) sscanf(text, "%ld %ld", wall, asleep);
    close(file);
}

static struct timespec began[2];
static double rate = 1;

__attribute__((constructor)) static void begin(void) {
    if (getenv("WALL_RATE")) rate = atof(getenv("WALL_RATE"));
    real(CLOCK_MONOTONIC, &began[0]);
    real(CLOCK_BOOTTIME, &began[1]);
}

static void bend(struct timespec *now, struct timespec from) {
    double passed = (now->tv_sec - from.tv_sec) + (now->tv_nsec - from.tv_nsec) / 1e9;
    double shown = from.tv_sec + from.tv_nsec / 1e9 + passed * rate;
    now->tv_sec = (time_t)shown;
    now->tv_nsec = (long)((shown - (time_t)shown) * 1e9);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int answer = real(clock, now);
    long wall, asleep;
    if (answer) return answer;
    if (rate != 1 && clock == CLOCK_MONOTONIC) bend(now, began[0]);
    if (rate != 1 && clock == CLOCK_BOOTTIME) bend(now, began[1]);
    if (clock == CLOCK_MONOTONIC || !getenv("WALL_OFFSET_FILE")) return 0;
    read_offsets(&wall, &asleep);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec += wall + asleep;
    if (clock == CLOCK_BOOTTIME) now->tv_sec += asleep;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}
"""


class Wall:
    """The clocks of those who were started with its environment."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "offset"
        self.environment = {"LD_PRELOAD": str(folder / "wall.so"), "WALL_OFFSET_FILE": str(self._file)}
        self.step(0)

    def step(self, seconds: int) -> None:
        """Set it so many seconds off the real time, for everybody at once."""
        self._write(f"{seconds} 0")

    def sleep(self, seconds: int) -> None:
        """Let it seem that the whole host has slept for so long."""
        self._write(f"0 {seconds}")

    def words(self, *, rate: float = 1.0) -> list[str]:
        """Return how a command line begins whose program shall live by these clocks, on a crystal of this rate."""
        return ["env", *(f"{name}={value}" for name, value in self.environment.items()), f"WALL_RATE={rate}"]

    def _write(self, offsets: str) -> None:
        draft = self._file.with_suffix(".new")
        draft.write_text(offsets)
        draft.chmod(0o644)
        draft.replace(self._file)


@contextmanager
def wall() -> Iterator[Wall]:
    """Build the library where everybody can read it; skip where there is no compiler or no such loader."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("setting a clock for some processes only takes Linux and a C compiler (Debian: gcc)")
    with tempfile.TemporaryDirectory(prefix="fencepost-wall-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "wall.c").write_text(SOURCE)
        made = [compiler, "-shared", "-fPIC", "-O1", "-o", str(folder / "wall.so"), str(folder / "wall.c"), "-ldl"]
        subprocess.run(made, check=True, capture_output=True, env={**os.environ, "LC_ALL": "C"})
        yield Wall(folder)
