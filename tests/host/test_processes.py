import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping

import pytest

from fencepost.host import cgroup
from fencepost.host.clock import SystemClock
from fencepost.host.identity import this_host
from fencepost.host.proc_table import ProcTable, parse
from fencepost.host.process_table import MarkedProcesses, ProcessRow
from fencepost.host.processes import SystemProcesses, system_processes
from fencepost.model.process import Fate, ProcessId
from fencepost.ports.processes import Traces
from tests.host.conftest import Spawn, Spawned
from tests.support.clock import ManualClock

QUIET = "import signal; print(flush=True); signal.pause()"

DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True)\nwhile True: signal.pause()"

POLITE = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); print(flush=True); signal.pause()"

# Leaves a grandchild in a session of its own, tells its pid, and ends.
DETACHING = """
import os, signal
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        signal.pause()
    os._exit(0)
os.wait()
"""

GUARD = f"""
import os, signal, subprocess, sys
from fencepost.host.libc import become_subreaper
assert become_subreaper()
subprocess.run([sys.executable, "-S", "-c", {DETACHING!r}], env={{}})
signal.pause()
"""

IN_CGROUP = f"""
import sys
from fencepost.host import cgroup
assert cgroup.enter(sys.argv[1])
exec({DETACHING!r})
"""


def identified(processes: SystemProcesses, pid: int) -> ProcessId:
    process = processes.identify(pid)
    assert process is not None
    return process


def kill_now(processes: SystemProcesses, traces: Traces, *spare: int) -> bool:
    return processes.end(traces, grace_seconds=0, kill_seconds=10, spare=spare)


def wait_unreaped(spawned: Spawned) -> None:
    os.waitid(os.P_PID, spawned.pid, os.WEXITED | os.WNOWAIT)


def test_the_caller_is_alive_and_knows_itself(processes: SystemProcesses) -> None:
    me = processes.myself()

    assert me.pid == os.getpid()
    assert me.host == processes.here()
    assert processes.fate(me) is Fate.ALIVE


def test_nobody_has_a_pid_that_was_never_given_out(processes: SystemProcesses) -> None:
    nobody = processes.myself()._replace(pid=2**22 + 1)

    assert processes.identify(nobody.pid) is None
    assert processes.fate(nobody) is Fate.DEAD
    assert not processes.signal_process(nobody, signal.SIGKILL)


def test_a_detached_grandchild_is_found_through_the_guard_that_adopted_it(
    processes: SystemProcesses, run_id: str, spawn: Spawn
) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux lets a guard adopt orphans")
    guard = spawn(GUARD)
    grandchild = identified(processes, int(guard.line()))
    traces = Traces(run_id, identified(processes, guard.pid), None)

    assert processes.end(traces, grace_seconds=5, kill_seconds=5)

    assert processes.fate(grandchild) is Fate.DEAD
    assert guard.child.poll() is None


def test_a_detached_grandchild_is_found_by_the_run_id_in_its_environment(
    processes: SystemProcesses, run_id: str, spawn: Spawn
) -> None:
    agent = spawn(DETACHING, FENCEPOST_RUN_ID=run_id)
    grandchild = identified(processes, int(agent.line()))
    agent.child.wait()

    assert processes.members(Traces(run_id, None, None)) == [grandchild]
    assert kill_now(processes, Traces(run_id, None, None))
    assert processes.fate(grandchild) is Fate.DEAD


def test_a_detached_grandchild_is_found_in_its_cgroup(
    processes: SystemProcesses, run_id: str, spawn: Spawn, run_cgroup: str
) -> None:
    agent = spawn(IN_CGROUP, run_cgroup)
    grandchild = identified(processes, int(agent.line()))
    agent.child.wait()
    traces = Traces(run_id, None, run_cgroup)

    assert processes.members(traces) == [grandchild]
    assert kill_now(processes, traces)
    assert processes.fate(grandchild) is Fate.DEAD


def test_what_a_marked_process_starts_with_an_empty_environment_belongs_to_the_run(
    processes: SystemProcesses, run_id: str, spawn: Spawn
) -> None:
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {QUIET!r}], env={{}})"
    agent = spawn(child, FENCEPOST_RUN_ID=run_id)
    agent.line()

    assert len(processes.members(Traces(run_id, None, None))) == 2
    assert kill_now(processes, Traces(run_id, None, None))


def test_a_process_that_merely_mentions_the_run_is_a_stranger(
    processes: SystemProcesses, run_id: str, spawn: Spawn
) -> None:
    spawn(QUIET, f"FENCEPOST_RUN_ID={run_id}").line()
    spawn(QUIET, FENCEPOST_RUN_ID=f"{run_id}0").line()
    spawn(QUIET, X_FENCEPOST_RUN_ID=run_id).line()

    assert processes.members(Traces(run_id, None, None)) == []


def test_a_process_that_obeys_ends_in_its_own_way(processes: SystemProcesses, run_id: str, spawn: Spawn) -> None:
    agent = spawn(POLITE, FENCEPOST_RUN_ID=run_id)
    agent.line()

    assert processes.end(Traces(run_id, None, None), grace_seconds=10, kill_seconds=5)
    assert agent.child.wait() == 7


def test_a_process_that_ignores_the_request_is_killed_after_the_grace(
    processes: SystemProcesses, run_id: str, spawn: Spawn
) -> None:
    agent = spawn(DEAF, FENCEPOST_RUN_ID=run_id)
    agent.line()
    asked_ns = SystemClock().awake_ns()

    assert processes.end(Traces(run_id, None, None), grace_seconds=0.2, kill_seconds=5)

    assert agent.child.wait() == -signal.SIGKILL
    assert SystemClock().awake_ns() - asked_ns >= 200_000_000


def test_a_stopped_process_is_woken_to_act_on_the_request(
    processes: SystemProcesses, run_id: str, spawn: Spawn
) -> None:
    agent = stopped(spawn(POLITE, FENCEPOST_RUN_ID=run_id))

    assert processes.end(Traces(run_id, None, None), grace_seconds=10, kill_seconds=5)
    assert agent.child.wait() == 7


def test_a_stopped_process_is_killed(processes: SystemProcesses, run_id: str, spawn: Spawn) -> None:
    agent = stopped(spawn(DEAF, FENCEPOST_RUN_ID=run_id))

    assert kill_now(processes, Traces(run_id, None, None))
    assert agent.child.wait() == -signal.SIGKILL


def stopped(agent: Spawned) -> Spawned:
    agent.line()
    agent.child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, agent.pid, os.WSTOPPED | os.WNOWAIT)
    return agent


def test_a_process_that_a_member_starts_to_clean_up_is_left_to_its_work(
    processes: SystemProcesses, run_id: str, spawn: Spawn
) -> None:
    cleaning = """
import os, signal, subprocess, sys
def clean(*_):
    code = "import time; time.sleep(0.2)"
    sys.exit(subprocess.run([sys.executable, "-S", "-c", code]).returncode + 3)
signal.signal(signal.SIGTERM, clean)
print(flush=True)
signal.pause()
"""
    agent = spawn(cleaning, FENCEPOST_RUN_ID=run_id)
    agent.line()

    assert processes.end(Traces(run_id, None, None), grace_seconds=10, kill_seconds=5)
    assert agent.child.wait() == 3


def test_a_stranger_with_the_recorded_pid_is_never_signalled(
    processes: SystemProcesses, run_id: str, spawn: Spawn
) -> None:
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {QUIET!r}])"
    stranger = spawn(parent)
    stranger.line()
    recorded = identified(processes, stranger.pid)._replace(started="1")

    assert processes.fate(recorded) is Fate.DEAD
    assert not processes.signal_process(recorded, signal.SIGKILL)
    assert processes.members(Traces(run_id, recorded, None)) == []
    assert kill_now(processes, Traces(run_id, recorded, None))
    assert stranger.child.poll() is None
    assert kill_now(processes, Traces(run_id, identified(processes, stranger.pid), None))  # its child, for tidiness


def test_the_very_process_is_signalled(processes: SystemProcesses, spawn: Spawn) -> None:
    child = spawn(POLITE)
    child.line()

    assert processes.signal_process(identified(processes, child.pid), signal.SIGTERM)
    assert child.child.wait() == 7


def test_a_zombie_counts_as_dead(processes: SystemProcesses, run_id: str, spawn: Spawn) -> None:
    child = spawn("", FENCEPOST_RUN_ID=run_id)
    wait_unreaped(child)
    zombie = identified(processes, child.pid)

    assert processes.fate(zombie) is Fate.DEAD
    assert not processes.signal_process(zombie, signal.SIGKILL)
    assert processes.members(Traces(run_id, None, None)) == []


@pytest.mark.parametrize(
    ("elsewhere", "fate"),
    [
        ({"boot": "another"}, Fate.DEAD),
        ({"boot": "another", "name": "a-clone"}, Fate.UNKNOWN),
        ({"machine": "another"}, Fate.UNKNOWN),
        ({"machine": "another", "boot": "another"}, Fate.UNKNOWN),
        ({"pid_namespace": "another"}, Fate.UNKNOWN),
        ({"name": "renamed"}, Fate.ALIVE),
    ],
)
def test_a_pid_decides_nothing_on_another_host(
    processes: SystemProcesses, elsewhere: dict[str, str], fate: Fate
) -> None:
    me = processes.myself()
    other = me._replace(host=me.host._replace(**elsewhere))

    assert processes.fate(other) is fate
    assert processes.signal_process(other, 0) is (fate is Fate.ALIVE)


@pytest.mark.parametrize("mount", [["--mount-proc"], []], ids=["own-proc", "outer-proc"])
def test_a_pid_namespace_keeps_its_processes_apart(run_id: str, mount: list[str]) -> None:
    inside = f"""
import os, subprocess, sys
from fencepost.host.clock import SystemClock
from fencepost.host.processes import system_processes
from fencepost.ports.processes import Traces
processes = system_processes(SystemClock())
me = processes.myself()
agent = subprocess.Popen([sys.executable, "-S", "-c", {DETACHING!r}], env={{"FENCEPOST_RUN_ID": {run_id!r}}},
                         stdout=subprocess.PIPE)
grandchild = processes.identify(int(agent.stdout.readline()))
agent.wait()
assert processes.members(Traces({run_id!r}, me, None)) == [grandchild]
assert processes.members(Traces({run_id!r}, None, None)) == [grandchild]
assert processes.end(Traces({run_id!r}, None, None), grace_seconds=0, kill_seconds=5)
print(me.pid, me.started, me.host.pid_namespace, me.host.machine)
"""
    done = subprocess.run(
        ["unshare", "--pid", "--fork", *mount, sys.executable, "-c", inside],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    if "unshare failed" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip("this host does not let us make pid namespaces")
    assert done.stderr == ""
    pid, started, namespace, machine = done.stdout.split()
    here = this_host()
    inner = ProcessId(here._replace(pid_namespace=namespace, machine=machine), int(pid), started)

    assert pid == "1"
    assert machine != here.machine
    assert system_processes(SystemClock()).fate(inner) is Fate.UNKNOWN
    same_machine = inner._replace(host=inner.host._replace(machine=here.machine))
    assert system_processes(SystemClock()).fate(same_machine) is Fate.UNKNOWN


def test_a_name_with_blanks_and_brackets_is_read_past(processes: SystemProcesses, spawn: Spawn) -> None:
    renamed = "open('/proc/self/comm', 'w').write('a) R 1 (b c'); " + QUIET
    if sys.platform != "linux":
        pytest.skip("only Linux lets a process rename itself so")
    child = spawn(renamed)
    child.line()

    assert processes.fate(identified(processes, child.pid)) is Fate.ALIVE


def test_a_line_of_stat_is_read_from_behind_the_last_bracket() -> None:
    stat = b"42 (a) R 1 (b c) S 7 42 42 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 98765 0 0 0\n"

    assert parse(stat) == ProcessRow(pid=42, parent=7, started="98765", gone=False)


def test_a_process_whose_first_thread_ended_is_alive(run_id: str, spawn: Spawn) -> None:
    headless = """
import ctypes, signal, threading
def work():
    with open("/proc/self/stat") as stat:
        while " Z " not in stat.read(): stat.seek(0)
    print(flush=True)
    threading.Event().wait()
threading.Thread(target=work).start()
ctypes.CDLL(None).pthread_exit(0)
"""
    if sys.platform != "linux":
        pytest.skip("ps cannot tell")
    child = spawn(headless, FENCEPOST_RUN_ID=run_id)
    child.line()
    processes = system_processes(SystemClock())

    assert processes.fate(identified(processes, child.pid)) is Fate.ALIVE
    child.child.kill()
    wait_unreaped(child)
    assert processes.fate(identified(processes, child.pid)) is Fate.DEAD


def test_the_guard_and_the_spared_are_never_members(processes: SystemProcesses, run_id: str, spawn: Spawn) -> None:
    guard, spared, ended = (spawn(QUIET, FENCEPOST_RUN_ID=run_id) for _ in range(3))
    for child in (guard, spared, ended):
        child.line()
    traces = Traces(run_id, identified(processes, guard.pid), None)

    assert [member.pid for member in processes.members(traces, spare=[spared.pid])] == [ended.pid]
    assert kill_now(processes, traces, spared.pid)
    assert guard.child.poll() is None
    assert spared.child.poll() is None
    assert ended.child.wait() == -signal.SIGKILL


def test_a_caller_inside_the_cgroup_outlives_the_end_of_the_run(run_id: str, spawn: Spawn, run_cgroup: str) -> None:
    inside = f"""
import subprocess, sys
from fencepost.host import cgroup
from fencepost.host.clock import SystemClock
from fencepost.host.processes import system_processes
from fencepost.ports.processes import Traces
assert cgroup.enter(sys.argv[1])
child = subprocess.Popen([sys.executable, "-S", "-c", {DEAF!r}])
print(system_processes(SystemClock()).end(Traces(sys.argv[2], None, sys.argv[1]), grace_seconds=0, kill_seconds=5))
print(child.wait())
"""
    caller = spawn(inside, run_cgroup, run_id)

    assert b"True\n-9\n" in caller.output().read()
    assert caller.child.wait() == 0


# Each generation starts the next; the even ones leave, the odd ones stay.
RESPAWNING = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(flush=True)
for generation in range(int(sys.argv[-1])):
    if os.fork():
        if generation % 2: signal.pause()
        os._exit(0)
signal.pause()
"""


def test_a_tree_that_keeps_forking_is_ended(processes: SystemProcesses, run_id: str, spawn: Spawn) -> None:
    generations = "200" if isinstance(processes._table, ProcTable) else "40"  # each costs the fallback a ps
    spawn(RESPAWNING, generations, FENCEPOST_RUN_ID=run_id).line()

    assert kill_now(processes, Traces(run_id, None, None))
    assert processes.members(Traces(run_id, None, None)) == []


def test_a_tree_that_keeps_forking_is_ended_with_its_cgroup(run_id: str, spawn: Spawn, run_cgroup: str) -> None:
    script = f"import sys; from fencepost.host import cgroup; cgroup.enter(sys.argv[1])\nexec({RESPAWNING!r})"
    spawn(script, run_cgroup, "200").line()

    assert kill_now(system_processes(SystemClock()), Traces(run_id, None, run_cgroup))
    assert cgroup.pids(run_cgroup) == []


class Haunted:
    """A table with one process that no signal reaches."""

    looks_needed = looks_max = 1
    GHOST = ProcessRow(pid=2**22 + 2, parent=1, started="1", gone=False)

    def row(self, pid: int) -> ProcessRow | None:
        return self.rows({}).get(pid)

    def rows(self, known: Mapping[int, ProcessRow]) -> dict[int, ProcessRow]:  # noqa: ARG002
        return {self.GHOST.pid: self.GHOST}

    def marked(self, marker: str, among: Iterable[ProcessRow]) -> MarkedProcesses:  # noqa: ARG002
        return MarkedProcesses({row.pid for row in among}, set())

    def is_older(self, row: ProcessRow, than: str) -> bool:  # noqa: ARG002
        return False


def test_what_cannot_be_killed_is_admitted_in_bounded_time() -> None:
    clock = ManualClock()
    began = clock.awake
    processes = SystemProcesses(clock, Haunted(), this_host())

    assert not processes.end(Traces("r", None, None), grace_seconds=1, kill_seconds=2)
    assert clock.awake - began == pytest.approx(3_000_000_000)
    assert max(clock.waits) <= 0.05


class Bustling:
    """A table of a busy host: at each look somebody has just ended, and nobody knows whom it started."""

    looks_needed = 1
    looks_max = 200
    NEIGHBOURS = 150

    def __init__(self, *, hides_until: int | None = None) -> None:
        self.looks = self.questions = 0
        self._hides_until = hides_until  # the look at which a process of the run shows itself
        self.entries = {pid: pid for pid in range(1, self.NEIGHBOURS + 1)}

    def row(self, pid: int) -> ProcessRow | None:  # noqa: ARG002
        return None

    def rows(self, known: Mapping[int, ProcessRow]) -> dict[int, ProcessRow]:
        self.looks += 1
        found = {
            pid: known.get(pid, ProcessRow(pid, 0, "1", gone=False, entry=entry)) for pid, entry in self.entries.items()
        }
        passing = ProcessRow(10_000 + self.looks, 1, "", gone=True, entry=7)
        found[passing.pid] = passing
        if self._hides_until is not None and self.looks == self._hides_until:
            found[20_000] = ProcessRow(20_000, 1, "2", gone=False, entry=8)
        return found

    def marked(self, marker: str, among: Iterable[ProcessRow]) -> MarkedProcesses:  # noqa: ARG002
        asked = [row.pid for row in among]
        self.questions += len(asked)
        return MarkedProcesses({pid for pid in asked if pid == 20_000}, set())

    def is_older(self, row: ProcessRow, than: str) -> bool:  # noqa: ARG002
        return False


def test_neighbours_who_fork_a_lot_are_asked_once_and_not_at_every_look() -> None:
    """A takeover waits for the proof that nobody is left; who forks beside us must not make it seconds long."""
    table = Bustling()

    assert SystemProcesses(ManualClock(), table, this_host()).end(
        Traces("r", None, None), grace_seconds=0, kill_seconds=2
    )
    assert table.looks == table.looks_max
    assert table.questions == table.NEIGHBOURS


def test_one_who_hides_between_looks_is_found_and_everybody_is_asked_again() -> None:
    table = Bustling(hides_until=30)

    assert SystemProcesses(ManualClock(), table, this_host()).end(
        Traces("r", None, None), grace_seconds=0, kill_seconds=2
    )
    assert table.looks == 30 + table.looks_max, "after a find it takes as many empty looks as before"
    assert table.questions == 2 * table.NEIGHBOURS + 1


def test_a_known_row_is_taken_unless_another_process_has_its_pid_or_it_lost_its_parent() -> None:
    table = ProcTable()
    rows = table.rows({})
    mine = rows[os.getpid()]

    assert table.rows(rows)[mine.pid] is mine
    assert table.rows({**rows, mine.pid: mine._replace(entry=mine.entry + 1)})[mine.pid] is not mine
    orphaned = {pid: row for pid, row in rows.items() if pid != mine.parent}
    assert table.rows(orphaned)[mine.pid] is not mine


REUSED = """
import os, subprocess
from fencepost.host.proc_table import ProcTable
table = ProcTable()
def sleeper():
    return subprocess.Popen(["sleep", "60"])
first = sleeper()
before = table.rows({})
first.kill(), first.wait()
with open("/proc/sys/kernel/ns_last_pid", "w") as file:
    file.write(str(first.pid - 1))
second = sleeper()
assert second.pid == first.pid, (first.pid, second.pid)
after = table.rows(before)
second.kill(), second.wait()
print(before[first.pid].entry != after[second.pid].entry)
"""


def test_another_process_under_a_known_pid_is_read_anew() -> None:
    if subprocess.run(["unshare", "--pid", "--fork", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this host lets us make no pid namespace, in which a pid can be given out again")
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-S", "-c", REUSED]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)

    assert told.stdout == "True\n", told.stderr


class Veiled(Haunted):
    """A table that hides other users' processes, as /proc does with hidepid=1."""

    def row(self, pid: int) -> ProcessRow | None:
        raise PermissionError(pid)


class Absent(Haunted):
    """A table that leaves other users' processes out, as /proc does with hidepid=2."""

    def row(self, pid: int) -> ProcessRow | None:  # noqa: ARG002
        return None


@pytest.mark.parametrize("table", [Veiled(), Absent()])
def test_a_process_that_is_hidden_from_us_is_not_called_dead(table: Haunted) -> None:
    processes = SystemProcesses(ManualClock(), table, this_host())
    hidden = ProcessId(processes.here(), os.getpid(), "1")

    assert processes.fate(hidden) is Fate.UNKNOWN
    assert processes.identify(hidden.pid) is None
    assert not processes.signal_process(hidden, signal.SIGKILL)
