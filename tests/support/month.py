"""A believable month in a store, for tests, pictures and benchmarks: the real verbs under a clock that is moved.

A seed decides how long agents work, what they cost and which of them fail. The month has a day on which clocks change, a
power cut of a night with missed ticks, a laptop that sleeps and is taken over, dead letters, and ticks that make no run
because of overlap, budget, calendar and a pause. Nothing is written but by the ticker, the leaser, the settler and the
reaper, so that it cannot show what the product would not do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random  # noqa: TID251  # seeded: the same month every time

from fencepost.flow.run_recheck import claim_for, recheck_for
from fencepost.model.definition import agent_from_json, retry_of
from fencepost.model.instants import from_us, to_us
from fencepost.model.lease import Claim
from fencepost.model.outcome import Failed, Outcome, Succeeded
from fencepost.model.process import ProcessId
from fencepost.model.retry import settle
from fencepost.model.run import RunId, RunState
from fencepost.operations.run_requests import request_run
from fencepost.operations.schedule_registry import pause_schedule, resume_schedule
from fencepost.ports.runs import LeasedRun, Report, RunRow
from tests.stores.rig import claim
from tests.support.month_cast import (
    AGENTS,
    HABITS,
    OTHER_AGENTS,
    OTHER_SCHEDULES,
    OTHERS,
    PLACES,
    SCHEDULES,
    SUMMARIES,
    WORKERS,
    printed,
)
from tests.support.runtime import TENANT, Runtime, at, new_id

SEED = 20270328
START, END = at("2027-03-10T06:00"), at("2027-04-09T12:43:20")
FEED_DOWN = at("2027-04-09T09:00")  # from then on what the importer reads is away
SLOTS = 2
TTL_SECONDS = 45.0
LOGGED = timedelta(days=3)  # of the newest attempts the output is kept too
WriteLog = Callable[[LeasedRun, str], None]


@dataclass(slots=True)
class Working:
    """An attempt under way: who holds it, when it will end and how."""

    leased: LeasedRun
    worker: ProcessId
    ends_us: int
    outcome: Outcome
    cost_micro: int | None


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that comes from outside, at its time."""

    at_us: int
    does: Callable[[], object]


class Month:
    """Lets a month go by, event after event."""

    def __init__(self, runtime: Runtime, write_log: WriteLog | None = None, *, seed: int = SEED) -> None:
        self._runtime = runtime
        self._write_log = write_log
        self._dice = Random(seed)
        self._working: dict[str, Working] = {}
        self._asleep: set[str] = set()  # hosts
        self._down = False  # the scheduler and all workers
        self._happenings: list[Happening] = []

    def play(self, until: datetime = END) -> None:
        """Apply the definitions and live until an instant, with some runs still under way."""
        runtime = self._runtime
        runtime.go_to(START)
        runtime.apply(*AGENTS, *SCHEDULES)
        runtime.apply(*OTHER_AGENTS, *OTHER_SCHEDULES, tenant=OTHERS)
        month = 40 * 86_400.0
        for worker in WORKERS:
            runtime.store.keep_workplaces(worker.host.name, worker, PLACES, ttl_seconds=month)
        self._plan()
        end_us = to_us(until)
        while (now_us := runtime.rig.now_us()) < end_us:
            self._step(now_us)
            runtime.go_to(from_us(min(end_us, max(now_us + 1, self._next_us(now_us)))))
        self._step(end_us)
        runtime.store.acquire(claim("scheduler:default", ttl=3600, label="fencepost up"))

    def _plan(self) -> None:
        """Say what will come from outside."""
        registry = self._runtime.store.registry()

        def pausing() -> None:
            note = "the handbook moves to the new site"
            pause_schedule(registry, "handbook-gardener", tenant=TENANT, until=None, note=note, actor="ada")

        plan: list[tuple[str, Callable[[], object]]] = [
            ("2027-03-16T07:30", pausing),
            ("2027-03-18T09:05", lambda: resume_schedule(registry, "handbook-gardener", tenant=TENANT, actor="ada")),
            ("2027-03-23T12:20", lambda: self._ask("reviewer")),
            ("2027-03-24T14:15", self._sleep),
            ("2027-03-24T15:02", self._asleep.clear),
            ("2027-04-03T20:22", self._cut_power),
            ("2027-04-04T05:48", self._come_back),
            ("2027-04-09T08:25", self._sleep),
            ("2027-04-09T09:40", self._asleep.clear),
            ("2027-04-09T12:35", lambda: self._ask("reviewer")),
            *((f"2027-{day:%m-%d}T08:10", self._clear_up) for day in (START + timedelta(n) for n in range(1, 30))),
        ]
        self._happenings = sorted((Happening(to_us(at(when)), does) for when, does in plan), key=lambda one: one.at_us)

    def _step(self, now_us: int) -> None:
        while self._happenings and self._happenings[0].at_us <= now_us:
            self._happenings.pop(0).does()
        if self._down:
            return
        self._runtime.tick()
        for one in sorted(self._working.values(), key=lambda one: one.ends_us):
            if one.ends_us <= now_us:
                self._settle(one)
        self._lease()

    def _next_us(self, now_us: int) -> int:
        times = [self._happenings[0].at_us] if self._happenings else []
        if not self._down:
            agenda = self._runtime.store.agenda(1)
            times += [at_us for at_us in (agenda.next_due_us, agenda.next_ready_us) if at_us is not None]
            times += [one.ends_us for one in self._working.values()]
        return min((one for one in times if one > now_us), default=now_us + 60_000_000)

    def _lease(self) -> None:
        """Let each worker that is awake and has room take what comes next, whoever took something last going last."""
        if not self._runtime.store.agenda(1).ready:
            return
        workers = [one for one in WORKERS if one.host.name not in self._asleep]
        self._dice.shuffle(workers)
        for worker in workers:
            while sum(one.worker == worker for one in self._working.values()) < SLOTS:
                leased = self._runtime.store.lease_run(
                    lambda run, worker=worker: self._claim(run, worker),  # type: ignore[misc]
                    recheck_for,
                    places=PLACES,
                )
                if leased is None:
                    break
                self._begin(leased, worker)

    def _claim(self, run: RunRow, worker: ProcessId) -> Claim:
        project = agent_from_json(run.manifest).project
        also = tuple(one.resource for one in PLACES if one.project == project and one.tenant == run.tenant)
        ttl = 6 * 3600.0  # renewing would tell nothing that a picture shows
        return claim_for(run, lease_id=f"l-{new_id()}", supervisor=worker, ttl_seconds=ttl, also=also)

    def _begin(self, leased: LeasedRun, worker: ProcessId) -> None:
        """Start an attempt and roll the dice on it; the days get busier towards the end of a week."""
        dice, run = self._dice, leased.run
        session = leased.session or f"{run.id}-{dice.randrange(16**6):06x}"
        self._runtime.store.start_run(
            leased, session=session if agent_from_json(run.manifest).engine == "claude" else None
        )
        habit, now = HABITS[run.agent], self._runtime.now
        load = 1.0 + 0.12 * now.weekday() + (0.35 if now.day in (31, 1, 2) else 0.0)
        minutes = habit.minutes * load * dice.lognormvariate(0, 0.35) * (0.4 if run.resume else 1.0)
        fails = dice.random() * 100 < habit.fails or (run.agent == "importer" and now >= FEED_DOWN)
        outcome: Outcome = Failed(1) if fails else Succeeded()
        if run.agent == "ledger-close":
            outcome = Failed(77)  # a newer fence stands at the gate: this one needs a person
        cost = None if habit.dollars is None else round(habit.dollars * load * dice.lognormvariate(0, 0.3) * 1e6)
        ends_us = to_us(now) + round(minutes * (0.3 if fails else 1.0) * 60e6)
        self._working[run.id] = Working(leased, worker, ends_us, outcome, cost)
        self._log(self._working[run.id], session, ends=False)

    def _settle(self, one: Working) -> None:
        run, good = one.leased.run, isinstance(one.outcome, Succeeded)
        retry = retry_of(agent_from_json(run.manifest))
        settlement = settle(one.outcome, run_id=RunId(run.id), attempt=run.attempt, retry=retry, now=self._runtime.now)
        text = self._log(one, f"{run.id}", ends=True)
        report = Report(
            type(one.outcome).__name__.lower(),
            exit_code=one.outcome.exit_code if isinstance(one.outcome, Failed) else 0,
            cost_micro=one.cost_micro,
            summary=SUMMARIES[run.agent] if good else None,
            last_log=text[-2000:],
        )
        self._runtime.store.settle(one.leased.lease, settlement, report, clean=True)
        del self._working[run.id]

    def _log(self, one: Working, session: str, *, ends: bool) -> str:
        run = one.leased.run
        dollars, good = (one.cost_micro or 0) / 1e6, isinstance(one.outcome, Succeeded)
        text = printed(run.agent, Random(run.id), session=session, dollars=dollars, ends=ends, good=good)
        if self._write_log is not None and END - self._runtime.now < LOGGED:
            self._write_log(one.leased, text)
        return text

    def _ask(self, agent: str) -> None:
        """Let a person ask for a run."""
        payload = {"change": 412}
        request_run(self._runtime.store, tenant=TENANT, target=agent, payload=payload, new_run_id=new_id, by="ada")

    def _clear_up(self) -> None:
        """Let a person deal with the dead letters of yesterday and before, as happens most mornings."""
        before_us = self._runtime.rig.now_us() - to_us(from_us(0) + timedelta(hours=20))
        for run in self._runtime.runs():
            if run.state == RunState.DEAD and run.discarded_us is None and (run.ended_us or 0) < before_us:
                self._runtime.store.discard(run.id, tenant=TENANT, by="ada")

    def _sleep(self) -> None:
        """Let the busiest machine fall asleep: nobody renews the leases of its runs, which run out and are taken over."""
        holders = [one.worker.host.name for one in self._working.values()]
        host = max(sorted(set(holders)), key=holders.count)
        self._asleep.add(host)
        self._runtime.pass_time(TTL_SECONDS)
        self._lose({run_id for run_id, one in self._working.items() if one.worker.host.name == host})

    def _cut_power(self) -> None:
        self._down = True

    def _come_back(self) -> None:
        """Begin again after a power cut: nothing of what ran is left."""
        self._down = False
        self._lose(set(self._working))

    def _lose(self, runs: set[str]) -> None:
        for held in self._runtime.store.leases():
            if held.run_id in runs:
                self._runtime.store.break_lease(held, why="its time to live was over")
        for run_id in runs:
            del self._working[run_id]
        self._runtime.reap()
