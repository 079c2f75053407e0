"""What the host lets one process have, and how doctor says that it is little."""

import resource
import subprocess
import sys

import pytest

from fencepost.host.process_limits import Room, room_left
from fencepost.operations.doctor import limits
from fencepost.operations.doctor_finding import Status

# Root is not counted, so it becomes another user, who has no process yet.
ASK = """
import os, resource
from fencepost.host.process_limits import room_left
_, hard = resource.getrlimit(resource.RLIMIT_NPROC)
limit = 100_000 if hard == resource.RLIM_INFINITY else min(hard, 100_000)
resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
if os.geteuid() == 0:
    os.setuid(65534)
print(limit - room_left().processes)
"""


def test_the_descriptors_are_those_of_the_hard_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert room_left().descriptors == (None if hard == resource.RLIM_INFINITY else hard)


def test_a_users_processes_count_against_its_limit() -> None:
    ran = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    assert int(ran.stdout) >= 1


def test_what_another_process_may_have_is_known() -> None:
    few = "ulimit -n 72 && echo ready && exec sleep 60"
    with subprocess.Popen(["sh", "-c", few], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        found = room_left(other.pid)
        other.kill()

    assert found.descriptors == 72
    assert found.memory is None or found.memory > 0


def test_a_process_that_is_gone_may_have_anything() -> None:
    assert room_left(2**22 + 1).descriptors is None


@pytest.mark.parametrize(
    ("room", "status", "said"),
    [
        (Room(None, None), Status.OK, "room for processes"),
        (Room(5_000, 4_096), Status.OK, "room for processes"),
        (Room(3, 4_096), Status.WARN, "3 more processes"),
        (Room(1, None), Status.WARN, "1 more process may"),
        (Room(None, 256), Status.WARN, "256 open files"),
        (Room(None, None, 50_000_000), Status.WARN, "50 MB of memory"),
    ],
)
def test_doctor_says_where_there_is_little_room(room: Room, status: Status, said: str) -> None:
    finding = limits(room)
    assert finding.status is status
    assert said in finding.message
