"""What a worker has in its environment is not for its agents to read, and the traces of a run are found all the same."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fencepost.host.clock import SystemClock
from fencepost.host.proc_table import Kin, relatives
from fencepost.host.processes import system_processes
from fencepost.host.unreadable_process import hides_processes
from tests.support.powerless import powerless

CANARY = "canary-of-the-worker"
BECOME = "from fencepost.host.unreadable_process import become_unreadable; print(become_unreadable(), flush=True); "
WAIT = "import sys; sys.stdin.read()"
READ = "import sys; sys.stdout.write(open(f'/proc/{sys.argv[1]}/environ').read())"
IDENTIFY = """
import sys
from fencepost.host.clock import SystemClock
from fencepost.host.processes import system_processes
processes = system_processes(SystemClock())
found = processes.identify(int(sys.argv[1]))
print(found.pid, found.started, processes.fate(found).value, processes.signal_process(found, 0))
"""
MOUNT = "24 30 0:22 / {point} rw,nosuid,nodev,noexec,relatime shared:13 - proc proc rw{options}\n"
linux = pytest.mark.skipif(sys.platform != "linux", reason="where there is no /proc, doctor says so")


@contextmanager
def waiting(program: str) -> Iterator[subprocess.Popen[str]]:
    """Have a program without privileges and with a secret, that has said its first word and waits."""
    words = powerless(sys.executable, "-c", program)
    env = {**os.environ, "CANARY": CANARY}
    with subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.communicate()


def tried(program: str, pid: int) -> subprocess.CompletedProcess[str]:
    """Let another program of the same user have a look."""
    words = powerless(sys.executable, "-c", program, str(pid))
    env = {name: value for name, value in os.environ.items() if name != "CANARY"}
    return subprocess.run(words, env=env, capture_output=True, text=True, check=False)


@linux
def test_a_process_is_readable_for_its_user_until_it_becomes_unreadable() -> None:
    with waiting("print('here', flush=True); " + WAIT) as open_one:
        assert open_one.stdout is not None
        open_one.stdout.readline()
        assert CANARY in tried(READ, open_one.pid).stdout
    with waiting(BECOME + WAIT) as closed:
        assert closed.stdout is not None
        assert closed.stdout.readline() == "True\n"
        read = tried(READ, closed.pid)
    assert CANARY not in read.stdout
    assert "Permission denied" in read.stderr


@linux
def test_an_unreadable_process_is_still_identified_and_signalled_by_its_user() -> None:
    with waiting(BECOME + WAIT) as closed:
        assert closed.stdout is not None
        closed.stdout.readline()
        seen = tried(IDENTIFY, closed.pid)
        me = system_processes(SystemClock()).identify(closed.pid)
    assert me is not None
    assert seen.stdout.split() == [str(closed.pid), me.started, "alive", "True"], seen.stderr


@linux
def test_what_an_unreadable_process_starts_is_readable_and_what_it_forks_is_not() -> None:
    starts = "import subprocess; print(subprocess.Popen(['sleep', '60']).pid, flush=True); "
    forks = "import os; pid = os.fork(); print(pid, flush=True) if pid else None; "
    for begin, is_readable in ((starts, True), (forks, False)):
        with waiting(BECOME + begin + WAIT) as closed:
            assert closed.stdout is not None
            closed.stdout.readline()
            child = int(closed.stdout.readline())
            read = tried(READ, child)
            subprocess.run(["kill", str(child)], check=True)
        assert (CANARY in read.stdout) is is_readable, read.stderr


@pytest.mark.parametrize(
    ("point", "options", "hides"),
    [
        ("/proc", "", False),
        ("/proc", ",hidepid=0", False),
        ("/proc", ",gid=4,hidepid=off", False),
        ("/proc", ",hidepid=1", True),
        ("/proc", ",gid=4,hidepid=2", True),
        ("/proc", ",hidepid=invisible", True),
        ("/srv/jail/proc", ",hidepid=2", False),
    ],
)
def test_a_proc_that_hides_what_one_may_not_read_is_known(point: str, options: str, *, hides: bool) -> None:
    text = MOUNT.format(point="/", options="") + MOUNT.format(point=point, options=options)
    assert hides_processes(text.encode()) is hides


def test_closed_processes_of_our_namespace_are_known_by_their_kin() -> None:
    ours = {"50": Kin("40", (50, 7))}
    closed = {
        "40": Kin("30", (40, 6)),  # the parent of one of us
        "30": Kin("20", (30, 1)),  # and its parent, the first of the namespace
        "20": Kin("1", (20,)),  # who started the namespace, outside of it
        "60": Kin("50", (60, 8)),  # a child
        "70": Kin("50", (70, 9, 1)),  # a child in a namespace of its own
        "80": Kin("20", (80, 1)),  # in another namespace
        "90": Kin("", ()),  # gone meanwhile
    }
    assert sorted(relatives(closed, ours)) == ["30", "40", "50", "60"]
