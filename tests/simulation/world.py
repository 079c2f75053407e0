"""The world: one true clock, one seeded source of chance, and the tasks whose turns it deals out.

Every simulated process is made of tasks. A task runs until it pauses, and it pauses at each call of a port;
who goes next is decided by the time that the pause takes and, among equals, by chance. Nothing here looks at
a real clock, and nothing waits: when nobody can go on, time jumps to the next event.
"""

import random  # noqa: TID251  # seeded
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from heapq import heappop, heappush
from typing import NoReturn, Protocol

from greenlet import greenlet  # type: ignore[import-untyped]  # it brings no types

SECOND = 1_000_000_000
MILLISECOND = 1_000_000


class Killed(BaseException):
    """The process of this task is dead: unwind, and touch nothing on the way."""


class Violation(AssertionError):
    """Something happened that must never happen."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant


class Owner(Protocol):
    """Whose tasks they are: a process, which can die, be stopped, or sleep with its host."""

    alive: bool

    def held_back_ns(self, due_ns: int) -> int | None:
        """Return when a task that is due can really go on, or None if not before somebody wakes it."""
        ...

    def stash(self, task: "Task") -> None:
        """Keep a task that was due while its process was stopped."""
        ...


class Task:
    """One thread of a simulated process."""

    __slots__ = ("name", "owner", "run", "turn")

    def __init__(self, name: str, owner: Owner | None, run: greenlet) -> None:
        self.name = name
        self.owner = owner
        self.run = run
        self.turn = 0  # a wake-up that was meant for an earlier pause is told by it

    @property
    def doomed(self) -> bool:
        """Whether its process has died."""
        return self.owner is not None and not self.owner.alive


class World:
    """Deals out turns, keeps the time, and writes everything down."""

    def __init__(self, seed: int, spared: frozenset[int] = frozenset()) -> None:
        self.seed = seed
        self.rng = random.Random(seed)  # seeded, so that a run can be repeated
        self.now_ns = 0
        self.trace: list[str] = []
        self.totals: Counter[str] = Counter()
        self.until_ns = 1 << 62
        self.quiet = False  # no more faults from here on
        self.strikes: dict[int, str] = {}  # the faults so far, by their number
        self._spared = spared
        self._faults = 0
        self.violation: Violation | None = None
        self.has_dead = False  # whether somebody died since the dead were buried
        self._hub = greenlet.getcurrent()
        self._current: Task | None = None
        self._tasks: list[Task] = []
        self._queue: list[tuple[int, float, int, Task, int]] = []
        self._pushed = 0

    def log(self, who: str, what: str) -> None:
        """Add an event to the trace."""
        self.trace.append(f"{self.now_ns / SECOND:.6f} {who} {what}")

    def digest(self) -> str:
        """Return what two runs of one seed must agree in."""
        return sha256("\n".join(self.trace).encode()).hexdigest()

    def chance(self, probability: float) -> bool:
        """Throw the dice."""
        return self.rng.random() < probability

    def strike(self, what: str) -> bool:
        """Number a fault that is about to be done, and tell whether it shall be: shrinking leaves some out."""
        self._faults += 1
        if self._faults in self._spared:
            return False
        self.strikes[self._faults] = f"{self.now_ns / SECOND:.6f} {what}"
        return True

    def fail(self, invariant: str, message: str) -> NoReturn:
        """Report a broken promise; the first one counts, whatever the code under test makes of it."""
        violation = Violation(invariant, message)
        self.violation = self.violation or violation
        self.log("checker", f"VIOLATION {violation}")
        raise violation

    def spawn(self, name: str, owner: Owner | None, work: Callable[[], object], *, after_ns: int = 0) -> Task:
        """Start a task."""
        task = Task(name, owner, greenlet(lambda: self._guarded(name, work), parent=self._hub))
        self._tasks.append(task)
        self._push(task, self.now_ns + after_ns)
        return task

    def pause(self, ns: int) -> None:
        """Let the others go on for so long; the running task comes back when it is due and able."""
        self._push(self._running(), self.now_ns + ns)
        self._switch()

    def park(self) -> None:
        """Pause until somebody wakes the running task."""
        self._running().turn += 1
        self._switch()

    def current(self) -> Task:
        """Return the running task."""
        return self._running()

    def check_alive(self) -> None:
        """Stop a task whose process died while it was about to do something."""
        if self._current is not None and self._current.doomed:
            raise Killed

    def wake(self, task: Task) -> None:
        """Let a pausing task go on now."""
        if not task.run.dead:
            self._push(task, self.now_ns)

    def run(self) -> None:
        """Go on until nobody has anything to do, or until the end of the time that there is."""
        while self._queue and self._queue[0][0] <= self.until_ns:
            due_ns, _, _, task, turn = heappop(self._queue)
            if task.turn != turn or task.run.dead or task.doomed:
                continue
            later_ns = task.owner.held_back_ns(due_ns) if task.owner else due_ns
            if later_ns is None:
                assert task.owner is not None
                task.owner.stash(task)
            elif later_ns > due_ns:
                self._push(task, later_ns)
            else:
                self.now_ns = due_ns
                self._resume(task)
                self._bury()

    def close(self) -> None:
        """End every task."""
        for task in self._tasks:
            self._throw(task)
        self._tasks.clear()

    def _bury(self) -> None:
        """Unwind the tasks of the dead, as the kernel would: their files are closed, and nothing else happens."""
        if self.has_dead:
            self.has_dead = False
            for task in self._tasks:
                if task.doomed:
                    self._throw(task)
            self._tasks = [task for task in self._tasks if not task.run.dead]
        if self.violation:
            raise self.violation

    def _throw(self, task: Task) -> None:
        self._current = task
        with suppress(Killed):  # a task that never had a turn has nothing to unwind
            if not task.run.dead:
                task.run.throw(Killed())
        self._current = None

    def _resume(self, task: Task) -> None:
        self._current = task
        task.run.switch()
        self._current = None

    def _switch(self) -> None:
        self._hub.switch()
        self.check_alive()

    def _push(self, task: Task, at_ns: int) -> None:
        task.turn += 1
        self._pushed += 1
        heappush(self._queue, (at_ns, self.rng.random(), self._pushed, task, task.turn))

    def _running(self) -> Task:
        assert self._current is not None, "only a task can pause"
        return self._current

    def _guarded(self, name: str, work: Callable[[], object]) -> None:
        try:
            work()
        except (Killed, Violation):
            pass  # a death is no news, and a violation has been noted
        except Exception as error:  # noqa: BLE001  # whatever else the code under test raises is a finding
            self.violation = self.violation or Violation("no crash", f"{name} raised {error!r}")
            self.violation.__cause__ = error
            self.log(name, f"raised {error!r}")


class Mailbox:
    """Messages to one task."""

    def __init__(self, world: World) -> None:
        self.items: list[tuple[str, object]] = []
        self._world = world
        self._reader: Task | None = None

    def put(self, subject: str, body: object = None) -> None:
        """Send a message and wake whoever waits for one."""
        self.items.append((subject, body))
        if self._reader is not None:
            reader, self._reader = self._reader, None
            self._world.wake(reader)

    def wait(self, ns: int | None) -> None:
        """Pause until a message is there or the time is up."""
        if self.items:
            return
        self._reader = self._world.current()
        if ns is None:
            self._world.park()
        else:
            self._world.pause(ns)
        self._reader = None
