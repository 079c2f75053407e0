"""A new worker takes over the guards of workers that are gone: same lease, same fence, same attempt.

It proves that the old keeper is gone by the lock that every worker holds for life, and shows the guard a key that only
the store knows. What a guard wrote down before it died is settled first.
"""

import os
import select
from contextlib import suppress

from fencepost.flow.leaser import Undertaker
from fencepost.host.life_lock import hold_life_lock, is_life_over
from fencepost.model.outcome import Lost
from fencepost.model.process import Fate
from fencepost.ports.processes import KILL_SECONDS
from fencepost.ports.runs import Adoptable, LeasedRun
from fencepost.service.custody import Term
from fencepost.service.end_record import EndRecords, clear_away_the_dead, has_known_end
from fencepost.service.guard_handle import Guarded
from fencepost.service.guard_pool import connect
from fencepost.service.run_order import GuardPlace
from fencepost.service.worker import Worker
from fencepost.stores.runtime import RuntimeStore

HELLO_SECONDS = 1.0  # a guard that says nothing for so long is frozen
DOUBT_SECONDS = 30.0  # between two looks at our own leases: with a thousand of them it takes a while


class Adoption:
    """What one worker does about the runs that other workers left on this host."""

    def __init__(self, worker: Worker, folder: str) -> None:
        """Hold our own lock, in the folder of all workers, for as long as this process lives."""
        self._worker, self._clock, self._processes = worker, worker.bench.tools.clock, worker.bench.tools.processes
        self._folder = folder
        os.makedirs(folder, mode=0o700, exist_ok=True)
        clear_away_the_dead(worker.bench.guard_folder, now_us=self._clock.wall_us())
        self._ends = EndRecords(worker.bench.guard_folder)
        self._doubt_ns = 0  # when to look whether we keep something that we do not know of
        self._own = hold_life_lock(os.path.join(folder, worker.keeper), f"{os.getpid()}\n")

    def doubt(self) -> None:
        """Look at our own leases too, the next time: an answer of the store may have been lost on its way."""
        self._doubt_ns = 0

    def step(self, store: RuntimeStore) -> int:
        """Settle ends that were written down, then adopt what goes on without a keeper; return how many."""
        found = self._found(store)
        attended = self._worker.attended()
        left = [one for one in found if one.held.id not in attended]
        gone = {keeper for keeper in {one.held.keeper for one in left} if self._is_gone(keeper)}
        self._tidy({one.held.keeper for one in found})
        free = [one for one in left if one.held.keeper in gone]
        dead = [one for one in free if self._processes.fate(one.held.supervisor) is Fate.DEAD]
        self._settle_known(store, dead)  # a guard writes its end down before it dies: so ask in this order
        living = [one for one in free if one not in dead]
        return self._adopt(store, living) if living else 0

    def _found(self, store: RuntimeStore) -> list[Adoptable]:
        """Return what was kept on this host, before its last boot too where an end was written down."""
        here, now = self._processes.here(), self._worker.now_ns()
        doubts = now >= self._doubt_ns
        found = store.adoptable(here, besides="" if doubts else self._worker.keeper)
        self._doubt_ns = now + round(DOUBT_SECONDS * 1e9) if doubts else self._doubt_ns
        ids = self._ends.of(store.facts().id).keys() - {one.held.id for one in found} - self._worker.attended()
        earlier = {held.supervisor.host for held in (store.leases() if ids else ()) if held.id in ids}
        for host in earlier:
            if (host.machine, host.name) == (here.machine, here.name):
                found += [one for one in store.adoptable(host) if one.held.id in ids]
        return found

    def _settle_known(self, store: RuntimeStore, dead: list[Adoptable]) -> None:
        """Settle the ends that guards wrote down before they died; what the store does not take stays written down.

        A guard that left no end loses its lease, and the reaper settles the run as lost.
        """
        known, undertaker = self._ends.of(store.facts().id), Undertaker(store, self._processes)
        for one in dead:
            path, record = known.get(one.held.id, ("", None))
            if record is not None and record.fence == one.held.fence:
                answer = self._worker.ends.settle(store, [(_leased(one), record)]).get(one.run.id)
                if answer in (None, "lost"):
                    record.remove(path)
            elif not has_known_end(one.held):
                undertaker.take_from_dead(one.held)

    def _is_gone(self, keeper: str | None) -> bool:
        """Tell whether a keeper is gone for certain; one that is frozen still holds its lock, and P7 ends its runs."""
        if keeper == self._worker.keeper:
            return True  # it is ours, and yet we do not attend it: an answer of the store was lost on the way
        return keeper is not None and is_life_over(os.path.join(self._folder, keeper))

    def _tidy(self, keepers: set[str | None]) -> None:
        """Remove the locks of workers that are gone and keep nothing any more; no worker ever has their name again."""
        for name in set(os.listdir(self._folder)) - keepers - {self._worker.keeper}:
            path = os.path.join(self._folder, name)
            if is_life_over(path):
                with suppress(FileNotFoundError):
                    os.unlink(path)

    def _adopt(self, store: RuntimeStore, living: list[Adoptable]) -> int:
        """Ask all guards at once who they are; take those that answer as they should."""
        guests: dict[int, tuple[Adoptable, Guarded]] = {}
        for one in living:
            channel = connect(one.held.keeper_socket or "")
            if channel is not None:
                place = GuardPlace.of(one.held.keeper_socket or "")
                guests[channel.fd] = (one, Guarded(place, one.held.supervisor, channel))
        hellos = self._listen(guests)
        for descriptor, (one, guarded) in list(guests.items()):
            hello = hellos.get(descriptor)
            if hello is not None and (hello.get("lease"), hello.get("fence")) != (one.held.id, one.held.fence):
                guarded.channel.close()  # it is gone, or not the guard of this lease
                del guests[descriptor]
        asked_ns = Term(self._clock, counts_sleep=store.facts().counts_sleep).now_ns()
        frozen: list[tuple[Adoptable, Guarded, LeasedRun]] = []
        try:
            leases = store.adopt_runs([one.lease for one, _ in guests.values()], keeper=self._worker.keeper)
            for descriptor in [descriptor for descriptor, (one, _) in guests.items() if one.held.id in leases]:
                one, guarded = guests.pop(descriptor)
                leased = _leased(one)._replace(lease=leases[one.held.id])
                if descriptor in hellos:
                    self._take(store, one, guarded, leased, hellos[descriptor], asked_ns=asked_ns)
                else:
                    guarded.leased, guarded.cgroup = leased, one.held.cgroup
                    guarded.kill(self._processes)
                    guarded.channel.close()
                    frozen.append((one, guarded, leased))
        finally:
            for _, guarded in guests.values():
                guarded.channel.close()  # another worker was quicker, or the store is out of reach
        for one, guarded, leased in frozen:
            self._bury(store, guarded, leased, one)
        return len(leases)

    def _listen(self, guests: dict[int, tuple[Adoptable, Guarded]]) -> dict[int, dict[str, object]]:
        hellos: dict[int, dict[str, object]] = {}
        poll = select.poll()
        for descriptor in guests:
            poll.register(descriptor, select.POLLIN)
        until_ns = self._worker.now_ns() + round(HELLO_SECONDS * 1e9)
        while len(hellos) < len(guests) and (left := (until_ns - self._worker.now_ns()) / 1e6) > 0:
            for descriptor, _ in poll.poll(left):
                channel = guests[descriptor][1].channel
                for message in channel.receive():
                    if "hello" in message:
                        hellos[descriptor] = message["hello"]
                if channel.closed or descriptor in hellos:
                    poll.unregister(descriptor)
                    hellos.setdefault(descriptor, {})
        return hellos

    def _take(
        self,
        store: RuntimeStore,
        one: Adoptable,
        guarded: Guarded,
        leased: LeasedRun,
        hello: dict[str, object],
        *,
        asked_ns: int,
    ) -> None:
        tools = hello.get("tools")
        guarded.cgroup = one.held.cgroup
        guarded.tool_state = tools if isinstance(tools, dict) else {}
        guarded.started = one.held.started_us is not None
        self._worker.adopt(store, guarded, leased, key=one.held.adopt_key or "", asked_ns=asked_ns)

    def _bury(self, store: RuntimeStore, guarded: Guarded, leased: LeasedRun, one: Adoptable) -> None:
        """Settle the run of a guard that did not answer and was killed as lost, when all of its tree is gone."""
        gone = self._processes.end(guarded.traces(), grace_seconds=0, kill_seconds=KILL_SECONDS)
        started = one.held.started_us is not None
        record = self._worker.ends.record(leased, Lost(started=started), started=started, gone=gone)
        self._worker.ends.settle(store, [(leased, record)])


def _leased(one: Adoptable) -> LeasedRun:
    return LeasedRun(one.run, one.lease, (), one.checkpoint, started=True, session=one.session, so_far=one.so_far)
