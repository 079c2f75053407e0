"""One agent from its start to the end of its tree: its output, its limits, its questions, and how it ended.

Nothing here waits and nothing here knows the store: the guard calls `serve` when something is ready, and `look` after it.
"""

from __future__ import annotations

import os

from fencepost.host.oom_kills import kills_for_memory
from fencepost.model import fast_signal as signal
from fencepost.model.fast_typing import TYPE_CHECKING, NamedTuple
from fencepost.model.lease import ASK_PART
from fencepost.model.retry import timeouts_in_seconds
from fencepost.model.usage import usage_text
from fencepost.ports.processes import KILL_SECONDS
from fencepost.service.answers import SocketAnswers
from fencepost.service.end_reasons import (
    DONE,
    DRAIN,
    INTERRUPTS,
    LOSSES,
    OVER_BUDGET,
    PASSED_SECONDS,
    outcome_of,
    shown_code,
)
from fencepost.service.output import Output, hide
from fencepost.service.run_answers import LOCAL, RunAnswers
from fencepost.service.run_folder import RunFolder
from fencepost.service.run_socket import Answer, Relay, RunSocket
from fencepost.service.stopwatch import Stopwatch

if TYPE_CHECKING:
    from fencepost.host.log_files import LogFile
    from fencepost.model.outcome import Outcome
    from fencepost.ports.clock import Clock
    from fencepost.service.agent_events import Listening
    from fencepost.service.agent_tree import AgentTree
    from fencepost.service.custody import Term
    from fencepost.service.end_record import Told
    from fencepost.service.guard_skills import GuardSkills
    from fencepost.service.run_order import RunOrder

STDIN = "stdin"
GONE_LOOK_SECONDS = 0.01  # between two looks at a tree that is being killed
READS_MAX = 8  # of one flood of output before others have their turn


class AgentEnd(NamedTuple):
    """How an agent ended."""

    outcome: Outcome
    exit_code: int
    told: Told
    gone: bool  # its whole tree
    starved: bool = False  # killed, while the kernel ended processes for want of memory


class AgentWatch:
    """The agent of one attempt."""

    def __init__(
        self,
        order: RunOrder,
        tree: AgentTree,
        clock: Clock,
        *,
        term: Term,
        log: LogFile,
        grace: float,
        relay: Relay,
        skills: GuardSkills | None,
    ) -> None:
        self._order, self._tree, self._clock, self._term, self._log = order, tree, clock, term, log
        self._folder = RunFolder(order.folder)
        self._grace = grace
        self._skills = skills
        self._why: str | None = None  # why it is being ended
        self._interrupted_ns: int | None = None  # when an interrupted agent that is still there is asked to stop
        self._kill_ns: int | None = None  # when what is left of it is killed
        self._give_up_ns: int | None = None  # when we stop trying to kill it
        self._drain_until_ns: int | None = None
        self._kills_before = kills_for_memory()
        self._spent: tuple[int, dict[str, int]] | None = None  # what the model gate has counted
        self._passed_ns: int | None = None  # when an agent that would pass its budget is ended
        self._outputs: dict[int, Output] = {}
        self._listening: Listening | None = None
        self._watch = Stopwatch(clock.awake_ns, timeouts_in_seconds(*order.limits))
        answers = SocketAnswers(order.lease, term, self.is_ending, None)
        self._answers = RunAnswers(answers, None, order.lease, order.gates, order.checkpoint)
        handlers = {verb: handler for verb, handler in self._answers.handlers().items() if verb in LOCAL}
        self._socket = RunSocket(self._folder.socket, order.key, lambda: handlers, relay)
        self.ended: AgentEnd | None = None

    def start(self, folder: str) -> int:
        """Start the agent and return its pid, or raise the OSError that kept it from starting."""
        order = self._order
        standard = [self._input(order.stdin)]
        readers = []
        for _ in range(2 if self._skills and self._skills.understands else 1):
            reader, writer = os.pipe()
            readers.append(reader)
            standard.append(writer)
        try:
            pid = self._tree.start(
                order.argv,
                order.env,
                folder=folder,
                standard=(standard[0], standard[1], standard[-1]),
            )
        except OSError:
            for reader in readers:
                os.close(reader)
            raise
        finally:
            for descriptor in standard:
                os.close(descriptor)
        self._listen([Output(reader) for reader in readers])
        return pid

    def _input(self, text: str) -> int:
        """Lay out what the agent reads from standard input, in a file that has no name any more."""
        path = f"{self._folder.path}/{STDIN}"
        self._folder.put(STDIN, text)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        os.unlink(path)
        return descriptor

    def _listen(self, outputs: list[Output]) -> None:
        for output in outputs:
            output.keep(self._log, list(self._order.secrets))
            self._outputs[output.fd] = output
        if self._skills is not None:
            self._listening = self._skills.listen(outputs[0], outputs[-1], self._clock.awake_ns)

    def fds(self) -> list[int]:
        """Return what to wait for."""
        return [*self._outputs, *self._socket.fds()]

    def serve(self, ready: list[int]) -> None:
        """Take in what the agent says and asks."""
        for descriptor in [one for one in ready if one in self._outputs]:
            if not self._read(self._outputs[descriptor]):
                os.close(descriptor)
                del self._outputs[descriptor]
        self._socket.serve(ready)

    def _read(self, output: Output) -> bool:
        for _ in range(READS_MAX):
            before = output.seen
            if not output.drain():
                return False
            if output.seen == before:
                break
        return True

    def is_ending(self) -> bool:
        """Tell whether the agent is being ended."""
        return self._why is not None

    def unnoted_session(self) -> str | None:
        """Return a conversation that should be written down now, once."""
        session = self._listening.unnoted_session() if self._listening else None
        if session is not None and self._listening is not None:
            self._listening.noted(session)
        return session

    def heard(self, request: Answer, answer: Answer) -> None:
        """Take note of what the agent was answered from elsewhere."""
        verb = str(request.get("verb"))
        self._answers.heard(verb, answer)
        if verb == "checkpoint_set" and answer.get("ok"):
            self._answers.checkpoint = str(request.get("content", ""))

    def note_spending(self, micro: int, usage: dict[str, int]) -> None:
        """Take note of what the model gate has counted."""
        self._spent = (micro, {name: amount for name, amount in usage.items() if amount})

    def pass_budget(self, words: str) -> None:
        """Take note that a call would have passed the budget; the agent gets a moment to say so, and is ended then."""
        if self._passed_ns is None:
            self._log.write(f"{words}\n".encode(errors="replace"))
            self._passed_ns = self._now() + round(PASSED_SECONDS * 1e9)

    def drain(self, seconds: float) -> None:
        """Hand the run back as soon as nothing is lost by it, or after so many seconds."""
        if self._drain_until_ns is None:
            self._drain_until_ns = self._clock.awake_ns() + round(seconds * 1e9)

    def end(self, why: str, grace_seconds: float | None = None) -> None:
        """End the agent; the first reason stands. An agent that has a say gets the time to finish its turn."""
        if self._why is not None:
            return
        self._why = why
        if self._listening:
            self._listening.ending()
        if self._listening and self._listening.interrupt_seconds and why in INTERRUPTS:
            self._tree.signal(signal.SIGINT, group=False)
            self._interrupted_ns = self._now() + round(self._listening.interrupt_seconds * 1e9)
        else:
            self._ask(self._grace * ASK_PART if grace_seconds is None else grace_seconds)

    def look(self) -> None:
        """Do what is due: a limit, a drain, the next step of an end that has begun."""
        self._note_progress()
        if self._why is None:
            self._look_at_limits()
        if self._term.over:
            self._hurry()
        if self._interrupted_ns is not None and self._now() >= self._interrupted_ns:
            self._ask(self._grace * ASK_PART)
        if self._tree.settle_in_seconds() == 0:
            self._tree.settle_in()
        self._tree.reap()
        if self._tree.status is not None and self._kill_ns is None and not self._tree.is_gone():
            self._ask(self._grace * ASK_PART)  # what it left behind
        if self._kill_ns is not None and self._now() >= self._kill_ns:
            self._give_up_ns = self._give_up_ns or self._now() + round(KILL_SECONDS * 1e9)
            self._tree.kill()
        if self._tree.status is not None and self._is_over():
            self.ended = self._conclude()

    def _look_at_limits(self) -> None:
        over = self._watch.exceeded()
        due = self._listening.due() if self._listening else None
        if over is not None:
            self.end(over.reason.value)
        elif due is not None:
            self.end(due)
        elif self._passed_ns is not None and self._now() >= self._passed_ns:
            self.end(OVER_BUDGET)
        elif self._drain_until_ns is not None and (self.resumable or self._now() >= self._drain_until_ns):
            self.end(DRAIN)

    def _hurry(self) -> None:
        """Let nothing take longer than the lease allows, whatever the end was begun for."""
        self.end("deadline")
        if self._interrupted_ns is not None:
            self._ask(0)
        last_ns = self._term.deadline_ns + round(self._grace * ASK_PART * 1e9)
        if self._kill_ns is not None:
            self._kill_ns = min(self._kill_ns, self._now() + max(0, last_ns - self._term.now_ns()))

    def _ask(self, grace_seconds: float) -> None:
        self._interrupted_ns = None
        if self._kill_ns is None:
            self._kill_ns = self._now() + round(grace_seconds * 1e9)
            if grace_seconds > 0:
                self._tree.ask()

    def _is_over(self) -> bool:
        return self._tree.is_gone() or (self._give_up_ns is not None and self._now() >= self._give_up_ns)

    def left_seconds(self) -> float:
        """Return for how long nothing here needs a look."""
        if self._kill_ns is not None and (self._tree.status is not None or self._now() >= self._kill_ns):
            return GONE_LOOK_SECONDS
        waits = [self._watch.left_seconds(), self._listening.left_seconds() if self._listening else float("inf")]
        waits += [(at - self._now()) / 1e9 for at in (self._kill_ns, self._interrupted_ns) if at is not None]
        waits += [self._term.left_seconds] if self._kill_ns is None else []
        settle = self._tree.settle_in_seconds()
        if settle is not None:
            waits.append(settle)
        if self._passed_ns is not None and self._why is None:
            waits.append(max(0.0, (self._passed_ns - self._now()) / 1e9))
        if self._drain_until_ns is not None and self._why is None:
            waits.append(max(0.0, (self._drain_until_ns - self._now()) / 1e9))
        return max(0.0, min(waits))

    def close(self) -> None:
        """Answer no more."""
        self._socket.close()

    def _note_progress(self) -> None:
        """Count signs of work: those in the output if it is understood, else any output."""
        if self._listening is None:
            self._watch.progress(sum(one.seen for one in self._outputs.values()) + self._answers.progressed)
            return
        self._watch.progress(self._listening.work + self._answers.progressed)
        self._watch.calls(self._listening.open_calls)

    @property
    def resumable(self) -> bool:
        """Whether the run can be taken up again where it is."""
        return self._answers.checkpoint is not None or (self._listening is not None and self._listening.resumable)

    def _conclude(self) -> AgentEnd:
        """Read the rest of the output and say how it ended."""
        status = self._tree.status or 0
        for descriptor, output in self._outputs.items():
            output.finish()
            os.close(descriptor)
        if self._listening:
            self._listening.finish()
        code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        starved = self._why is None and code == 128 + signal.SIGKILL and kills_for_memory() > self._kills_before
        if starved:
            self._log.write(
                b"fencepost: killed, while the kernel of this machine ended processes for want of memory.\n"
            )
        cut_off = self._why not in (None, DONE) or os.WIFSIGNALED(status)
        told = self._answers.told() if self._listening is None else self._listening.told(cut_off=cut_off)
        told = self._with_spending(told)._replace(refused=self._answers.told().refused)
        told = told._replace(summary=hide(told.summary, list(self._order.secrets)) if told.summary else None)
        outcome, code = self._outcome(code)
        return AgentEnd(outcome, code, told, self._tree.is_gone(), starved)

    def _with_spending(self, told: Told) -> Told:
        """Add what the model gate has counted, where the agent itself told nothing."""
        if self._spent is None:
            return told
        micro, usage = self._spent
        return told._replace(
            cost_micro=micro if told.cost_micro is None else told.cost_micro,
            usage=usage_text(usage, partial=False) if told.usage is None else told.usage,
        )

    def _outcome(self, code: int) -> tuple[Outcome, int]:
        why = self._why or "exit"
        if self._passed_ns is not None and why not in LOSSES:
            return outcome_of(OVER_BUDGET, code, resumable=self.resumable), code
        if self._listening is not None and why not in LOSSES:
            judged = self._listening.outcome(code, ended_by_us=why not in ("exit", DONE))
            if judged is not None:
                return judged, shown_code(judged, code, why)
        return outcome_of(why, code, resumable=self.resumable), code

    def _now(self) -> int:
        return self._clock.awake_ns()
