"""Random holders with short leases, random kills and freezes, and a witness that sees real overlap.

    python -m tests.chaos.holders --rounds 300 --store sqlite

Each round starts a victim and a successor that waits for it, does something to the victim, and watches who runs.
"""

# ruff: noqa: T201  # it prints its findings

import argparse
import json
import os
import random  # noqa: TID251  # the seed is an argument and is printed
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from fencepost.host.clock import SystemClock
from tests.support.ground import Ground, Program, children, is_alive, send, state_of, until

TTL = "1500ms"  # short enough to run out often, long enough for a machine that is not overloaded to renew
PATIENCE_SECONDS = 60.0
FOR_EVER = "600"

# Says when it starts and ends, and holds a lock that the kernel takes away only when the whole tree is dead.
WITNESS = """
import fcntl, os, signal, sys, time
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
def say(what):
    stamp = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    os.write(log, f"{what} {os.environ['FENCEPOST_FENCE']} {os.getpid()} {sys.argv[3]} {stamp}\\n".encode())
lock = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT, 0o600)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    say("overlap")
    os._exit(99)
if sys.argv[5] == "detach" and os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.close(0), os.close(1), os.close(2)
    time.sleep(600)
say("start")
time.sleep(float(sys.argv[4]))
say("end")
"""


def ttl_now() -> str:
    """Return a ttl that a living holder can keep up on a machine as busy as this one: else it is lost, and rightly so."""
    waiting = os.getloadavg()[0] / (os.cpu_count() or 1)
    return TTL if waiting < 1 else "3s" if waiting < 2 else "6s"


@dataclass(frozen=True)
class Seen:
    """One line of a witness."""

    what: str
    fence: int
    pid: int
    name: str
    at_ns: int


@dataclass
class Totals:
    """What was done, and what came of it."""

    rounds: Counter[str] = field(default_factory=Counter)
    bites: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    takeover_seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    starts: int = 0

    def summary(self) -> dict[str, object]:
        times = sorted(self.takeover_seconds)
        return {
            "rounds": self.rounds.total(),
            "bites": self.bites.total(),
            "starts": self.starts,
            "takeovers": len(times),
            "takeover_min_s": round(times[0], 3) if times else None,
            "takeover_median_s": round(statistics.median(times), 3) if times else None,
            "takeover_max_s": round(times[-1], 3) if times else None,
            "failures": len(self.failures),
        }


class Lane:
    """One lock and those who want it, a round at a time."""

    def __init__(self, ground: Ground, number: int, seed: int, totals: Totals, faults: Sequence[str]) -> None:
        self.faults = faults
        self.ground = ground
        self.lock = f"chaos-{number}"
        self.totals = totals
        self.random = random.Random(seed)
        self.log = ground.folder / f"{self.lock}.log"
        self.log.touch()
        self.script = ground.folder / f"{self.lock}.py"
        self.script.write_text(WITNESS)
        self.clock = SystemClock()
        self.turn = 0

    def run(self, rounds: int) -> None:
        """Do the rounds, then look at what the witness saw."""
        names: list[str] = []
        for _ in range(rounds):
            names = names or list(self.faults)
            name = names.pop(self.random.randrange(len(names)))
            self.totals.rounds[name] += 1
            try:
                FAULTS[name](self)
            except (AssertionError, TimeoutError, subprocess.TimeoutExpired) as error:
                left = {pid: (state_of(pid), line) for pid, line in self.ground.alive().items() if self.lock in line}
                self.totals.failures.append(f"{self.lock} turn {self.turn} {name}: {error!r}; alive: {left}")
        self._judge()

    def start(self, name: str, *, wait: bool, seconds: str = FOR_EVER, ttl: str = "") -> Program:
        words = ("--wait=40s",) if wait else ()
        detach = self.random.choice(["detach", "alone"])
        witness = [
            sys.executable,
            "-S",
            "-E",
            str(self.script),
            str(self.log),
            f"{self.log}.lock",
            name,
            seconds,
            detach,
        ]
        return self.ground.start("exec", "--lock", self.lock, "--ttl", ttl or ttl_now(), *words, "--", *witness)

    def victim(self, *, ttl: str = "") -> tuple[Program, int, int]:
        """Start a victim and return it with its guard and its agent once that runs."""
        self.turn += 1
        name = f"victim-{self.turn}"
        program = self.start(name, wait=True, ttl=ttl)
        seen = self.saw("start", name, unless=program)
        return program, children(program.pid)[0], seen.pid

    def successor(self) -> tuple[Program, str]:
        """Start one that waits for the victim's end."""
        name = f"successor-{self.turn}"
        program = self.start(name, wait=True, seconds="0.01")
        until(lambda: self.is_queued(program.pid), "the successor waits", seconds=PATIENCE_SECONDS)
        return program, name

    def is_queued(self, pid: int) -> bool:
        store = self.ground.store()
        try:
            return any(waiter.process.pid == pid for waiter in store.waiters())
        finally:
            store.close()

    def saw(self, what: str, name: str, *, unless: Program | None = None) -> Seen:
        """Wait until a witness says so, or until the program ends that should let it."""
        found: list[Seen] = []

        def look() -> bool:
            ended = unless is not None and unless.poll() is not None
            found[:] = [seen for seen in self.witnessed() if (seen.what, seen.name) == (what, name)]
            return bool(found) or ended

        until(look, f"{name} says {what}", seconds=PATIENCE_SECONDS)
        assert found, f"{name} never said {what}: {unless and self.ground.told(unless)}"
        return found[0]

    def witnessed(self) -> list[Seen]:
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return [Seen(what, int(fence), int(pid), name, int(at)) for what, fence, pid, name, at in lines]

    def ended(self, program: Program, *codes: int) -> int:
        """Wait for the end and compare its code with what is legal."""
        told = self.ground.told(program, seconds=PATIENCE_SECONDS)
        self.totals.codes[str(told.code)] += 1
        assert told.code in codes, f"{told.code} not in {codes}: {told}"
        return told.code

    def taken_over(self, successor: Program, name: str, since_ns: int) -> None:
        seen = self.saw("start", name, unless=successor)
        self.totals.takeover_seconds.append((seen.at_ns - since_ns) / 1e9)
        self.ended(successor, 0)

    def bit(self, name: str) -> None:
        self.totals.bites[name] += 1

    def _judge(self) -> None:
        seen = self.witnessed()
        starts = [one.fence for one in seen if one.what == "start"]
        self.totals.starts += len(starts)
        overlaps = [one for one in seen if one.what == "overlap"]
        if overlaps:
            self.totals.failures.append(f"{self.lock}: two agents at once: {overlaps}")
        if any(before >= after for before, after in pairwise(starts)):
            self.totals.failures.append(f"{self.lock}: fences do not rise: {starts}")
        told = self.ground.run("exec", "--lock", self.lock, "--", "true")
        if told.code != 0:
            self.totals.failures.append(f"{self.lock} is not free at the end: {told}")


def no_fault(lane: Lane) -> None:
    lane.turn += 1
    program = lane.start(f"calm-{lane.turn}", wait=True, seconds="0.05")
    lane.ended(program, 0)
    lane.bit("no fault")


def kill_supervisor(lane: Lane) -> None:
    program, _, agent = lane.victim(ttl="60s")
    successor, name = lane.successor()
    at_ns = lane.clock.awake_ns()
    program.kill()
    lane.taken_over(successor, name, at_ns)
    lane.ended(program, -signal.SIGKILL)
    assert not is_alive(agent), "the old agent lives"
    lane.bit("kill supervisor")


def kill_guard(lane: Lane) -> None:
    program, guard, agent = lane.victim(ttl="60s")
    successor, name = lane.successor()
    at_ns = lane.clock.awake_ns()
    send(guard, signal.SIGKILL)
    lane.ended(program, 1)
    assert not is_alive(agent), "the old agent lives"
    lane.taken_over(successor, name, at_ns)
    lane.bit("kill guard")


def kill_agent(lane: Lane) -> None:
    program, _, agent = lane.victim(ttl="60s")
    successor, name = lane.successor()
    send(agent, signal.SIGKILL)
    lane.ended(program, 128 + signal.SIGKILL)
    lane.ended(successor, 0)
    lane.saw("start", name)
    lane.bit("kill agent")


def kill_both(lane: Lane) -> None:
    program, guard, agent = lane.victim(ttl="60s")
    successor, name = lane.successor()
    at_ns = lane.clock.awake_ns()
    for pid in lane.random.sample([program.pid, guard], 2):
        send(pid, signal.SIGKILL)
    lane.taken_over(successor, name, at_ns)
    lane.ended(program, -signal.SIGKILL, 1)
    assert not is_alive(agent), "the old agent lives"
    lane.bit("kill supervisor and guard")


def kill_early(lane: Lane) -> None:
    """Kill at a random moment of the start-up; whoever comes next need not wait."""
    lane.turn += 1
    name = f"early-{lane.turn}"
    program = lane.start(name, wait=True, ttl="60s")
    select.select([], [], [], lane.random.uniform(0, 0.3))
    who = [program.pid, *children(program.pid)]
    send(lane.random.choice(who), signal.SIGKILL)
    if is_alive(program.pid) and len(who) > 1:
        lane.bit("kill early: guard")
    else:
        lane.bit("kill early: supervisor")
    program.poll()
    select.select([], [], [], 0.02)
    program.kill()
    code = program.wait(
        PATIENCE_SECONDS
    )  # not for the end of its output: with both killed, the agent lives on till next
    lane.totals.codes[str(code)] += 1
    assert code in (-signal.SIGKILL, 1), code
    at_ns = lane.clock.awake_ns()
    after = lane.start(f"after-{lane.turn}", wait=False, seconds="0")
    lane.ended(after, 0)
    lane.totals.takeover_seconds.append((lane.saw("start", f"after-{lane.turn}").at_ns - at_ns) / 1e9)


def freeze(lane: Lane, which: Callable[[Program, int, int], list[int]], name: str) -> None:
    """Freeze beyond the ttl; the successor takes over, and who wakes up finds itself replaced."""
    program, guard, agent = lane.victim()
    successor, successor_name = lane.successor()
    frozen = which(program, guard, agent)
    at_ns = lane.ground.freeze(*frozen)
    try:
        lane.taken_over(successor, successor_name, at_ns)
        assert not is_alive(agent), "the old agent lives"
    finally:
        for pid in frozen:
            send(pid, signal.SIGCONT)
    lane.ended(program, 76)
    lane.bit(name)


def freeze_supervisor(lane: Lane) -> None:
    freeze(lane, lambda program, *_: [program.pid], "freeze supervisor")


def freeze_all(lane: Lane) -> None:
    freeze(lane, lambda program, guard, agent: [agent, guard, program.pid], "freeze all")


def freeze_briefly(lane: Lane) -> None:
    """A nap shorter than the lease costs nothing."""
    program, guard, agent = lane.victim(ttl="6s")
    pid = lane.random.choice([program.pid, guard, agent])
    lane.ground.freeze(pid)
    select.select([], [], [], 0.2)
    send(pid, signal.SIGCONT)
    assert is_alive(agent), "the agent was ended"
    program.terminate()
    lane.ended(program, 128 + signal.SIGTERM)
    lane.bit("freeze briefly")


def break_lease(lane: Lane) -> None:
    program, _, agent = lane.victim()
    successor, name = lane.successor()
    at_ns = lane.clock.awake_ns()
    assert lane.ground.run("lease", "break", f"lock:{lane.lock}", "--store", lane.ground.store_url).code == 0
    lane.taken_over(successor, name, at_ns)
    lane.ended(program, 76)
    assert not is_alive(agent), "the old agent lives"
    lane.bit("break lease")


FAULTS: dict[str, Callable[[Lane], None]] = {
    "no fault": no_fault,
    "kill supervisor": kill_supervisor,
    "kill guard": kill_guard,
    "kill agent": kill_agent,
    "kill supervisor and guard": kill_both,
    "kill early": kill_early,
    "freeze supervisor": freeze_supervisor,
    "freeze all": freeze_all,
    "freeze briefly": freeze_briefly,
    "break lease": break_lease,
}


def rampage(ground: Ground, *, rounds: int, seed: int, lanes: int = 2, faults: Sequence[str] = ()) -> Totals:
    """Run the rounds on several locks at once and return what happened."""
    totals = Totals()
    crew = [Lane(ground, number, seed * 1000 + number, totals, faults or list(FAULTS)) for number in range(lanes)]
    shares = [rounds // lanes + (number < rounds % lanes) for number in range(lanes)]
    threads = [threading.Thread(target=lane.run, args=(share,)) for lane, share in zip(crew, shares, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        ground.wait_empty(seconds=20)
    except TimeoutError as error:
        totals.failures.append(str(error))
    if ground.run_folders():
        totals.failures.append(f"run folders are left: {ground.run_folders()}")
    return totals


@contextmanager
def store_of(kind: str) -> Iterator[str | None]:
    if kind == "sqlite":
        yield None
        return
    from tests.support.postgres import PostgresServer  # noqa: PLC0415  # only who asks for it pays

    with PostgresServer.private({"fsync": "on", "full_page_writes": "on"}) as server:
        yield server.create_database()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3)))
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--no-cgroup", action="store_true")
    parser.add_argument("--only", action="append", choices=list(FAULTS), default=[])
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    with tempfile.TemporaryDirectory(prefix="fencepost-chaos-") as folder, store_of(arguments.store) as store:
        ground = Ground(Path(folder), store=store, cgroup=not arguments.no_cgroup)
        try:
            totals = rampage(
                ground, rounds=arguments.rounds, seed=arguments.seed, lanes=arguments.lanes, faults=arguments.only
            )
        finally:
            ground.close()
    for name in FAULTS:
        print(f"{totals.rounds[name]:5} rounds of {name}")
    print("bites:", dict(totals.bites))
    print("codes:", dict(totals.codes))
    for failure in totals.failures:
        print("FAILED", failure)
    print(json.dumps({"store": arguments.store, "seed": arguments.seed, **totals.summary()}))
    return 1 if totals.failures else 0


if __name__ == "__main__":
    sys.exit(main())
