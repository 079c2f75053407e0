"""How attempts end: from what a guard wrote down, or what had to be concluded, to the store, and to who wants to know."""

import os
from collections.abc import Sequence
from threading import Thread

from fencepost.flow.settler import Settler
from fencepost.host.log_files import last_lines, log_path
from fencepost.model.definition import agent_from_json
from fencepost.model.instants import from_us
from fencepost.model.outcome import Lost, NotStarted, Outcome, TimedOut, refused_by
from fencepost.model.run import Reason, RunState
from fencepost.ports.runs import Ended, LeasedRun, Report
from fencepost.service.end_lines import end_of
from fencepost.service.end_record import EndRecord, Told
from fencepost.service.spans import EndedAttempt, tell_span, wants_spans
from fencepost.service.worker_tools import WorkerTools
from fencepost.stores.runtime import RuntimeStore


class RunEnds:
    """Writes down how runs ended, and tells of it."""

    def __init__(self, bench: WorkerTools) -> None:
        self._bench, self._tools = bench, bench.tools

    def record(self, leased: LeasedRun, outcome: Outcome, *, started: bool, gone: bool = True) -> EndRecord:
        """Return the end of a run whose guard could not report it."""
        run, lease = leased.run, leased.lease
        return EndRecord(
            lease.store,
            run.tenant,
            run.id,
            lease.id,
            lease.fence,
            outcome,
            started=started,
            exit_code=None,
            told=Told(),
            gone=gone,
            log=log_path(self._bench.log_folder, run.id, lease.fence),
            began_us=self._tools.clock.wall_us(),
        )

    def settle(self, store: RuntimeStore, ends: Sequence[tuple[LeasedRun, EndRecord]]) -> dict[str, str]:
        """Settle ends, all together, and return what became of those that are not settled by us, by run."""
        settler = Settler(lambda: from_us(store.clock_us()), store.attempts)
        ended = [_ended(settler, leased, record) for leased, record in ends]
        not_ours = store.settle_runs(ended) if ended else {}
        for end, (_, record) in zip(ended, ends, strict=True):
            answer = not_ours.get(end.leased.run.id)
            if answer is None:
                self._tell(record, end)
            elif answer == "lost" and end.clean:
                store.bury(end.leased.lease)
        return not_ours

    def _tell(self, record: EndRecord, end: Ended) -> None:
        now_us = self._tools.clock.wall_us()
        run_id, seconds = end.leased.run.id, (now_us - record.began_us) / 1e6
        if record.outcome != Lost(started=False) or end.settlement.state is not RunState.READY:  # nothing has happened
            self._bench.tell(end_of(end.leased.run, end.settlement, end.report, seconds=seconds))
        if record.dropped:
            self._tools.say(
                f"run {run_id}: {record.dropped} bytes of its output could not be kept: {record.why_dropped}."
            )
        if wants_spans(os.environ):
            agent = agent_from_json(end.leased.run.manifest)
            told = EndedAttempt(end.leased, agent, end.settlement, end.report, record.began_us, now_us)
            Thread(target=tell_span, args=(told, dict(os.environ), self._tools.say)).start()


def _ended(settler: Settler, leased: LeasedRun, end: EndRecord) -> Ended:
    report = Report(
        outcome=type(end.outcome).__name__.lower(),
        exit_code=end.exit_code if end.started or isinstance(end.outcome, NotStarted) else None,
        log=end.log,
        last_log=last_lines(end.log),
        stalled=end.outcome == TimedOut(Reason.STALL_TIMEOUT),
        **end.told.fields(),
    )
    settlement = settler.decide(leased.run, refused_by(end.outcome, end.told.refused))
    return Ended(leased, settlement, report, began=end.started, clean=end.gone)
