"""The marks of a service, in a folder of its host, and who is inside: shared by requests, exclusive for a raise."""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Self

from fencepost.gates.mark_text import decode, encode
from fencepost.gates.open_beneath import sync
from fencepost.model.errors import GateUnreachable, Misconfigured
from fencepost.model.gate import Mark, Proof, check, raised

if TYPE_CHECKING:
    from fencepost.ports.clock import Clock

WAIT_SECONDS = 10.0
NAMES_SHOWN = 200
LOCKS = 32  # resources share that many locks; two that share one only wait for one another
PAUSE_FIRST, PAUSE_MAX = 0.001, 0.05
MARKS, FLIGHT = "marks.json", "flight-"
OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class RequestPassage:
    """A request inside: its resources cannot be raised before it is closed."""

    def __init__(self, marks: "RequestMarks", proof: Proof, files: list[int]) -> None:
        self._marks = marks
        self._proof = proof
        self._files = files
        self._flight = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def depart(self, seconds: float) -> None:
        """Write down, durably, that an effect is under way elsewhere: it counts as such so long, also if we die."""
        self._flight = self._marks.note_flight(self._proof, seconds)

    def arrived(self) -> None:
        """Say that the outcome is known."""
        if self._flight:
            self._marks.forget_flight(self._flight)
            self._flight = ""

    def close(self) -> None:
        """Let the next raise pass. May be called twice."""
        while self._files:
            os.close(self._files.pop())


class Flight(NamedTuple):
    """An effect that is under way elsewhere, and since when by two clocks: one may be set, the other begins anew at boot."""

    keys: list[str]
    fence: int
    at_us: int
    at_boot_ns: int
    seconds: float

    def rest_seconds(self, wall_us: int, boot_ns: int) -> float:
        """Return how long it may still take. The wall clock is asked only if the host was surely started anew since."""
        passed = (boot_ns - self.at_boot_ns) / 1e9 if boot_ns >= self.at_boot_ns else (wall_us - self.at_us) / 1e6
        return self.seconds - passed


class RequestMarks:
    """Marks that several processes of one host compare: the kernel lets go of the locks of those that die."""

    def __init__(self, folder: str, *, clock: "Clock", wait_seconds: float = WAIT_SECONDS) -> None:
        self._folder = os.path.realpath(os.path.expanduser(folder))
        self._clock = clock
        self._wait_seconds = wait_seconds
        os.makedirs(self._folder, mode=0o700, exist_ok=True)

    def enter(self, proof: Proof, target: str) -> RequestPassage:
        """Compare, and hold the resources until the passage is closed, or raise; a request never lifts a mark."""
        self._demand_raised(proof, target)  # a first look: what is refused anyway leaves no trace here
        files = self._locked(proof, fcntl.LOCK_SH, f"{target} is being raised for a newer run")
        try:
            self._demand_raised(proof, target)
        except BaseException:
            _release(files)
            raise
        return RequestPassage(self, proof, files)

    def raise_fence(self, proof: Proof, target: str, *, adopt: bool = False) -> None:
        """Lift the marks, then wait for requests that were let in before; when it returns, none of them is under way."""
        with self._turn(target):
            marks = self.read()
            check(proof, marks, target=target, adopt=adopt)
            lifted = raised(proof, marks, at_us=self._clock.wall_us())
            if lifted != marks:
                self._keep(MARKS, encode(lifted))
        # From here on no older request gets in. Those inside hold their locks.
        files = self._locked(proof, fcntl.LOCK_EX, f"{target}: requests of an earlier run are still under way")
        try:
            self._demand_no_flight(proof, target)
        finally:
            _release(files)

    def read(self) -> dict[str, Mark]:
        """Return the marks, none if no fence was ever raised here."""
        try:
            with open(os.path.join(self._folder, MARKS), "rb") as file:
                return decode(file.read())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise Misconfigured(f"{self._folder}/{MARKS} cannot be read ({error}), so no writer passes.") from None

    def note_flight(self, proof: Proof, seconds: float) -> str:
        """Write down what is under way elsewhere."""
        name = FLIGHT + os.urandom(12).hex()
        flight = Flight(proof.keys, proof.fence, self._clock.wall_us(), self._clock.boot_ns(), seconds)
        self._keep(name, json.dumps(flight._asdict()).encode())
        return name

    def forget_flight(self, name: str) -> None:
        """Strike it out."""
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self._folder, name))

    def _demand_raised(self, proof: Proof, target: str) -> None:
        """Refuse a stale fence, and one that was never raised here: a sender may have made it up."""
        marks = self.read()
        if marks:
            check(proof, marks, target=target)
        raised_to = [marks.get(key) for key in proof.keys]
        if not marks or any(mark is None or mark.fence != proof.fence for mark in raised_to):
            raise Misconfigured(
                f"{target} was never raised to fence {proof.fence} for all of {' '.join(proof.resources)[:NAMES_SHOWN]}, and a request "
                "does not raise it. Nothing was done. Declare the gate for the run, or raise it: fencepost gate raise http:URL"
            )

    def _demand_no_flight(self, proof: Proof, target: str) -> None:
        """Refuse while an effect of an earlier run may still be on its way; its time is written down with it."""
        for name in os.listdir(self._folder):
            flight = self._flight(name) if name.startswith(FLIGHT) else None
            if flight is None or flight.fence >= proof.fence or not set(flight.keys) & set(proof.keys):
                continue
            rest = flight.rest_seconds(self._clock.wall_us(), self._clock.boot_ns())
            if rest > 0:
                raise GateUnreachable(
                    f"{target}: it is not known whether a request of an earlier run had its effect. "
                    f"It may still have; closed for {rest:.0f} s."
                )
            self.forget_flight(name)

    def _flight(self, name: str) -> "Flight | None":
        try:
            with open(os.path.join(self._folder, name), "rb") as file:
                return Flight(**json.loads(file.read()))
        except FileNotFoundError:
            return None  # it has arrived just now
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Misconfigured(f"{self._folder}/{name} cannot be read ({error}), so no writer passes.") from None

    def _keep(self, name: str, content: bytes) -> None:
        """Put a file in place, whole and on the disk."""
        draft = os.path.join(self._folder, f"draft-{os.urandom(8).hex()}")
        file = os.open(draft, OPEN | os.O_EXCL, 0o600)
        try:
            with open(file, "wb") as written:
                written.write(content)
                written.flush()
                sync(written.fileno())
            os.rename(draft, os.path.join(self._folder, name))
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(draft)
            raise
        folder = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            sync(folder)
        finally:
            os.close(folder)

    @contextmanager
    def _turn(self, target: str) -> Iterator[None]:
        file = self._lock("turn", fcntl.LOCK_EX, self._deadline_ns(), f"{target}: another run is raising it")
        try:
            yield
        finally:
            os.close(file)

    def _locked(self, proof: Proof, how: int, busy: str) -> list[int]:
        deadline_ns, files = self._deadline_ns(), list[int]()
        try:
            for name in _lock_names(proof.keys):
                files.append(self._lock(name, how, deadline_ns, busy))
        except BaseException:
            _release(files)
            raise
        return files

    def _lock(self, name: str, how: int, deadline_ns: int, busy: str) -> int:
        file = os.open(os.path.join(self._folder, name), OPEN, 0o600)
        try:
            self._wait_for(file, how, deadline_ns, busy)
        except BaseException:
            os.close(file)
            raise
        return file

    def _wait_for(self, file: int, how: int, deadline_ns: int, busy: str) -> None:
        pause = PAUSE_FIRST
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(file, how | fcntl.LOCK_NB)
                return
            if self._clock.awake_ns() >= deadline_ns:
                raise GateUnreachable(f"{busy}; try again later.")
            self._clock.sleep(pause)
            pause = min(pause * 2, PAUSE_MAX)

    def _deadline_ns(self) -> int:
        return self._clock.awake_ns() + int(self._wait_seconds * 1e9)


def _lock_names(keys: Iterable[str]) -> list[str]:
    """Return the locks of some resources, in the one order in which all processes take them."""
    return sorted({f"lock-{sha256(key.encode()).digest()[0] % LOCKS:02}" for key in keys})


def _release(files: list[int]) -> None:
    while files:
        os.close(files.pop())
