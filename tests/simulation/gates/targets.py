"""What stands behind a simulated gate: a counter, and one kind's own way to compare fences where it is written.

Kinds that are files or folders are the real thing on a real disk. `landed` is called in the very step in which a write
takes effect, before anybody else gets a turn: what the checker knows is what happened, and not what an answer says.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple, Protocol

from fencepost.gates.directory import DirectoryGate
from fencepost.gates.file import FileGate
from fencepost.gates.sql.gate import open_sql_gate
from fencepost.host.secrets import own_secret
from fencepost.model.errors import GateUnreachable
from fencepost.model.gate import Proof
from fencepost.model.target import Target
from tests.simulation.clocks import GateClock
from tests.simulation.faults import Faults
from tests.simulation.hosts import Process
from tests.simulation.world import SECOND, World

FIRST_CHUNK = b'{"value": '
FROZEN = 0.1  # how often a writer is stopped right between its check and its write

Landed = Callable[[], None]


class Behind(Protocol):
    """One counter behind one gate, as one process sees it."""

    def raise_fence(self, proof: Proof, *, adopt: bool = False) -> None:
        """Lift the marks."""
        ...

    def read(self) -> int:
        """Return the counter, past the gate; takes no time."""
        ...

    def write(self, proof: Proof, value: int, landed: Landed) -> None:
        """Set the counter if the fence passes."""
        ...


class TargetScene(NamedTuple):
    """Where a counter is, who looks at it, and what may happen meanwhile."""

    path: str
    process: Process
    faults: Faults
    shared: dict[str, Any]  # what all processes see of servers, by path
    ttl_seconds: float

    @property
    def world(self) -> World:
        """The world."""
        return self.process.host.world

    @property
    def clock(self) -> GateClock:
        """A clock whose readings give others a turn."""
        return GateClock(self.world, self.process.host.time)

    def pause(self, process: Process | None = None) -> None:
        """Stand between check and write: a moment, or frozen for longer than a lease lasts."""
        who = process or self.process
        if not self.world.quiet and self.world.chance(FROZEN) and self.world.strike("a freeze between check and write"):
            self.world.totals["frozen between check and write"] += 1
            who.stop()
            self.world.spawn(f"{who.name}.thaw", None, lambda: self._thaw(who, self.world.rng.choice((1, 4, 8, 16))))
        self.faults.pause()

    def _thaw(self, who: Process, quarters: int) -> None:
        """Wake it after so many quarters of a lease, or when it is time to be quiet."""
        for _ in range(quarters):
            if not self.world.quiet:
                self.world.pause(int(self.ttl_seconds * SECOND / 4))
        who.thaw()


class FileBehind:
    """The real gate of a file; the bytes of a write come slowly."""

    def __init__(self, scene: TargetScene, pause: Callable[[], None] | None = None) -> None:
        self._path = scene.path
        self._pause = pause or scene.faults.pause
        self._real = FileGate(scene.path, clock=scene.clock)

    def raise_fence(self, proof: Proof, *, adopt: bool = False) -> None:
        self._real.raise_fence(proof, adopt=adopt)

    def read(self) -> int:
        try:
            with open(self._path, "rb") as file:
                return int(json.load(file)["value"])
        except FileNotFoundError:
            return 0

    def write(self, proof: Proof, value: int, landed: Landed) -> None:
        self._real.write(proof, self._bytes(value))
        landed()

    def _bytes(self, value: int) -> Iterator[bytes]:
        yield FIRST_CHUNK
        self._pause()
        yield b"%d}\n" % value


class DirectoryBehind:
    """The real gate of a directory; the copy is made, and then comes the pause."""

    def __init__(self, scene: TargetScene) -> None:
        self._scene = scene
        self._path = scene.path + ".site"
        self._real = DirectoryGate(self._path, clock=scene.clock)

    def raise_fence(self, proof: Proof, *, adopt: bool = False) -> None:
        self._real.raise_fence(proof, adopt=adopt)

    def read(self) -> int:
        try:
            with open(os.path.join(self._path, "value"), encoding="ascii") as file:
                return int(file.read())
        except FileNotFoundError:
            return 0

    def write(self, proof: Proof, value: int, landed: Landed) -> None:
        build = f"{self._path}.build-{proof.run_id}"
        os.makedirs(build, exist_ok=True)
        with open(os.path.join(build, "value"), "w", encoding="ascii") as file:
            file.write(str(value))
        self._real.publish(proof, build, pause=self._scene.pause)
        landed()


class SqliteBehind:
    """The real gate of a real database: mark and counter in one transaction, with a pause in the middle of it."""

    def __init__(self, scene: TargetScene) -> None:
        self._scene = scene
        self._file = scene.path + ".db"
        if not os.path.exists(self._file):
            with closing(sqlite3.connect(self._file)) as database:
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("CREATE TABLE counter (value INTEGER)")
                database.execute("INSERT INTO counter VALUES (0)")
                database.commit()
        self._real = open_sql_gate(Target("sql", f"sqlite:{self._file}", ()), clock=scene.clock, fetch=own_secret)

    def raise_fence(self, proof: Proof, *, adopt: bool = False) -> None:
        self._real.raise_fence(proof, adopt=adopt)

    def read(self) -> int:
        with closing(sqlite3.connect(self._file)) as database:
            return int(database.execute("SELECT value FROM counter").fetchone()[0])

    def write(self, proof: Proof, value: int, landed: Landed) -> None:
        try:
            with closing(sqlite3.connect(self._file, timeout=0, isolation_level=None)) as own:
                with self._real.transaction(proof, own):
                    own.execute("UPDATE counter SET value = -1")
                    self._scene.pause()
                    own.execute("UPDATE counter SET value = ?", (value,))
                landed()
        except sqlite3.OperationalError as error:
            raise GateUnreachable(f"the database is busy: {error}") from None
