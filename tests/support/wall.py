"""A wall clock that can be set for some processes only, while they run: a small library that they load first."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

# Adds what stands in a file to the wall clock, and to nothing else: time since boot and time awake are real.
SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset(void) {
    const char *path = getenv("WALL_OFFSET_FILE");
    char text[32] = {0};
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    if (read(file, text, sizeof text - 1) < 0) text[0] = 0;
    close(file);
    return atol(text);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int answer = real(clock, now);
    if (!answer && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += offset();
    return answer;
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
    """The wall clock of those who were started with its environment."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "offset"
        self.environment = {"LD_PRELOAD": str(folder / "wall.so"), "WALL_OFFSET_FILE": str(self._file)}
        self.step(0)

    def step(self, seconds: int) -> None:
        """Set it so many seconds off the real time, for everybody at once."""
        draft = self._file.with_suffix(".new")
        draft.write_text(str(seconds))
        draft.chmod(0o644)
        draft.replace(self._file)

    def words(self) -> list[str]:
        """Return how a command line begins whose program shall live by this clock."""
        return ["env", *(f"{name}={value}" for name, value in self.environment.items())]


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
