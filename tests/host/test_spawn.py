"""An agent starts in a group of its own, with clean signals, and dies with the guard that started it."""

import errno
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.host import spawn
from tests.support.ground import state_of
from tests.support.scratch import wait_until

Start = Callable[[list[str], dict[str, str], tuple[int, ...]], int]

SHOW = """
import json, os, signal, sys
facts = {
    "group": os.getpgrp() == os.getpid(),
    "ignored": [n for n in range(1, 32) if signal.getsignal(n) is signal.SIG_IGN],
    "blocked": sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))),
    "env": os.environ.get("ONLY"),
}
open(sys.argv[1], "w").write(json.dumps(facts))
"""


@pytest.fixture
def start() -> Start:
    return lambda argv, env, ignore: spawn.spawn(argv, env, ignore=ignore)


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def put(path: Path, text: str, mode: int = 0o755) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def test_it_has_its_own_group_clean_signals_and_no_more_than_its_environment(start: Start, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        argv = [sys.executable, "-S", "-c", SHOW, str(tmp_path / "facts")]
        assert ended(start(argv, {"ONLY": "this"}, (signal.SIGHUP,))) == 0
    finally:
        signal.signal(signal.SIGUSR1, before)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    facts = json.loads((tmp_path / "facts").read_text())
    # Python itself ignores SIGPIPE and SIGXFSZ as soon as it runs.
    assert set(facts["ignored"]) == {signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ}
    assert (facts["group"], facts["blocked"], facts["env"]) == (True, [], "this")


def test_the_first_that_can_be_started_on_the_path_is(start: Start, tmp_path: Path) -> None:
    put(tmp_path / "a" / "tool", "#!/bin/sh\nexit 1\n", 0o644)
    put(tmp_path / "b" / "tool", "#!/bin/sh\nexit 5\n")
    put(tmp_path / "c" / "tool", "#!/bin/sh\nexit 6\n")
    path = os.pathsep.join(str(tmp_path / name) for name in ("missing", "a", "b", "c"))

    assert ended(start(["tool"], {"PATH": path}, ())) == 5


def test_one_that_may_not_be_started_is_told_from_one_that_is_not_there(start: Start, tmp_path: Path) -> None:
    put(tmp_path / "a" / "tool", "#!/bin/sh\n", 0o644)
    path = os.pathsep.join([str(tmp_path / "a"), str(tmp_path / "missing")])

    with pytest.raises(PermissionError):
        start(["tool"], {"PATH": path}, ())
    with pytest.raises(FileNotFoundError):
        start(["other"], {"PATH": path}, ())
    with pytest.raises(FileNotFoundError):
        start([str(tmp_path / "nowhere")], {}, ())


def test_a_file_that_is_no_program_is_refused(start: Start, tmp_path: Path) -> None:
    put(tmp_path / "words", "just some words\n")

    with pytest.raises(OSError, match="format") as refusal:
        start([str(tmp_path / "words")], {}, ())
    assert refusal.value.errno == errno.ENOEXEC


def test_it_dies_with_the_process_that_started_it_and_is_killed_first_when_memory_runs_out() -> None:
    reader, writer = os.pipe()
    guard = os.fork()
    if guard == 0:
        pid = spawn.spawn(["sleep", "60"], {"PATH": os.environ["PATH"]})
        os.write(writer, str(pid).encode())
        signal.pause()
    pid = int(os.read(reader, 32))
    mine = int(Path("/proc/self/oom_score_adj").read_text())
    assert int(Path(f"/proc/{pid}/oom_score_adj").read_text()) > mine

    os.kill(guard, signal.SIGKILL)  # noqa: TID251  # our own child
    os.waitpid(guard, 0)

    wait_until(lambda: state_of(pid) in ("", "Z"), what="the agent is dead", seconds=10)
    for descriptor in (reader, writer):
        os.close(descriptor)
