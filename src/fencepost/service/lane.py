"""A lane: leases runs of in-process agents in batches, has one process call them, and settles them in batches.

This is the keeper. Its guard is the parent of the process that calls the functions, and ends it when the keeper is gone
or a lease cannot be renewed in time. Runs that have not begun by then go back into the queue, unharmed.
"""

import gc
import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from fencepost.flow.run_recheck import recheck_for
from fencepost.model.errors import StoreUnavailable
from fencepost.model.lease import ASK_PART, Claim, kill_grace
from fencepost.model.outcome import Failed, Lost, Outcome, Succeeded
from fencepost.ports.alike_runs import AlikeRuns, joined
from fencepost.ports.runs import Ended, LaneRequest, LeasedRun
from fencepost.service.answers import LOST
from fencepost.service.command_order import new_id
from fencepost.service.custody import Custody, Term
from fencepost.service.end_lines import LaneTelling
from fencepost.service.end_reasons import DRAIN, STOP
from fencepost.service.lane_batches import POLL_SECONDS, Batches
from fencepost.service.lane_caller import PERMITS_MAX, LaneRunner, post_caller
from fencepost.service.lane_runs import (
    LaneWatch,
    Left,
    ended_with,
    gates_of,
    make_ready,
    messages_of,
    settled,
    succeeded,
    wrote_a_log,
)
from fencepost.service.last_resort import LastResort
from fencepost.service.message_pipe import Message, readable
from fencepost.service.run_folder import plan_run_folder
from fencepost.service.signals import Mailbox
from fencepost.service.wakeup import Hint
from fencepost.service.worker_tools import WorkerTools
from fencepost.stores.runtime import RuntimeStore

BATCH_SECONDS = 0.05  # how long a batch should take; what is known of a function decides how many that are
AT_ONCE_SECONDS = 0.002  # shorter ones have their start put on record with the lease, all of a batch together
FIRST_GUESS_SECONDS = 0.01
STUCK_SECONDS = 1.0  # a run that takes longer holds up no other: what stands behind it goes back
IDLE_SECONDS = 600.0
AGAIN_SECONDS = 0.2
GARBAGE_MIN = (
    50_000  # a batch makes thousands of records and no circles: looking for them each time costs more than it finds
)
T = TypeVar("T")


def lane(bench: WorkerTools, hint: Hint, *, worker_alive: int) -> int:
    """Keep a lane until there has been nothing to do for long, or until the worker is gone or drains."""
    os.setsid()
    os.chdir(bench.folder)
    gc.freeze()
    gc.set_threshold(GARBAGE_MIN)
    caller = post_caller(bench)
    mailbox = Mailbox()
    store = bench.open_store()
    try:
        return _Keeper(bench, store, caller, mailbox).serve(hint, worker_alive)
    finally:
        caller.guard.dismiss()
        hint.close()
        mailbox.close()
        store.close()


class _Keeper:
    """From lease to settlement, for many runs."""

    def __init__(self, bench: WorkerTools, store: RuntimeStore, caller: LaneRunner, mailbox: Mailbox) -> None:
        self._bench, self._tools, self._store = bench, bench.tools, store
        self._caller, self._mailbox = caller, mailbox
        self._id, self._me = new_id(bench.tools.clock), bench.tools.processes.myself()
        self._folder = plan_run_folder(self._id)
        self._grace = kill_grace(bench.ttl_seconds)
        self._counts_sleep = store.facts().counts_sleep
        self._batches = Batches(
            Custody(bench.open_store, bench.tools.clock, counts_sleep=self._counts_sleep, tell=mailbox.nudge)
        )
        self._last_resort = LastResort(self._grace)
        self._hand: Sequence[LeasedRun] = ()  # leased, and not yet given to the runner
        self._given: Sequence[LeasedRun] = ()  # to the runner, and not yet reported by it
        self._done: Sequence[Ended] = ()
        self._now = bench.tools.clock.awake_ns
        self._watch: LaneWatch | None = None  # over the run that is being called
        self._moved_ns = self._busy_ns = self._looked_ns = self._now()
        self._mean = FIRST_GUESS_SECONDS
        self._given_number = 0
        self._is_runner_there = False  # before that nothing is leased: it could not begin
        self._drain_ns: int | None = None
        self._worker_alive: int | None = None  # readable once the worker is gone
        self._telling = LaneTelling(bench.tell, self._now)

    def serve(self, hint: Hint, worker_alive: int) -> int:
        caller = self._caller
        log_path = os.path.join(self._bench.log_folder, f"lane-{self._id}.log")
        if not caller.start(self._id, folder=self._folder.path, log_path=log_path, counts_sleep=self._counts_sleep):
            return 1
        fds = [caller.line_fd, caller.guard_fd, caller.output.fd]
        self._worker_alive = worker_alive
        while caller.ended is None:
            self._advance()
            if self._is_over():
                break
            ready = readable([*fds, *self._ears(), *hint.fds()], self._patience(hint))
            if caller.output.fd in ready and not caller.output.drain():
                fds.remove(caller.output.fd)
            self._listen(ready)
            if hint.heard(ready):
                self._looked_ns = 0
            if caller.line_fd in ready:
                self._hear(caller.words())
            if caller.guard_fd in ready:
                caller.hear_guard()
            self._keep_leases()
            self._look()
            self._telling.count()
        self._wind_up()
        self._telling.count(last=True)
        self._last_resort.close()
        self._batches.close()
        return 0

    def _ears(self) -> list[int]:
        """Return the descriptors on which requests to stop arrive."""
        return [self._mailbox.fd, *([] if self._worker_alive is None else [self._worker_alive])]

    def _listen(self, ready: list[int]) -> None:
        if self._worker_alive in ready:
            self._worker_alive = None
            self._end("worker gone")
        if self._mailbox.fd in ready and signal.SIGTERM in self._mailbox.collect():
            self._drain_ns = self._drain_ns or self._now()

    def _pause(self) -> None:
        """Give a store that is away a moment to come back; a request to stop is heard meanwhile."""
        until_ns = self._now() + round(AGAIN_SECONDS * 1e9)
        while (left := (until_ns - self._now()) / 1e9) > 0:
            self._listen(readable(self._ears(), left))

    def _advance(self) -> None:
        """Give the runner the next runs, then settle what is done and lease what comes after."""
        if self._caller.why or self._caller.ended is not None or not self._is_runner_there:
            return
        if not self._given and self._hand:
            self._give()
        ahead = self._mean < AT_ONCE_SECONDS and not self._hand
        idle = not self._given and not self._hand
        may_look = self._drain_ns is None and (ahead or idle) and (self._done or self._now() >= self._looked_ns)
        if self._done or may_look:
            self._turn(lease=may_look and not self._hand)
            if not self._given and self._hand:
                self._give()

    def _turn(self, *, lease: bool) -> None:
        quick = self._mean < AT_ONCE_SECONDS
        limit = max(1, min(PERMITS_MAX, int(BATCH_SECONDS / self._mean))) if quick else 1
        idle = not self._given and not self._hand  # then a single run begins right after its lease
        starts = limit if quick or idle else 0
        claim = Claim(
            id=os.urandom(16).hex(),
            tenant="",
            resources=(),
            run_id=self._id,
            ttl_seconds=self._bench.ttl_seconds,
            supervisor=self._me,
            guard=self._caller.guard.process,
            label="lane",
        )
        self._take(LaneRequest(claim, limit, starts, partial(gates_of, self._tools), recheck_for) if lease else None)

    def _take(self, wanted: LaneRequest | None) -> None:
        """Ask until there is an answer or our time is up: a grant whose answer was lost must not be forgotten."""
        term = Term(self._tools.clock, counts_sleep=self._counts_sleep)
        done, closing = self._done, self._batches.without(self._hand, self._given)
        while True:
            asked_ns = term.now_ns()
            try:
                turned = self._store.turn(done, closing, wanted)
                break
            except StoreUnavailable:
                if self._batches.is_late:
                    self._end("lost")
                    return
                self._pause()
                if not done and not closing and (self._drain_ns is not None or self._caller.why):
                    return  # nothing of ours is at stake: what was granted in silence never began, and goes back
                wanted = wanted._replace(again=True) if wanted else None
        self._done = ()
        self._telling.tell(done, turned.lost)
        for kept in self._batches.drop(closing):
            self._last_resort.forget(kept)
        if turned.leased:
            term.extend(self._bench.ttl_seconds, asked_ns=asked_ns)
            self._hand = turned.leased
            kept = self._batches.add(turned.leased[0].lease, term)
            self._last_resort.watch(kept, self._caller.guard.kill)
        else:  # there is time to tell it now: the next run need not wait
            self._caller.tell_deadline(self._batches.deadline_ns)
        if wanted is not None and not turned.leased:
            self._looked_ns = self._now() + round(POLL_SECONDS * 1e9)
        if turned.leased or done:
            self._busy_ns = self._now()

    def _note(self, one: LeasedRun, outcome: Outcome, *, left: Left, began: bool) -> None:
        """Decide what becomes of a run."""
        end = self._patiently(lambda: settled(one, outcome, self._bench, self._store, left=left, began=began))
        self._done = joined(self._done, [end])

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Ask the store until it answers or our time is up, so that no end is lost."""
        while True:
            try:
                return ask()
            except StoreUnavailable:
                if self._batches.is_late:
                    raise
                self._pause()

    def _give(self) -> None:
        """Give the runner the runs whose start is recorded, or record the start of one more and give it that."""
        chunk, self._hand = self._next_of(self._hand)
        if not chunk:
            return
        self._caller.tell_deadline(self._batches.deadline_ns)
        if self._batches.is_late:  # this process stood still since it asked, and the guard has only now heard of it
            self._hand = chunk
            self._end("lost")
            return
        messages = messages_of(chunk, self._bench, self._folder)
        self._given, self._given_number = chunk, len(chunk)
        self._caller.give(messages)
        self._watch_next()

    def _next_of(self, hand: Sequence[LeasedRun]) -> tuple[Sequence[LeasedRun], Sequence[LeasedRun]]:
        if isinstance(hand, AlikeRuns):
            return hand, ()
        started = [one for one in hand if one.started]
        if started:
            return started, [one for one in hand if not one.started]
        return [one for one in hand[:1] if self._is_ready(one)], hand[1:]

    def _is_ready(self, one: LeasedRun) -> bool:
        refused = make_ready(one, self._bench, self._store, wait=self._mailbox.wait)
        if refused is not None:
            outcome, said = refused
            left = Left(clean=self._caller.is_gone, said=said)
            self._note(one, outcome, left=left, began=False)
        return refused is None

    def _hear(self, messages: list[Message]) -> None:
        for message in messages:
            if "ready" in message:
                self._is_runner_there = True
                continue
            if "ask" in message:
                self._caller.answer(self._watch.answer(message) if self._watch else LOST)
                continue
            number, odd = message["ended"], message["odd"]
            ended, self._given = self._given[:number], self._given[number:]
            if number:
                assert ended[-1].run.id == message["last"], "runs end in the order in which they were given"
                self._note_ends(ended, dict(odd))
            self._watch_next()
            if message.get("idle"):
                took = message["spent_ns"] / 1e9 / max(1, self._given_number)
                self._mean = max(1e-5, (self._mean + 3 * took) / 4)

    def _note_ends(self, ended: Sequence[LeasedRun], odd: dict[int, tuple[int, bool]]) -> None:
        """Note how runs ended that the runner called; `odd` are those that failed or printed, by their place."""
        if self._watch and self._watch.told(ended[0]):
            odd.setdefault(0, (0, False))
        if not odd:
            self._done = joined(self._done, succeeded(ended))  # nothing to decide about most of them
            return
        for place, one in enumerate(ended):
            if place not in odd:
                self._done = joined(self._done, succeeded([one]))
                continue
            code, wrote = odd[place]
            self._finish(one, Succeeded() if code == 0 else Failed(code), exit_code=code, wrote=wrote)

    def _watch_next(self) -> None:
        """Watch over the run that is being called now."""
        self._moved_ns = self._now()
        self._watch = None
        if self._given:
            one = self._given[0]
            term = self._batches.term_of(one.lease)
            self._watch = LaneWatch(self._bench, self._store, one, term, self._is_ending)

    def _finish(
        self, one: LeasedRun, outcome: Outcome, *, began: bool = True, exit_code: int | None = None, wrote: bool = False
    ) -> None:
        told = self._watch.told(one) if self._watch else None
        left = Left(exit_code, wrote=wrote, clean=self._caller.is_gone, told=told)
        self._note(one, outcome, left=left, began=began)

    def _keep_leases(self) -> None:
        self._batches.keep()
        self._last_resort.start()
        if self._batches.is_late:
            self._end("lost")
        self._caller.tell_deadline(self._batches.deadline_ns)

    def _look(self) -> None:
        """See whether a limit is reached, a stop was asked for, or a slow run holds up the next."""
        if self._watch is None or self._caller.why:
            return
        over = self._watch.exceeded()
        if over is not None:
            self._end(over.value)
        slow_for = (self._now() - self._moved_ns) / 1e9
        if slow_for >= STUCK_SECONDS or self._drain_ns is not None:
            self._take_back()
        if not self._given:  # nothing of it had begun, and all of it went back
            return
        if self._drain_ns is not None and self._watch.drained(self._drain_ns):
            self._end(DRAIN)
        if not self._caller.why:
            reason = self._watch.asked_to_stop()
            if reason and slow_for > self._grace:
                self._end(f"{STOP}{reason}")

    def _take_back(self) -> None:
        """Take back what has not begun: the permits that are left, and what was not given at all."""
        number = self._caller.take_back()
        back = self._given[len(self._given) - number :] if number else []
        self._given = self._given[: len(self._given) - number]
        for one in (*back, *self._hand):
            self._finish(one, Lost(started=False), began=False)
        self._hand = ()
        if not self._given:
            self._watch = None

    def _is_ending(self) -> bool:
        return self._caller.why is not None

    def _end(self, why: str) -> None:
        self._caller.end(why, self._grace * ASK_PART)

    def _is_over(self) -> bool:
        if self._given or self._hand or self._done or self._caller.why:
            return False
        return self._drain_ns is not None or (self._now() - self._busy_ns) / 1e9 > IDLE_SECONDS

    def _patience(self, hint: Hint) -> float:
        waits = [hint.poll_seconds(), self._watch.left_seconds() if self._watch else POLL_SECONDS]
        if self._is_runner_there and not self._given and not self._hand:
            waits.append((self._looked_ns - self._now()) / 1e9)
        return max(0.0, min(*waits, *self._batches.waits()))

    def _wind_up(self) -> None:
        """Settle the rest when the runner is gone: a run that began by how it ended; the others go back into the queue."""
        if self._caller.ended is None:
            self._caller.dismiss()
            return
        self._hear(list(self._caller.last_words()))
        self._take_back()
        alone = len(self._given) == 1
        for one in self._given:
            outcome = ended_with(self._caller, alone=alone, resumable=partial(self._has_checkpoint, one))
            self._finish(one, outcome, exit_code=self._caller.exit_code, wrote=wrote_a_log(one, self._bench))
        self._given = ()
        self._take(None)

    def _has_checkpoint(self, one: LeasedRun) -> bool:
        return self._patiently(lambda: self._store.checkpoint(one.run.id)) is not None
