"""One run of a lane: what the runner is told of it, who watches over it while it is called, and what its end means."""

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import lru_cache

from fencepost.flow.closed_gate import closed_gate
from fencepost.host.log_files import last_lines, log_path
from fencepost.model.definition import AgentDefinition, agent_from_json, gate_targets, hash_of, retry_of, timeouts_of
from fencepost.model.errors import FencepostError, FenceRegress, LeaseLost, StoreUnavailable, Withheld
from fencepost.model.fast_typing import NamedTuple
from fencepost.model.instants import from_us
from fencepost.model.lease import Granted
from fencepost.model.outcome import (
    Failed,
    Interrupted,
    Lost,
    NotStarted,
    Outcome,
    Settlement,
    Stopped,
    Succeeded,
    TimedOut,
    refused_by,
)
from fencepost.model.retry import DrainStep, drain, settle
from fencepost.model.run import Reason, RunId, RunState
from fencepost.ports.alike_runs import AlikeEnds, AlikeRuns
from fencepost.ports.runs import Ended, LeasedRun, Report, RunRow
from fencepost.service.admission import Admission
from fencepost.service.agent_environment import likeness, own_values, run_variables
from fencepost.service.answers import LOST, SocketAnswers
from fencepost.service.command_order import Order, Tools
from fencepost.service.custody import Term
from fencepost.service.end_reasons import DRAIN, LOSSES, STOP
from fencepost.service.end_record import Told
from fencepost.service.lane_caller import LaneRunner
from fencepost.service.message_pipe import Message
from fencepost.service.run_answers import RunAnswers
from fencepost.service.run_folder import RunFolder
from fencepost.service.stopwatch import LOOK_SECONDS, Stopwatch
from fencepost.service.worker_tools import WorkerTools
from fencepost.stores.runtime import RuntimeStore

SUCCEEDED, QUIET = Settlement(RunState.SUCCEEDED), Report("succeeded", exit_code=0)


def agent_of(run: RunRow) -> tuple[AgentDefinition, bool]:
    """Return what is to be called, and whether it is what was applied; a batch has few different ones."""
    return _agent(run.manifest, run.manifest_hash)


@lru_cache(maxsize=1000)
def _agent(manifest: str, manifest_hash: str) -> tuple[AgentDefinition, bool]:
    return agent_from_json(manifest), hash_of(manifest) == manifest_hash


def messages_of(chunk: Sequence[LeasedRun], bench: WorkerTools, folder: RunFolder) -> list[Message]:
    """Spell what the runner is to call: one message for runs that are alike, with what differs for each."""
    if isinstance(chunk, AlikeRuns):
        return [{**_message(first, bench, folder), "runs": own} for first, own in chunk.kinds()]
    messages: list[Message] = []
    kind: tuple[object, ...] | None = None
    for one in chunk:
        alike = likeness(one.run, one.lease)
        if alike is None or alike != kind:
            kind = alike
            messages.append(_message(one, bench, folder))
        messages[-1]["runs"].append([one.run.payload, *own_values(one.run, one.lease)])
    return messages


def _message(one: LeasedRun, bench: WorkerTools, folder: RunFolder) -> Message:
    agent, fine = agent_of(one.run)
    return {
        "function": agent.function if fine else "",
        "env": run_variables(one.run, one.lease, folder=folder, key=""),
        "logs": bench.log_folder,
        "log_max": agent.log_max,
        "runs": [],
    }


def gates_of(tools: Tools, run: RunRow) -> tuple[str, ...]:
    """Spell each gate of a run the one canonical way; one that this worker does not know is refused at its raise."""
    targets = gate_targets(agent_of(run)[0])
    try:
        return tuple(tools.open_gate(target, run.tenant).target for target in targets)
    except FencepostError:
        return targets


def make_ready(
    one: LeasedRun, bench: WorkerTools, store: RuntimeStore, *, wait: Callable[[float], None]
) -> tuple[Outcome, str] | None:
    """End predecessors, raise the gates and put the start on record; or return why it cannot start, and in words."""
    order = Order((), one.run.tenant, one.lease.resources, "", bench.ttl_seconds, gates=one.lease.gates)
    try:
        Admission(order, bench.tools, store, wait=wait).prepare(Granted(one.lease, one.predecessors))
        store.start_run(one)
    except LeaseLost as error:
        return Lost(started=False), str(error)
    except FencepostError as error:
        return NotStarted(_reason(error)), f"fencepost: not started: {error}"
    return None


def _reason(error: FencepostError) -> Reason:
    if isinstance(error, FenceRegress):
        return Reason.FENCE_REGRESS
    return Reason.MISCONFIGURED if isinstance(error, Withheld) else Reason.GATE_UNREACHABLE


class LaneWatch:
    """Over the run that is being called: its time, its questions, and whether it shall stop."""

    def __init__(
        self,
        bench: WorkerTools,
        store: RuntimeStore,
        one: LeasedRun,
        term: Term,
        is_ending: Callable[[], bool],
    ) -> None:
        self._bench, self._store, self._one, self._term = bench, store, one, term
        self._is_ending = is_ending
        self._agent = agent_of(one.run)[0]
        self._clock = Stopwatch(bench.tools.clock.awake_ns, timeouts_of(self._agent))
        self._stop: str | None = None  # why it shall stop
        self._answers: RunAnswers | None = None

    def left_seconds(self) -> float:
        """Return when to look again."""
        return min(LOOK_SECONDS, self._clock.left_seconds())

    def exceeded(self) -> Reason | None:
        """Return the limit that is reached, if one is; what the function prints is a sign of work."""
        if self._agent.stall_timeout:
            self._clock.progress((self._answers.progressed if self._answers else 0) + self._printed())
        over = self._clock.exceeded()
        return over.reason if over is not None else None

    def asked_to_stop(self) -> str | None:
        """Return why it shall stop, if that was asked for; the store is asked now and then."""
        if self._clock.is_time_to_look():
            try:
                self._stop = self._store.stops_asked(self._one.lease).get(self._one.run.id)
            except StoreUnavailable:
                return self._stop  # the renewal finds out
        return self._stop

    def answer(self, request: Message) -> Message:
        """Answer what the function asks."""
        if self._answers is None:
            one = self._one
            basics = SocketAnswers(one.lease, self._term, self._shall_end, self._store)
            gates = dict(zip(self._agent.gates, gates_of(self._bench.tools, one.run), strict=True))
            self._answers = RunAnswers(basics, self._store, one.lease, gates, one.checkpoint)
        if request["run"] != self._one.run.id:
            return LOST
        handler = self._answers.handlers().get(str(request["ask"]))
        try:
            return (
                handler({**request, "verb": request["ask"]})
                if handler
                else {"ok": False, "message": "a lane does not answer that."}
            )
        except FencepostError as error:
            return {"ok": False, "code": error.code, "message": str(error)}

    def told(self, one: LeasedRun) -> Told | None:
        """Return what a run has reported about itself, if it is the one that was watched and has said anything."""
        return self._answers.told() if self._answers and one.run.id == self._one.run.id else None

    def _printed(self) -> int:
        try:
            return os.stat(log_path(self._bench.log_folder, self._one.run.id, self._one.lease.fence)).st_size
        except OSError:
            return 0

    def drained(self, drain_ns: int) -> bool:
        """Tell whether a drain that began then is to end it now."""
        clock = self._bench.tools.clock
        now = from_us(clock.wall_us())
        waited = timedelta(microseconds=(clock.awake_ns() - drain_ns) / 1000)
        deadline_at = now + self._bench.drain_timeout - waited
        step = drain(retry_of(self._agent), resumable=self._is_resumable(), now=now, deadline_at=deadline_at)
        return step is not DrainStep.KEEP

    def _is_resumable(self) -> bool:
        """Tell whether it has left a checkpoint; while that is not known, it is left to finish as if there were none."""
        try:
            return self._store.checkpoint(self._one.run.id) is not None
        except StoreUnavailable:
            return False

    def _shall_end(self) -> bool:
        return self._is_ending() or self._stop is not None


class Left(NamedTuple):
    """What a run has left behind."""

    exit_code: int | None = None
    wrote: bool = False  # a log
    clean: bool = True  # and nothing that still lives
    told: Told | None = None
    said: str | None = None  # why it did not start, where no log says so


def succeeded(runs: Sequence[LeasedRun]) -> Sequence[Ended]:
    """Settle runs that did what they should and said nothing."""
    if isinstance(runs, AlikeRuns):
        return AlikeEnds(runs, SUCCEEDED, QUIET)
    return [Ended(one, SUCCEEDED, QUIET) for one in runs]


def settled(
    one: LeasedRun, outcome: Outcome, bench: WorkerTools, store: RuntimeStore, *, left: Left, began: bool = True
) -> Ended:
    """Decide a run's next state, with what it left behind."""
    run, (agent, _) = one.run, agent_of(one.run)
    now = from_us(bench.tools.clock.wall_us() if isinstance(outcome, Succeeded) else store.clock_us())
    told = left.told or Told()
    settlement = settle(
        refused_by(outcome, told.refused),
        run_id=RunId(run.id),
        attempt=run.attempt,
        retry=retry_of(agent),
        now=now,
        closed=closed_gate(outcome, lambda: store.attempts(run.id), now),
    )
    path = log_path(bench.log_folder, run.id, one.lease.fence) if left.wrote else None
    report = Report(
        outcome=type(outcome).__name__.lower(),
        exit_code=left.exit_code,
        log=path,
        last_log=last_lines(path) if path else left.said,
        stalled=outcome == TimedOut(Reason.STALL_TIMEOUT),
        **told.fields(),
    )
    return Ended(one, settlement, report, began=began, clean=left.clean)


def wrote_a_log(one: LeasedRun, bench: WorkerTools) -> bool:
    """Tell whether a run whose process is gone has left a log."""
    return os.path.exists(log_path(bench.log_folder, one.run.id, one.lease.fence))


def ended_with(caller: LaneRunner, *, alone: bool, resumable: Callable[[], bool]) -> Outcome:
    """Say how a run ended whose process died with it; of several runs, which one did it is not known."""
    assert caller.ended is not None
    why = caller.why or str(caller.ended["why"])
    if why in (*LOSSES, "supervisor gone") or not alone:
        return Lost(started=True)
    if why in (Reason.TIMEOUT.value, Reason.STALL_TIMEOUT.value):
        return TimedOut(Reason(why))
    if why == DRAIN:
        return Interrupted(resumable=resumable())
    if why.startswith(STOP):
        return Stopped(Reason(why.removeprefix(STOP)))
    return Failed(caller.exit_code or 1)
