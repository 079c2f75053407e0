"""The worker: leases runs, hands each to a guard, and stands between guards and store until the end is settled.

It holds no state that it could not rebuild from what guards say and what the store has. So it may be killed at any time:
its guards go on, and the next worker of this host adopts them.
"""

import json
import os
import select
from contextlib import suppress

from fencepost.flow.run_recheck import recheck_for
from fencepost.host.log_files import LogFile
from fencepost.host.process_limits import raise_descriptor_limit
from fencepost.model.definition import agent_from_json
from fencepost.model.errors import FencepostError, LeaseLost, StoreUnavailable
from fencepost.model.lease import kill_grace, trusted_for
from fencepost.model.outcome import Lost, NotStarted, Outcome, OverBudget
from fencepost.model.run import Reason
from fencepost.ports.processes import KILL_SECONDS
from fencepost.ports.runs import LeasedRun, Starting
from fencepost.service.channel import Message
from fencepost.service.custody import Custody, Term
from fencepost.service.end_record import EndRecord, record_at
from fencepost.service.guard_handle import Guarded
from fencepost.service.guard_pool import GuardPool
from fencepost.service.last_resort import LastResort
from fencepost.service.relay_store import answer_for
from fencepost.service.run_choice import Chosen, RunChoice
from fencepost.service.run_making import Making, OverBudgetError
from fencepost.service.run_settling import RunEnds
from fencepost.service.worker_tools import WorkerTools
from fencepost.service.zygote import Zygote
from fencepost.stores.runtime import RuntimeStore

STOPS_SECONDS = 1.0  # how often requests to stop are looked for
TROUBLE_SECONDS = 60.0  # a trouble that has not been seen for so long is a new one
DESCRIPTORS_KEPT = 64  # of this process, for everything but the guards of its runs
NOTHING_STARTED = ("idle", "prepare")


class Worker:
    """Everything that one process does for runs."""

    def __init__(self, bench: WorkerTools, plain: Zygote, full: Zygote, *, slots: int, keeper: str) -> None:
        """Have plain commands carried out by guards of one helper, and all other runs by those of the other."""
        self.bench, self._tools, self.slots = bench, bench.tools, self._slots_of(slots, bench)
        self.keeper = keeper
        self._making = Making(bench)
        self._choice = RunChoice(bench, self._making, plain, full, keeper=keeper)
        self.ends = RunEnds(bench)
        self._grace = kill_grace(bench.ttl_seconds)
        self._epoll = select.epoll()
        for descriptor in self._choice.pools:
            self._epoll.register(descriptor, select.EPOLLIN)
        self._nudge_reader, self._nudge_writer = os.pipe()
        for descriptor in (self._nudge_reader, self._nudge_writer):
            os.set_blocking(descriptor, False)
        self._epoll.register(self._nudge_reader, select.EPOLLIN)
        self._custody: Custody | None = None
        self._last_resort = LastResort(self._grace)
        self._guards: dict[int, Guarded] = {}  # by descriptor
        self._asks: list[tuple[Guarded, Message]] = []
        self._prepared: list[Guarded] = []
        self._ended: list[Guarded] = []
        self._gone: list[Guarded] = []
        self._stops_ns = 0
        self._troubles: dict[str, int] = {}  # what was complained of, and when it was last a trouble
        self._draining = False

    def _slots_of(self, wanted: int, bench: WorkerTools) -> int:
        """Return for how many runs there are descriptors: without those for the store, no lease could be renewed."""
        most = raise_descriptor_limit()
        slots = wanted if most is None else max(1, min(wanted, most - DESCRIPTORS_KEPT))
        if slots < wanted:
            bench.tools.say(
                f"warning: room for {slots} runs at once instead of {wanted}: this process may open {most} files. "
                "Raise ulimit -n, or LimitNOFILE= of the service."
            )
        return slots

    @property
    def fd(self) -> int:
        """What to wait for."""
        return self._epoll.fileno()

    @property
    def is_crippled(self) -> bool:
        """Whether no guard can be forked any more."""
        return any(pool.is_gone for pool in self._choice.pools.values())

    @property
    def running(self) -> int:
        """How many guards have a run."""
        return len([one for one in self._guards.values() if one.leased is not None])

    @property
    def wants_runs(self) -> bool:
        """Whether a guard has come that runs were waiting for."""
        return self._choice.wants_runs

    # What adoption asks.

    def now_ns(self) -> int:
        """Return the time by which waiting is measured."""
        return self._now()

    def attended(self) -> set[str]:
        """Return the leases that we have already."""
        return {one.leased.lease.id for one in self._guards.values() if one.leased is not None}

    def adopt(self, store: RuntimeStore, guarded: Guarded, leased: LeasedRun, *, key: str, asked_ns: int) -> None:
        """Become the keeper of a guard that another worker has left."""
        guarded.adopted = True
        self.attend(guarded)
        self.hold(store, guarded, leased, asked_ns=asked_ns)
        assert guarded.kept is not None
        deadline_ns = guarded.kept.term.deadline_ns
        guarded.channel.send(take={"epoch": leased.lease.epoch, "key": key, "deadline_ns": deadline_ns})

    # What comes in.

    def hear(self) -> bool:
        """Take in what guards say; return whether something is to be done with the store."""
        for descriptor, _ in self._epoll.poll(0):
            if descriptor in self._choice.pools:
                self._hear_pool(self._choice.pools[descriptor])
            elif descriptor == self._nudge_reader:
                with suppress(BlockingIOError):
                    os.read(self._nudge_reader, 4096)
            elif descriptor in self._guards:
                self._hear_guard(self._guards[descriptor])
        self._look_at_leases()
        return bool(self._asks or self._prepared or self._ended or self._gone)

    def _hear_pool(self, pool: GuardPool) -> None:
        for guarded in pool.hear():
            self.attend(guarded)
            self._choice.come = True
        if pool.trouble:
            self._complain(f"no guard can be started, trying again: {pool.trouble}; see: fencepost doctor")
        if pool.is_gone:
            self._epoll.unregister(pool.fd)

    def attend(self, guarded: Guarded) -> None:
        """Listen to a guard."""
        self._guards[guarded.channel.fd] = guarded
        self._epoll.register(guarded.channel.fd, select.EPOLLIN)

    def _hear_guard(self, guarded: Guarded) -> None:
        for message in guarded.channel.receive():
            self._heed(guarded, message)
        if guarded.channel.closed:
            self._part(guarded)
            if guarded.leased is not None and guarded.end is None:
                self._gone.append(guarded)

    def _heed(self, guarded: Guarded, message: Message) -> None:
        if "ask" in message:
            self._asks.append((guarded, message))
        elif "prepared" in message:
            self._prepared.append(guarded)
        elif "scarce" in message:
            self._choice.go_slow()
            self._complain(f"no agent can be started, trying again: {message['scarce']}; see: fencepost doctor")
        elif "spawned" in message:
            self._choice.go_on(started=True)
            guarded.agent = self._tools.processes.identify(int(message["spawned"]))
        elif "ended" in message and guarded.end is None:
            guarded.end = EndRecord.from_json(message["ended"])
            if guarded.end.started:
                self._choice.go_on(started=False)
            self._ended.append(guarded)
        elif "taken" in message and guarded.adopted:
            self._look_how_far(guarded, message)
        elif "said" in message:
            self._complain(str(message["said"]))
        elif "model_gate_gone" in message and self.bench.model_gate is not None:
            self.bench.model_gate.port()  # which starts another one

    def _look_how_far(self, guarded: Guarded, message: Message) -> None:
        """Hear how far an adopted run is. Where nothing has happened yet, it goes back into the queue."""
        if message["taken"] in NOTHING_STARTED:
            guarded.started = False
            guarded.stop("lost")
        elif message.get("agent") is not None:
            guarded.started = True
            guarded.agent = self._tools.processes.identify(int(message["agent"]))

    def _part(self, guarded: Guarded) -> None:
        """Listen to a guard no more."""
        if self._guards.pop(guarded.channel.fd, None) is not None:
            with suppress(OSError, ValueError):
                self._epoll.unregister(guarded.channel.fd)
        self._choice.drop(guarded)
        guarded.channel.close()

    def _look_at_leases(self) -> None:
        """See what became of the leases: a lost one ends its agent, one that was adopted by another worker is forgotten."""
        if self._custody is not None:
            self._custody.look()
        for guarded in list(self._guards.values()):
            kept = guarded.kept
            if guarded.channel.has_unsent:
                guarded.channel.flush()
            if kept is None or kept.lost is None or guarded.end is not None:
                continue
            if kept.moved:
                self.forget(guarded)
            else:
                guarded.stop("lost", 0)

    def forget(self, guarded: Guarded) -> None:
        """Let go of a guard that another worker has adopted: it is none of our business any more, and never to be killed."""
        if guarded.kept is not None:
            self._last_resort.forget(guarded.kept)
            if self._custody is not None:
                self._custody.let_go(guarded.kept)
        guarded.leased = guarded.kept = None
        self._part(guarded)

    # What is done with the store.

    def serve(self, store: RuntimeStore) -> bool:
        """Do what guards have asked for; return whether room has become free."""
        asks, self._asks = self._asks, []
        for guarded, message in asks:
            self._answer(store, guarded, message)
        if self._prepared:
            self._start(store)
        if self._gone:
            self._bury(store)
        freed = bool(self._ended)
        if self._ended:
            self._settle(store)
        return freed

    def _answer(self, store: RuntimeStore, guarded: Guarded, message: Message) -> None:
        request, number = message["request"], message["ask"]
        if "store" in request:
            guarded.channel.send(answer=number, content=answer_for(request, store))
            return
        leased = guarded.leased
        if leased is None:
            return
        if request.get("verb") == "session":
            with suppress(LeaseLost):  # the renewal finds out
                store.note_session(leased.lease, str(request["session"]))
            guarded.channel.send(answer=number, content={"ok": True})
            return
        guarded.channel.send(answer=number, content=guarded.answer(request, store))

    def lease(self, store: RuntimeStore, ready: int | None = None) -> None:
        """Lease as many runs as there are guards and room for, and hand them over.

        `ready` says how many wait. None: they were not counted; at least one, and what is left of those that were counted.
        """
        if self._draining:
            return
        chosen = self._choice.offers(store, max(0, self.slots - self.running), ready)
        if chosen:
            self._take(store, chosen)

    def _take(self, store: RuntimeStore, chosen: dict[str, Chosen]) -> None:
        self._custody = self._custody or self._open_custody(store)
        asked_ns = Term(self._tools.clock, counts_sleep=store.facts().counts_sleep).now_ns()
        for leased in self._leased(store, chosen):
            offer, key, guarded = chosen[leased.run.id]
            self._choice.taken(leased.run.id, guarded)
            guarded.cgroup = offer.claim.cgroup
            self.hold(store, guarded, leased, asked_ns=asked_ns)
            self._hand_over(store, guarded, leased, key)

    def _leased(self, store: RuntimeStore, chosen: dict[str, Chosen]) -> list[LeasedRun]:
        """Lease; without an answer the guards are let go, since leases that we do not know of may name them."""
        try:
            return store.lease_runs([one.offer for one in chosen.values()], recheck_for)
        except StoreUnavailable:
            for one in chosen.values():
                one.guarded.channel.send(leave=True)
                self._part(one.guarded)
            raise

    def hold(self, store: RuntimeStore, guarded: Guarded, leased: LeasedRun, *, asked_ns: int) -> None:
        """Take custody of a lease, and of what runs under it."""
        self._custody = self._custody or self._open_custody(store)
        term = Term(self._tools.clock, counts_sleep=store.facts().counts_sleep)
        term.extend(leased.lease.ttl_seconds, asked_ns=asked_ns)
        guarded.leased = leased
        guarded.kept = self._custody.keep(leased.lease, term)
        guarded.told_deadline_ns = term.deadline_ns
        self._last_resort.watch(guarded.kept, lambda: guarded.kill(self._tools.processes))

    def _hand_over(self, store: RuntimeStore, guarded: Guarded, leased: LeasedRun, key: str) -> None:
        """Give the guard its order; what cannot be carried out at all is settled here."""
        assert guarded.kept is not None
        try:
            order = self._making.order(leased)
        except OverBudgetError:
            self._refuse(guarded, leased, OverBudget())
            return
        except FencepostError as error:
            self._refuse(guarded, leased, NotStarted(Reason.MISCONFIGURED), f"fencepost: not started: {error}\n")
            return
        if order.additions is not None and not guarded.full:
            self._choice.needs_full(leased.run.id)  # only the lease tells what an earlier one has left to be done
            self._refuse(guarded, leased, Lost(started=False))
            return
        guarded.session = order.session
        take = {
            "epoch": leased.lease.epoch,
            "first": leased.lease.epoch,
            "key": key,
            "facts": list(store.facts()),
            "deadline_ns": guarded.kept.term.deadline_ns,
            "order": order.to_json(),
        }
        guarded.channel.post(json.dumps({"take": take}))

    def _refuse(self, guarded: Guarded, leased: LeasedRun, outcome: Outcome, words: str = "") -> None:
        """Have a run settled that no guard has heard of; the guard is of no use any more, since the lease names it."""
        guarded.end = self.ends.record(leased, outcome, started=False)
        if words:
            log = LogFile(guarded.end.log, agent_from_json(leased.run.manifest).log_max)
            log.write(words.encode())
            log.close()
        self._ended.append(guarded)

    def _start(self, store: RuntimeStore) -> None:
        """Put the starts on record, all together, and let the guards go ahead."""
        ready = [one for one in self._prepared if one.leased is not None and one.end is None]
        starting = [Starting(one.leased.lease, one.leased.run, one.session) for one in ready if one.leased]
        not_ours = store.start_runs(starting) if starting else {}
        self._prepared = []
        for guarded in ready:
            assert guarded.leased is not None
            answer = not_ours.get(guarded.leased.run.id)
            if answer == "moved":
                self.forget(guarded)
            elif answer is not None:
                guarded.stop("lost", 0)
            else:
                guarded.started = True
                guarded.channel.send(go=True)

    def _bury(self, store: RuntimeStore) -> None:
        """Have runs settled whose guards hung up: dead, or with another keeper, which only the store can tell."""
        gone = [one for one in self._gone if one.leased is not None and one.end is None]
        answers = store.renew_leases([one.leased.lease for one in gone if one.leased]) if gone else {}
        self._gone = []
        for guarded in gone:
            assert guarded.leased is not None
            answer = answers.get(guarded.leased.lease.id, "lost")
            if answer == "moved":
                self.forget(guarded)
            elif answer in ("renewed", "lost"):
                self._conclude(guarded, guarded.leased, ours=answer == "renewed")
            else:
                self._gone.append(guarded)  # a frozen peer has its row: ask again

    def _conclude(self, guarded: Guarded, leased: LeasedRun, *, ours: bool) -> None:
        """See that nothing is left of a run whose guard has died; its own last word counts most.

        Under a lost lease nothing is ended: the next attempt may be at work here, and has ended what was left before it.
        """
        known = record_at(guarded.place.end)
        gone = ours and self._tools.processes.end(guarded.traces(), grace_seconds=0, kill_seconds=KILL_SECONDS)
        lost = self.ends.record(leased, Lost(started=guarded.started), started=guarded.started)
        guarded.end = (known or lost)._replace(gone=gone)
        self._ended.append(guarded)

    def _settle(self, store: RuntimeStore) -> None:
        """Write down how runs ended, all together, and let their guards go."""
        ended = [one for one in self._ended if one.leased and one.end]
        not_ours = self.ends.settle(store, [(one.leased, one.end) for one in ended if one.leased and one.end])
        self._ended = []
        for run_id, answer in not_ours.items():
            if answer.startswith("failed"):
                self._complain(f"run {run_id} could not be settled: {answer}")
        for guarded in ended:
            answer = not_ours.get(guarded.leased.run.id if guarded.leased else "", "")
            if answer == "moved" or answer.startswith("failed"):
                self.forget(guarded)  # another worker settles it, or a person looks: the end stays written down
                continue
            if guarded.leased is not None and guarded.end is not None and guarded.end.outcome == Lost(started=False):
                self._choice.came_in_vain(guarded.leased.run.id)
            self._dismiss(guarded)

    def _dismiss(self, guarded: Guarded) -> None:
        """Let a guard go whose run is settled."""
        if guarded.kept is not None:
            self._last_resort.forget(guarded.kept)
            assert self._custody is not None
            self._custody.let_go(guarded.kept)
        if guarded.end is not None:
            guarded.end.remove(guarded.place.end)
        guarded.channel.send(settled=True)
        guarded.channel.send(leave=True)  # heard only by a guard that was never told of its run
        guarded.leased = guarded.kept = None
        self._part(guarded)

    # What is done now and then.

    def look(self, store: RuntimeStore) -> None:
        """Look for runs that shall stop."""
        now = self._now()
        if now < self._stops_ns or not self.running:
            return
        self._stops_ns = now + round(STOPS_SECONDS * 1e9)
        stops = store.stops_asked_of(self.keeper)
        for guarded in list(self._guards.values()):
            reason = stops.get(guarded.leased.run.id) if guarded.leased else None
            if reason and guarded.end is None:
                guarded.stop(f"stop {reason}")

    def _open_custody(self, store: RuntimeStore) -> Custody:
        custody = Custody(
            self.bench.open_store,
            self._tools.clock,
            counts_sleep=store.facts().counts_sleep,
            tell=self._on_renewed,
        )
        custody.start()
        self._last_resort.start()
        return custody

    def _on_renewed(self) -> None:
        """Move the guards' deadlines, from the thread that renews: the main thread may wait for the store."""
        for guarded in list(self._guards.values()):
            guarded.tell_deadline()
        with suppress(BlockingIOError):
            os.write(self._nudge_writer, b".")

    def drain(self) -> None:
        """Take no more runs; let guards hand theirs back or finish them."""
        self._draining = True
        for guarded in self._choice.idle():
            guarded.channel.send(leave=True)
            self._part(guarded)
        for guarded in self._guards.values():
            guarded.channel.send(drain=self.bench.drain_timeout.total_seconds())

    def leave(self, store: RuntimeStore, seconds: float) -> int:
        """Leave every run to its guard for so long, for the next worker to adopt; return how many."""
        asked_ns = Term(self._tools.clock, counts_sleep=store.facts().counts_sleep).now_ns()
        held = [one for one in self._guards.values() if one.leased is not None and one.end is None]
        not_ours = store.leave_runs([one.leased.lease for one in held if one.leased], leave_for_seconds=seconds)
        for guarded in held:
            assert guarded.leased is not None
            if guarded.leased.lease.id not in not_ours and guarded.leased.run.id not in not_ours:
                guarded.channel.send(deadline_ns=asked_ns + round(trusted_for(seconds) * 1e9))
        return len(held) - len(not_ours)

    def end_all(self) -> None:
        """End every agent now."""
        for guarded in self._guards.values():
            guarded.stop("drain")

    def close(self) -> None:
        """Let go of everything; what still runs goes on without us."""
        self._last_resort.close()
        if self._custody is not None:
            self._custody.close()
        for guarded in list(self._guards.values()):
            self._part(guarded)
        for pool in self._choice.pools.values():
            pool.close()
        self._epoll.close()
        for descriptor in (self._nudge_reader, self._nudge_writer):
            os.close(descriptor)

    def _complain(self, words: str) -> None:
        """Tell of a trouble once, for as long as it lasts."""
        now = self._now()
        self._troubles = {said: at for said, at in self._troubles.items() if now - at < TROUBLE_SECONDS * 1e9}
        if words not in self._troubles:
            self._tools.say(words)
        self._troubles[words] = now

    def _now(self) -> int:
        return self._tools.clock.awake_ns()
