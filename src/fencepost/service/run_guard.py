"""The guard of one run: the whole attempt except the store. Parent of the agent, owner of its deadline.

It answers to a keeper, the worker that has custody of its lease, over a socket. A keeper that goes away does not stop it:
the guard goes on until its deadline, and the next worker of this host takes it over, with a higher epoch. It begins
idle, prepares (gates, checkout), watches the agent, finishes (merge), and stays until its end is settled.

What it imports and what it does on the way to the agent's start, a thousand guards pay for in memory: pages that are
written to are no longer shared. So the order comes with all values worked out, and what few runs need is a skill apart.
"""

from __future__ import annotations

import errno
import os
from _operator import _compare_digest as compare_digest  # hmac's own, without its imports
from _socket import AF_UNIX, SOCK_STREAM, socket

from fencepost.host import cgroup as cgroups
from fencepost.host.libc import open_alarm, set_alarm
from fencepost.host.log_files import LogFile
from fencepost.model import fast_signal as signal
from fencepost.model.fast_typing import TYPE_CHECKING, Callable
from fencepost.model.lease import kill_grace
from fencepost.model.outcome import Lost, NotStarted, Outcome, Succeeded
from fencepost.model.run import Reason
from fencepost.ports.store import StoreFacts
from fencepost.service.agent_tree import AgentTree
from fencepost.service.agent_watch import AgentEnd, AgentWatch
from fencepost.service.answers import LOST
from fencepost.service.channel import Channel, Message
from fencepost.service.custody import Term
from fencepost.service.end_reasons import LOSSES
from fencepost.service.end_record import EndRecord, Told
from fencepost.service.exit_codes import not_started
from fencepost.service.guard import LOOK_SECONDS, wake_on_child
from fencepost.service.message_pipe import readable
from fencepost.service.run_folder import RunFolder
from fencepost.service.run_order import GuardPlace, RunOrder

if TYPE_CHECKING:
    from fencepost.ports.clock import Clock
    from fencepost.ports.processes import Processes
    from fencepost.service.guard_child import GuardChild
    from fencepost.service.guard_skills import GuardSkills
    from fencepost.service.model_pass import ModelPass
    from fencepost.service.run_socket import Answer

    Learn = Callable[[RunOrder, StoreFacts], GuardSkills]  # what a full guard learns from its order

PROTOCOL = 1
SCARCE = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)  # what a host runs out of
STARVED = (
    "the kernel killed an agent for want of memory: run fewer at once (--workers), or raise MemoryMax= of the service; "
    "see: fencepost doctor"
)
IDLE, PREPARE, AGENT, FINISH, ENDED = "idle", "prepare", "agent", "finish", "ended"
LONELY_SECONDS = 10.0  # how long a guard that has no run waits for its first keeper
UNFOUND_SECONDS = 60.0  # how often a guard that waits for its end to be settled looks whether it can be found at all
FAR_SECONDS = 3600.0


class RunGuard:
    """One guard, seen from its own process."""

    def __init__(
        self, listener: socket, place: GuardPlace, clock: Clock, processes: Processes, learn: Learn | None = None
    ) -> None:
        """Listen for a keeper. A plain guard learns nothing, and gets plain orders only."""
        self._listener, self._place, self._clock, self._learn = listener, place, clock, learn
        self._tree = AgentTree(clock, processes)
        self._term = Term(clock, counts_sleep=False)
        self._alarm: int | None = None
        self._keeper: Channel | None = None
        self._guests: dict[int, Channel] = {}  # connected, and not our keeper
        self._phase = IDLE
        self._epoch = -1
        self._adopt_key = ""
        self._facts = StoreFacts("", "", "", 0, False, ())  # of no store yet
        self._order: RunOrder | None = None
        self._skills: GuardSkills | None = None
        self._log: LogFile | None = None
        self._watch: AgentWatch | None = None
        self._child: GuardChild | None = None
        self._model: ModelPass | None = None  # where the run's calls of a model pass
        self._worktree: Message | None = None
        self._asks: dict[int, tuple[Message, Callable[[Answer], None]]] = {}  # relayed, and not yet answered
        self._asked = 0
        self._tools_state: dict[str, object] = {}  # how far each tool's calls are counted, for the next keeper
        self._drain_seconds: float | None = None
        self._end: EndRecord | None = None
        self._until_ns = self._clock.awake_ns() + round(LONELY_SECONDS * 1e9)
        self._left = False

    def serve(self) -> None:
        """Go on until the end of the run is settled."""
        wakeup = wake_on_child()
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: self._on_term())
        self._listener.setblocking(False)
        while not self._left:
            ready = readable(self._fds(wakeup), self._patience())
            if wakeup in ready:
                os.read(wakeup, 4096)
            if self._alarm in ready and self._alarm is not None:
                os.read(self._alarm, 8)
            self._hear(ready)
            self._look(ready)
        self._clear_away()

    def _fds(self, wakeup: int) -> list[int]:
        fds = [wakeup, self._listener.fileno(), *self._guests]
        fds += [self._keeper.fd] if self._keeper else []
        fds += [self._alarm] if self._alarm is not None else []
        fds += [self._child.fd] if self._child else []
        fds += self._model.fds() if self._model else []
        return fds + (self._watch.fds() if self._watch and not self._watch.ended else [])

    def _patience(self) -> float:
        left = [FAR_SECONDS]
        if self._phase in (PREPARE, FINISH):
            left.append(self._term.left_seconds)
        if self._watch and not self._watch.ended:
            left.append(self._watch.left_seconds())
        if self._model is not None:
            left.append(self._model.left_seconds())
        if self._phase == ENDED or (self._epoch < 0 and not self._guests):
            left.append((self._until_ns - self._clock.awake_ns()) / 1e9)
        if self._term.counts_sleep and self._alarm is None:
            left.append(LOOK_SECONDS)
        return max(0.0, min(left))

    # The keeper.

    def _hear(self, ready: list[int]) -> None:
        if self._listener.fileno() in ready:
            self._welcome()
        for descriptor in [one for one in ready if one in self._guests]:
            self._hear_guest(descriptor, self._guests[descriptor])
        keeper = self._keeper
        if keeper is not None and keeper.fd in ready:
            for message in keeper.receive():
                self._obey(message)
        if keeper is not None and self._keeper is keeper:
            keeper.flush()
            if keeper.closed:
                self._be_left(keeper)

    def _hear_guest(self, descriptor: int, guest: Channel) -> None:
        for message in guest.receive():
            if self._keeper is guest:
                self._obey(message)  # what it says right after it has taken us
            elif "take" in message:
                self._take(guest, message["take"])
            elif "leave" in message:
                self._left = self._epoch < 0  # it has no run, and is not needed
        if guest.closed and descriptor in self._guests:
            self._guests.pop(descriptor).close()
            self._left = self._left or (self._epoch < 0 and not self._guests)  # its worker is gone before it had a run

    def _welcome(self) -> None:
        """Accept callers and say who we are; processes of other users cannot even reach the folder."""
        try:
            descriptor, _ = self._listener._accept()  # type: ignore[attr-defined]  # noqa: SLF001  # as accept()
        except OSError:
            return
        guest = Channel(socket(AF_UNIX, SOCK_STREAM, 0, descriptor))
        self._guests[guest.fd] = guest
        guest.send(hello=self._hello())

    def _hello(self) -> Message:
        lease = self._order.lease if self._order else None
        return {
            "protocol": PROTOCOL,
            "store": self._facts.id,
            "lease": lease.id if lease else None,
            "fence": lease.fence if lease else None,
            "epoch": self._epoch,
            "phase": self._phase,
            "deadline_ns": self._term.deadline_ns,
            "agent": self._tree.pid,
            "tools": self._tools_state,
        }

    def _take(self, guest: Channel, take: Message) -> None:
        """Obey a keeper with a higher epoch that knows the key, before the deadline; a known end is always told."""
        knows = self._epoch < 0 or compare_digest(str(take.get("key", "")), self._adopt_key)
        if not knows or int(take["epoch"]) <= self._epoch:
            guest.send(refused="this guard has another keeper.")
            return
        if self._epoch >= 0 and self._term.over and self._phase != ENDED:
            guest.send(taken="ending")  # it ends by itself; who asks may only settle it
        else:
            self._epoch = int(take["epoch"])
            if self._epoch == int(take.get("first", -1)):
                self._be_born(take)
            self._term.deadline_ns = 0  # one that has left us gave us more time than the new one renews for
            self._move_deadline(int(take["deadline_ns"]))
            guest.send(taken=self._phase, agent=self._tree.pid)
        old, self._keeper = self._keeper, guest
        del self._guests[guest.fd]
        if old is not None:
            old.close()
        if self._order is None and "order" in take:
            self._begin(RunOrder.from_json(take["order"]))
        for number, (request, _) in self._asks.items():
            guest.send(ask=number, request=request)
        if self._end is not None:
            guest.send(ended=self._end.to_json())

    def _be_born(self, take: Message) -> None:
        self._adopt_key = str(take["key"])
        self._facts = StoreFacts(*take["facts"])
        self._term = Term(self._clock, counts_sleep=self._facts.counts_sleep)
        self._alarm = open_alarm() if self._facts.counts_sleep else None

    def _be_left(self, keeper: Channel) -> None:
        """Go on without a keeper; where there is nothing to go on with, leave."""
        keeper.close()
        self._keeper = None
        if self._epoch < 0:
            self._left = True

    def _obey(self, message: Message) -> None:
        if "deadline_ns" in message:
            self._move_deadline(int(message["deadline_ns"]))
        elif "go" in message:
            self._start()
        elif "answer" in message:
            self._answer(int(message["answer"]), message["content"])
        elif "drain" in message:
            self._drain(float(message["drain"]))
        elif "end" in message:
            self._stop(str(message["end"]), message.get("grace_seconds"))
        elif "settled" in message and self._end is not None:
            self._end.remove(self._place.end)
            self._left = True

    def _move_deadline(self, deadline_ns: int) -> None:
        self._term.deadline_ns = max(self._term.deadline_ns, deadline_ns)
        if self._model is not None:
            self._model.extend(self._term.deadline_ns)
        if self._alarm is not None:
            set_alarm(self._alarm, self._term.deadline_ns)

    def _say(self, **message: object) -> None:
        if self._keeper is not None:
            self._keeper.send(**message)

    def _relay(self, request: Message, reply: Callable[[Answer], None]) -> None:
        """Hand a question on to the keeper, or to the next one; after the deadline it is answered here."""
        self._asked += 1
        self._asks[self._asked] = (request, reply)
        self._say(ask=self._asked, request=request)

    def _answer(self, number: int, content: Message) -> None:
        request, reply = self._asks.pop(number, ({}, None))
        if reply is None:
            return
        self._tools_state.update(content.pop("tools", {}))
        if self._watch is not None:
            self._watch.heard(request, content)
        reply(content)

    def _on_term(self) -> None:
        """Drain when the host shuts down and no worker says so; a keeper has its own way to ask."""
        if self._keeper is None:
            self._drain(0.0)

    # The attempt.

    def _begin(self, order: RunOrder) -> None:
        """Take the order, and prepare what has to be prepared."""
        self._order = order
        self._phase = PREPARE
        self._grace = kill_grace(order.lease.ttl_seconds)
        self._tree.place(order.lease.run_id, order.cgroup)
        self._log = LogFile(order.log, order.log_max)
        self._began_us = self._clock.wall_us()
        folder = RunFolder(order.folder)
        try:
            folder.remove()  # what an attempt left that was killed with its guard
            folder.make(order.files)
        except OSError as error:
            self._refuse(f"its folder cannot be made: {error}", Reason.MISCONFIGURED)
            return
        if order.additions is not None:
            assert self._learn is not None, "a plain guard gets plain orders only"
            self._skills = self._learn(order, self._facts)
        try:
            self._child = self._skills.prepare() if self._skills else None
        except OSError as error:
            self._log.write(f"fencepost: not started: {error}\n".encode())
            self._conclude(Lost(started=False), started=False)
            return
        if self._child is None:
            self._say(prepared=True)

    def _prepared(self, result: Message) -> None:
        if "failed" not in result:
            self._worktree = result["done"]
            if self._keeps_pass():
                self._say(prepared=True)
        elif result["failed"] in ("lease_lost", "lease_moved"):
            self._conclude(Lost(started=False), started=False)
        else:
            self._refuse(str(result["message"]), Reason(result.get("reason", Reason.GATE_UNREACHABLE)))

    def _keeps_pass(self) -> bool:
        """Become the keeper of the run's pass at the model gate, if it has one; False if the gate is gone."""
        if self._skills is None or not self._skills.has_pass:
            return True
        self._model = self._skills.keep_pass(self._term.deadline_ns)
        if self._model is None:
            self._refuse("the model gate is gone.", Reason.GATE_UNREACHABLE)
            return False
        return True

    def _hear_model_gate(self, model: ModelPass) -> None:
        for message in model.hear():
            if "gone" in message:
                self._say(model_gate_gone=True)  # our own child would be taken for one of the agent's
            elif "said" in message and self._log is not None:
                self._log.write(f"{message['said']}\n".encode())
            elif "spent_micro" in message and self._watch is not None:
                self._watch.note_spending(int(message["spent_micro"]), message.get("usage", {}))
            elif "over" in message and self._watch is not None:
                self._watch.pass_budget(str(message["over"]))

    def _close_pass(self) -> None:
        """Let no call of a model pass any more: the lease is lost, or the run is over."""
        if self._model is not None:
            self._model.close()
            self._model = None

    def _refuse(self, why: str, reason: Reason) -> None:
        assert self._log is not None
        self._log.write(f"fencepost: not started: {why}\n".encode(errors="replace"))
        self._conclude(NotStarted(reason), started=False)

    def _start(self) -> None:
        """Start the agent, unless it is too late for it: we may have been frozen since the start was recorded."""
        order = self._order
        if order is None or self._phase != PREPARE or self._child is not None:
            return
        if self._term.over:
            self._conclude(Lost(started=True), started=True)
            return
        assert self._log is not None
        self._watch = AgentWatch(
            order,
            self._tree,
            self._clock,
            term=self._term,
            log=self._log,
            grace=self._grace,
            relay=self._relay,
            skills=self._skills,
        )
        try:
            pid = self._watch.start(self._worktree["path"] if self._worktree else order.workdir)
        except OSError as error:
            words = not_started(order.argv, error.errno or 0)
            self._log.write(f"fencepost: {words.words}\n".encode())
            if error.errno in SCARCE:  # it is not the agent's fault, and there may be room again in a moment
                self._say(scarce=error.strerror)
                self._conclude(Lost(started=False), started=False)
                return
            self._conclude(NotStarted(Reason.MISCONFIGURED), started=False, exit_code=words.code)
            return
        self._phase = AGENT
        self._say(spawned=pid)
        if self._drain_seconds is not None:
            self._watch.drain(self._drain_seconds)

    def _drain(self, seconds: float) -> None:
        self._drain_seconds = seconds
        if self._watch is not None:
            self._watch.drain(seconds)
        elif self._phase in (IDLE, PREPARE) and self._order is not None:
            self._abandon()

    def _stop(self, why: str, grace_seconds: float | None) -> None:
        if why in LOSSES:
            self._close_pass()
        if self._phase == AGENT and self._watch is not None:
            self._watch.end(why, grace_seconds)
        elif self._phase in (IDLE, PREPARE) and self._order is not None:
            self._abandon()
        elif self._phase == FINISH and why == "lost":
            self._lose()

    def _abandon(self) -> None:
        """Give up before the start: nothing has happened, and the run goes back into the queue."""
        if self._child is not None:
            self._child.end()
            self._child = None
        self._conclude(Lost(started=False), started=False)

    def _look(self, ready: list[int]) -> None:
        if self._model is not None:
            self._hear_model_gate(self._model)  # also where nothing is ready: it was told before the agent was refused
        if self._child is not None and self._child.fd in ready:
            self._hear_child(self._child)
        if self._watch is not None and self._phase == AGENT:
            self._watch.serve(ready)
            self._watch.look()
            session = self._watch.unnoted_session()
            if session is not None:
                self._relay({"verb": "session", "session": session}, lambda _: None)
            if self._watch.ended is not None:
                self._finish(self._watch.ended)
        elif self._phase in (IDLE, PREPARE) and self._order is not None and self._term.over:
            self._abandon()
        elif self._phase == FINISH and self._term.over:
            self._lose()
        if self._term.over and self._epoch >= 0:
            self._turn_away()
        if self._clock.awake_ns() >= self._until_ns and (self._phase == ENDED or self._epoch < 0) and not self._guests:
            self._until_ns = self._clock.awake_ns() + round(UNFOUND_SECONDS * 1e9)
            self._left = self._epoch < 0 or not os.path.exists(self._place.socket)
        self._tree.reap()

    def _turn_away(self) -> None:
        """Answer no to every question that is left: the lease is over."""
        asks, self._asks = self._asks, {}
        for _, reply in asks.values():
            reply(dict(LOST))

    def _hear_child(self, child: GuardChild) -> None:
        def relay(request: Message) -> None:
            self._relay(request, lambda answer: child.answer({"error": LOST["code"], **answer}))

        child.hear(relay=relay, say=lambda text: self._say(said=text))
        if child.result is not None:
            self._child = None
            child.end()
            if self._phase == PREPARE:
                self._prepared(child.result)
            else:
                self._finished(child.result)

    def _finish(self, end: AgentEnd) -> None:
        """See to the worktree, as long as the lease is ours; then it is over."""
        worktree = self._worktree
        assert self._watch is not None
        self._watch.close()
        if end.starved:
            self._say(said=STARVED)
        if worktree is None or isinstance(end.outcome, Lost) or not end.gone:
            self._conclude(end.outcome, started=True, exit_code=end.exit_code, told=end.told, gone=end.gone)
            return
        self._phase = FINISH
        assert self._skills is not None
        self._child = self._skills.finish(worktree, succeeded=isinstance(end.outcome, Succeeded))

    def _finished(self, result: Message) -> None:
        assert self._watch is not None
        end = self._watch.ended
        assert end is not None
        assert self._log is not None
        for line in result["done"] if "done" in result else [str(result.get("message", ""))]:
            self._log.write(f"fencepost: {line}\n".encode(errors="replace"))
        lost = result.get("failed") in ("lease_lost", "lease_moved")
        outcome = Lost(started=True) if lost else end.outcome
        self._conclude(outcome, started=True, exit_code=end.exit_code, told=end.told, gone=end.gone)

    def _lose(self) -> None:
        """End what finishes the run: its lease is over."""
        if self._child is not None:
            self._child.end()
            self._child = None
        end = self._watch.ended if self._watch else None
        code = end.exit_code if end else None
        self._conclude(Lost(started=True), started=True, exit_code=code, told=end.told if end else Told())

    def _conclude(
        self,
        outcome: Outcome,
        *,
        started: bool,
        exit_code: int | None = None,
        told: Told = Told(),  # noqa: B008  # a value
        gone: bool = True,
    ) -> None:
        """Write the end down where a crash leaves it, then tell the keeper; we stay until it is settled."""
        order, log = self._order, self._log
        assert order is not None
        assert log is not None
        self._close_pass()
        log.close()
        self._phase = ENDED
        self._until_ns = self._clock.awake_ns() + round(UNFOUND_SECONDS * 1e9)
        self._end = EndRecord.of(
            order, self._facts.id, outcome, started=started, exit_code=exit_code, told=told, gone=gone,
            began_us=self._began_us, dropped=log.dropped, why_dropped=log.why,
        )  # fmt: skip
        self._end.write(self._place.end)
        self._say(ended=self._end.to_json())
        self._turn_away()

    def _clear_away(self) -> None:
        """Leave nothing behind but an end that was not settled."""
        if self._order is not None:
            if self._order.cgroup:
                cgroups.remove(self._order.cgroup)
            RunFolder(self._order.folder).remove()
        try:
            os.unlink(self._place.socket)
        except FileNotFoundError:
            return
