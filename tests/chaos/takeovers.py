"""How long it takes until a successor runs, measured on real processes and held against the promised bound (P6).

    python -m tests.chaos.takeovers --kills 100

On each store holders are killed (on the same host, where their death is proved at once) and frozen (where only the lease can
tell, as with another machine). A takeover is the time from the fault to the first line of the successor's agent. Several
relays run at once, each on a store of its own: who takes over is the next to be lost.
"""

# ruff: noqa: T201  # it prints its findings

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from fencepost.host.clock import SystemClock
from fencepost.model.duration import parse_duration
from fencepost.service.admission import POLL_MAX_SECONDS
from tests.chaos.holders import FOR_EVER, TTL, Lane, Totals
from tests.support.ground import Ground, Program, children, is_alive, send, until
from tests.support.postgres import PostgresServer

CLAIM_SECONDS = 1.0  # to lease, end what is left, raise gates and start Python; on a busy machine it is the whole of it
BINS = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 60.0)
WIDTH = 50
SAMPLE_SECONDS = 0.02
SAMPLES = 6000  # two minutes of them
NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


class Kind(NamedTuple):
    """A way to lose a holder, and how long a takeover may take then."""

    name: str
    signals: tuple[tuple[signal.Signals, str], ...]  # one of these ways: a signal, and to whom
    ttl: str
    bound_seconds: float
    codes: tuple[int, ...]  # what the lost one may end with
    relays: int  # at once: waiting for a lease costs nothing, starting Python does


KINDS = (
    Kind(
        "killed, same host",
        ((signal.SIGKILL, "supervisor"), (signal.SIGKILL, "supervisor guard")),
        "60s",
        POLL_MAX_SECONDS + CLAIM_SECONDS,
        (-signal.SIGKILL,),
        3,
    ),
    Kind(
        "frozen, lease runs out",
        ((signal.SIGSTOP, "supervisor"), (signal.SIGSTOP, "agent guard supervisor")),
        TTL,
        parse_duration(TTL) + POLL_MAX_SECONDS + CLAIM_SECONDS,
        (76,),
        6,
    ),
)


class Takeover(NamedTuple):
    """How long one took, until the grant and until the start, and how late the machine was meanwhile."""

    seconds: float
    grant_seconds: float
    late_seconds: float


class Watch:
    """Sleeps a little, again and again, and remembers by how much it woke up too late: who waits for a processor shows here."""

    def __init__(self) -> None:
        self._late: deque[tuple[int, float]] = deque(maxlen=SAMPLES)
        self._clock = SystemClock()
        self._over = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        before = self._clock.awake_ns()
        while not self._over.wait(SAMPLE_SECONDS):
            now = self._clock.awake_ns()
            self._late.append((now, (now - before) / 1e9 - SAMPLE_SECONDS))
            before = now

    def latest(self, since_ns: int) -> float:
        """Return by how much it was late at most since then."""
        return max((late for at_ns, late in list(self._late) if at_ns >= since_ns), default=0.0)

    def stop(self) -> None:
        self._over.set()


class Relay(Lane):
    """One lock that is handed from holder to holder by force."""

    def go(self, kind: Kind, rounds: int, watch: Watch, found: list[Takeover]) -> None:
        """Lose so many holders, then look at what the witnesses saw."""
        holder: Program | None = None
        for _ in range(rounds):
            try:
                holder = self._lose(holder or self._first(kind), kind, watch, found)
            except Exception as error:  # noqa: BLE001  # whatever it is, it belongs into the report
                self.totals.failures.append(f"{self.lock} turn {self.turn}: {error!r}")
                for pid in self.ground.alive():
                    send(pid, signal.SIGKILL)
                holder = None
        if holder is not None:
            holder.terminate()
            self.ground.told(holder, seconds=60)
        self._judge()

    def _first(self, kind: Kind) -> Program:
        self.turn += 1
        holder = self.start(f"holder-{self.turn}", wait=True, ttl=kind.ttl)
        self.agent = self.saw("start", f"holder-{self.turn}", unless=holder).pid
        return holder

    def _lose(self, holder: Program, kind: Kind, watch: Watch, found: list[Takeover]) -> Program:
        """Start an heir that waits, lose the holder, and return the heir once its agent runs."""
        self.turn += 1
        name = f"holder-{self.turn}"
        heir = self.start(name, wait=True, seconds=FOR_EVER, ttl=kind.ttl)
        until(lambda: self.is_queued(heir.pid), "the heir waits", seconds=60)
        number, whom = kind.signals[self.random.randrange(len(kind.signals))]
        pids = {"supervisor": holder.pid, "guard": children(holder.pid)[0], "agent": self.agent}
        old_agent = self.agent
        at_ns, wall_ns = self.clock.awake_ns(), self.clock.wall_us() * 1000 - self.clock.awake_ns()
        if number == signal.SIGSTOP:
            at_ns = self.ground.freeze(*(pids[one] for one in whom.split()))
        else:
            for one in whom.split():
                send(pids[one], number)
        try:
            seen = self.saw("start", name, unless=heir)
            granted_ns = seen.fence * 1000 - wall_ns  # a fence is the store's time of its grant
            found.append(
                Takeover((seen.at_ns - at_ns) / 1e9, (granted_ns - at_ns) / 1e9, watch.latest(at_ns)),
            )
            assert not is_alive(old_agent), "the old agent lives"
        finally:
            for pid in pids.values():
                send(pid, signal.SIGCONT)
        self.ended(holder, *kind.codes)
        self.agent = seen.pid
        return heir


@contextmanager
def stores(kind: str, number: int) -> Iterator[Sequence[str | None]]:
    """Give so many stores: files, or databases of one server."""
    if kind == "sqlite":
        yield [None] * number
        return
    with PostgresServer.private({"fsync": "on", "full_page_writes": "on", "max_connections": "200"}) as server:
        yield [server.create_database() for _ in range(number)]


def measure(kind: Kind, store: str, *, number: int, seed: int, relays: int) -> tuple[list[Takeover], Totals]:
    """Lose so many holders and return how long each successor took."""
    found: list[Takeover] = []
    totals, watch = Totals(), Watch()
    with ExitStack() as stack:
        urls = stack.enter_context(stores(store, relays))
        crew = []
        for turn, url in enumerate(urls):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fencepost-takeover-"))
            ground = Ground(Path(folder), store=url)
            stack.callback(ground.close)
            rounds = number // relays + (turn < number % relays)
            relay = Relay(ground, turn, seed * 1000 + turn, totals, ())
            crew.append(threading.Thread(target=relay.go, args=(kind, rounds, watch, found)))
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join()
        watch.stop()
    return found, totals


def histogram(times: list[float], bound_seconds: float) -> list[str]:
    """Draw the times; the line of the bound stands where it belongs."""
    lines, low, drawn = [], 0.0, False
    most = max((sum(a <= one < b for one in times) for a, b in zip((0.0, *BINS), BINS, strict=False)), default=1)
    for high in BINS:
        if not drawn and high > bound_seconds:
            lines.append(f"  {'':13}  ---- bound: {bound_seconds:g} s")
            drawn = True
        count = sum(low <= one < high for one in times)
        if count or any(one >= high for one in times):
            bar = "#" * round(WIDTH * count / max(1, most))
            lines.append(f"  {low:5.2f}-{high:5.2f} s  {bar} {count}")
        low = high
    return lines


def bounded(found: int, of: int) -> str:
    """Write a number of failures down; a zero with the bound that follows by the rule of three."""
    percent = 300 / max(1, of)
    return str(found) if found else f"0 (below {percent:.2g} %)" if percent < 10 else f"0 (below {percent:.0f} %)"


def row(store: str, kind: Kind, times: list[float], totals: Totals) -> str:
    """Return the line of the table of figures."""
    beyond = sum(one > kind.bound_seconds for one in times)
    overlaps = sum("two agents at once" in failure for failure in totals.failures)
    p50, p99, worst = statistics.median(times), times[int(0.99 * (len(times) - 1))], times[-1]
    return (
        f"| {NAMES[store]} | {kind.name} | {len(times):,} | {p50:.2f} s | {p99:.2f} s | {worst:.2f} s | "
        f"{kind.bound_seconds:g} s | {bounded(beyond, len(times))} | {bounded(overlaps, len(times))} |"
    )


def report(store: str, kind: Kind, found: list[Takeover], totals: Totals) -> str:
    """Print what was found, and return the line for the table."""
    times = sorted(one.seconds for one in found)
    print(f"\n{store}, {kind.name}: {len(times)} takeovers")
    print("\n".join(histogram(times, kind.bound_seconds)))
    for one in found:
        if one.seconds > kind.bound_seconds:
            print(
                f"  BEYOND {one.seconds:.2f} s: granted after {one.grant_seconds:.2f} s; "
                f"meanwhile our own sleep of {SAMPLE_SECONDS:g} s came back up to {one.late_seconds:.2f} s late"
            )
    for failure in totals.failures:
        print("  FAILED", failure)
    late = sorted(one.late_seconds for one in found)
    numbers = {
        "store": store,
        "kind": kind.name,
        "takeovers": len(times),
        "beyond_bound": sum(one > kind.bound_seconds for one in times),
        "bound_s": kind.bound_seconds,
        "failures": len(totals.failures),
        "machine_late_p50_s": round(statistics.median(late), 3) if late else None,
        "machine_late_max_s": round(late[-1], 3) if late else None,
    }
    print(json.dumps(numbers))
    return row(store, kind, times, totals) if times else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="of each kind on each store")
    parser.add_argument("--store", choices=list(NAMES), action="append", help="only this one")
    parser.add_argument("--kind", choices=[kind.name for kind in KINDS], action="append", help="only this one")
    parser.add_argument("--relays", type=int, help="how many at once; by default 3 that kill and 6 that freeze")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3)))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}, {os.getloadavg()[0]:.1f} load, {os.cpu_count()} processors", flush=True)
    failed, rows = False, []
    for store in arguments.store or NAMES:
        for kind in [one for one in KINDS if one.name in (arguments.kind or [one.name])]:
            relays = arguments.relays or kind.relays
            found, totals = measure(kind, store, number=arguments.kills, seed=arguments.seed, relays=relays)
            rows.append(report(store, kind, found, totals))
            sys.stdout.flush()
            beyond = any(one.seconds > kind.bound_seconds for one in found)
            failed = failed or beyond or bool(totals.failures) or len(found) < arguments.kills
    print(f"\n{os.getloadavg()[0]:.1f} load at the end. For docs/reference/figures.md:\n")
    print("\n".join(rows))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
