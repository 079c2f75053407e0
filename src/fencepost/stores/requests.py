"""The verbs of those who ask for runs: admission and insertion in one transaction, with the target's row locked."""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from fencepost.model.budget import Counted
from fencepost.model.definition import agent_from_json
from fencepost.model.errors import Busy, Invalid, Unknown
from fencepost.model.new_run import NewRun, RunTarget, unknown_target
from fencepost.model.overlap import LINE_MAX
from fencepost.ports.requests import (
    BATCH_MAX,
    Ask,
    BatchPart,
    Grounds,
    NewBatch,
    Placement,
    RequestedRun,
    TickFact,
    TriggeredRun,
    VersionFact,
    WaitingLine,
)
from fencepost.ports.runs import RunRow
from fencepost.stores.audit_writing import write_audit
from fencepost.stores.bulk import put_batch
from fencepost.stores.lane_turn import SqlBatches
from fencepost.stores.manifests import FRESH_US, keep_manifests
from fencepost.stores.moved_tenants import check_stays
from fencepost.stores.past_runs import touch
from fencepost.stores.pruning import watermark_of
from fencepost.stores.run_rows import lock_run, run_of
from fencepost.stores.ticks import MONTH_US, has_budget, has_time_budget, live_run, make_room, put_runs, send_runs
from fencepost.stores.transaction import Later, Transaction

LIMITS_KEPT = 1000


class SqlRequests(SqlBatches):
    """Runs on demand."""

    @cached_property
    def _limits(self) -> dict[tuple[str, str], int]:
        return {}

    def ask(self, ask: Ask, decide: Callable[[Grounds], Placement]) -> RequestedRun:
        """Answer a request in one transaction; the same key finds the run that it made before."""

        def work(tx: Transaction) -> RequestedRun:
            origin = _origin(tx, ask)
            ahead = LookAhead(self._limits)
            target = target_to_run(tx, ask, origin, ahead)
            known = known_by_key(tx, ask.tenant, target.schedule or target.agent, ask.key) if ask.key else None
            if known is not None:
                return RequestedRun(known, is_new=False)
            return place_run(tx, ask, decide(grounds_of(tx, ask, target, origin, looked=ahead.answer(target))))

        return self._dialect.write(work, often=True)

    def ask_many(self, ask: Ask, decide: Callable[[Grounds], Sequence[NewRun]], *, line_max: int) -> list[str]:
        """Put many runs of a schedule into the queue; return the ids of those whose keys were not known.

        Raise Busy, and make none, if more than `line_max` would wait then.
        """

        def work(tx: Transaction) -> list[str]:
            grounds = grounds_of(tx, ask, target_to_run(tx, ask, None), None, with_versions=True)
            runs = decide(grounds)
            made = put_runs(tx, runs)
            if made and len(grounds.live) + len(made) > line_max:
                raise Busy(
                    f"{len(made)} runs would wait behind {len(grounds.live)} of {ask.target}, and {line_max} may; "
                    "ask for a shorter range, or try again when some have run."
                )
            for run in runs:
                if run.id not in made:
                    known_by_key(tx, run.tenant, run.schedule or run.agent, run.request_key or "")
            detail = {"runs": len(made), "known": len(runs) - len(made)}
            write_audit(tx, ask.tenant, actor=ask.by, verb="backfill", subject=f"schedule:{ask.target}", detail=detail)
            return [run.id for run in runs if run.id in made]

        return self._dialect.write(work)

    def line_of(self, ask: Ask) -> WaitingLine:
        """Tell how many runs wait for an agent, and how many may; raise Unknown if there is none."""

        def work(tx: Transaction) -> WaitingLine:
            target = target_to_run(tx, ask, None)
            return WaitingLine(
                _now_and_waiting(tx, ask.tenant, target)[1], agent_from_json(target.manifest).waiting_max
            )

        return self._dialect.write(work)

    def ask_batch(
        self,
        ask: Ask,
        decide: Callable[[Grounds], NewBatch],
        spell: Callable[[], Iterable[BatchPart]],
    ) -> list[TriggeredRun]:
        """Put many runs of an agent into the queue, all or none; return the run that answers each.

        A key that is known, or that stands in the batch twice, finds the run that it made first. Raise Busy, and make
        none, if more would wait than may. Where a server works meanwhile, the parts are spelled as they are sent.
        """
        spelled = None if self._dialect.works_apart else list(spell())

        def work(tx: Transaction) -> list[TriggeredRun]:
            ahead = LookAhead(self._limits)
            target = target_to_run(tx, ask, None, ahead)
            batch = decide(grounds_of(tx, ask, target, None, looked=ahead.answer(target)))
            if not target.is_kept:
                keep_manifests(tx, [batch.like])
            return put_batch(tx, ask, batch, spell() if spelled is None else spelled)

        return self._dialect.write(work, often=True)

    def enqueue_run(self, run: NewRun, *, by: str = "door") -> RequestedRun:
        """Put a run into the queue, durably; the same request key finds the run that it made before."""
        ask = Ask(run.tenant, run.schedule or run.agent, by, key=run.request_key)
        return self._dialect.write(lambda tx: place_run(tx, ask, Placement(run)))


def place_run(tx: Transaction, ask: Ask, placement: Placement) -> RequestedRun:
    """Make the run, unless its key is known: two that ask at once get the same."""
    run = placement.run
    if isinstance(run, RunRow):
        return RequestedRun(_touched(tx, run), is_new=False)
    made, found = send_runs(tx, [run]), tx.later("run", id=run.id, tenant=run.tenant)
    if not made():
        known = known_by_key(tx, run.tenant, run.schedule or run.agent, run.request_key or "")
        assert known is not None, "only a known key keeps a run from being made"
        return RequestedRun(known, is_new=False)
    make_room(tx, placement.displaces, placement.stops)
    if ask.origin is not None:
        tx.rows("discard", id=ask.origin, tenant=ask.tenant)
    write_audit(
        tx, ask.tenant, actor=ask.by, verb=run.trigger, subject=f"run:{run.id}", detail=detail_of(run, placement)
    )
    (row,) = found()
    return RequestedRun(run_of(row), is_new=True)


def detail_of(run: NewRun, placement: Placement) -> dict[str, object]:
    """Say in the audit what a run was made of."""
    said = {"agent": run.agent, "schedule": run.schedule, "version": run.version, "manifest_hash": run.manifest_hash}
    links = {"origin": run.origin, "tick_us": run.tick_us, "key": run.request_key}
    room = {"displaces": list(placement.displaces), "stops": list(placement.stops)}
    return {name: value for name, value in {**said, **links, **room}.items() if value}


def known_by_key(tx: Transaction, tenant: str, target: str, key: str) -> RunRow | None:
    """Find a run by its request key, and write that it was asked for again.

    The writing is what makes the second answer as durable as the first: its commit waits for the same standbys.
    """
    rows = tx.rows("asked_again", tenant=tenant, target=target, request_key=key)
    if not rows:
        return None
    return run_of(tx.rows("run", id=rows[0][0], tenant=tenant)[0])


def _touched(tx: Transaction, run: RunRow) -> RunRow:
    touch(tx, run.id)
    return run._replace(requests=run.requests + 1)


def _origin(tx: Transaction, ask: Ask) -> RunRow | None:
    if ask.origin is None:
        return None
    run = lock_run(tx, ask.origin, ask.tenant)
    if run is None:
        raise Unknown(f"there is no run {ask.origin!r}; see: fencepost dead list")
    return run


class LookAhead:
    """What will be asked next about an agent, asked with the first question: as many may wait as the last time."""

    def __init__(self, limits: dict[tuple[str, str], int]) -> None:
        self._limits = limits  # how many may wait for each agent, as far as is known
        self._asked: tuple[tuple[str, str], int, Later] | None = None

    def ask(self, tx: Transaction, tenant: str, agent: str) -> None:
        """Have it looked up after the target's row is locked, and before it is known whether it is wanted."""
        limit = self._limits.get((tenant, agent), LINE_MAX)
        enough = limit - BATCH_MAX  # if no more wait, there is room for every request
        waiting = tx.later("waiting_of_agent", tenant=tenant, agent=agent, limit=limit + 1, enough=enough)
        self._asked = ((tenant, agent), limit, waiting)

    def answer(self, target: RunTarget) -> tuple[int, int] | None:
        """Return the time and how many wait at most, if that was the right question; near the end it is exact."""
        if self._asked is None or target.schedule is not None:
            return None
        key, limit, looked = self._asked
        if len(self._limits) > LIMITS_KEPT:
            self._limits.clear()
        self._limits[key] = agent_from_json(target.manifest).waiting_max
        if limit != self._limits[key]:
            return None
        ((waiting, now_us),) = looked()
        return now_us, waiting


def target_to_run(tx: Transaction, ask: Ask, origin: RunRow | None, ahead: LookAhead | None = None) -> RunTarget:
    """Lock what shall run, so that no other request is admitted at the same time, and read what it is now."""
    name = (origin.schedule or origin.agent) if origin else ask.target
    schedules = tx.later("schedule_to_run", tenant=ask.tenant, name=name)  # a schedule and an agent share no name
    agents_found = tx.later("agent_to_run", tenant=ask.tenant, name=name, fresh_us=FRESH_US)
    if ahead is not None:
        ahead.ask(tx, ask.tenant, name)
    rows, agents = schedules(), agents_found()
    if rows:
        return RunTarget(*rows[0])
    if not agents or (origin is not None and origin.schedule is not None):
        raise _unknown(tx, ask.tenant, name)
    ((manifest, manifest_hash, is_kept),) = agents
    return RunTarget(name, manifest, manifest_hash, is_kept=bool(is_kept))


def _unknown(tx: Transaction, tenant: str, name: str) -> Invalid:
    check_stays(tx, tenant)
    rows = tx.rows("names_to_run", tenant=tenant)
    kinds = {str(known): str(kind) for known, kind, retired in rows if not retired}
    return unknown_target(name, kinds, retired={str(known) for known, _, retired in rows if retired})


def grounds_of(
    tx: Transaction,
    ask: Ask,
    target: RunTarget,
    origin: RunRow | None,
    *,
    with_versions: bool = False,
    looked: tuple[int, int] | None = None,
) -> Grounds:
    """Read what a request is decided by."""
    now_us, waiting = looked or _now_and_waiting(tx, ask.tenant, target)
    dated = with_versions or ask.tick_us is not None
    return Grounds(
        now_us=now_us,
        target=target,
        live=tuple(live_run(row) for row in _live(tx, ask.tenant, target)),
        waiting=waiting,
        spending=_spending(tx, ask.tenant, target, now_us),
        versions=_versions(tx, ask.tenant, target) if dated else (),
        recorded=_recorded(tx, ask, target),
        of_tick=_runs_of_tick(tx, ask, target),
        origin=origin,
        replays=tuple(run_of(row) for row in tx.rows("runs_of_origin", origin=origin.id)) if origin else (),
        pruned_us=_pruned_us(tx, ask.tenant, target) if dated else None,
    )


def _pruned_us(tx: Transaction, tenant: str, target: RunTarget) -> int | None:
    """Return up to where records may be gone; asked for last, so that it covers all that was not found before."""
    mark = watermark_of(tx, tenant, target.schedule) if target.schedule is not None else None
    return mark.pruned_us if mark else None


def _live(tx: Transaction, tenant: str, target: RunTarget) -> list[Sequence[object]]:
    if target.schedule is None:
        return []
    return [row[2:] for row in tx.rows("live_runs", schedules=json.dumps([(tenant, target.schedule)]))]


def _now_and_waiting(tx: Transaction, tenant: str, target: RunTarget) -> tuple[int, int]:
    """Return the time and how many wait for an agent; beyond what may, they are not counted."""
    if target.schedule is not None:
        return int(tx.rows("clock")[0][0]), 0
    limit = agent_from_json(target.manifest).waiting_max + 1
    ((waiting, now_us),) = tx.rows("waiting_of_agent", tenant=tenant, agent=target.agent, limit=limit, enough=-1)
    return now_us, waiting


def _spending(tx: Transaction, tenant: str, target: RunTarget, now_us: int) -> tuple[Counted, ...]:
    if target.schedule is None or not has_budget(target.definition or "", target.manifest):
        return ()
    keys = json.dumps([(tenant, target.schedule)])
    timed = has_time_budget(target.definition or "")
    rows = tx.rows("spending", schedules=keys, since_us=now_us - MONTH_US, timed=timed)
    return tuple(Counted(*row[2:]) for row in rows)


def _versions(tx: Transaction, tenant: str, target: RunTarget) -> tuple[VersionFact, ...]:
    rows = tx.rows("versions_to_run", tenant=tenant, name=target.schedule or "")
    return tuple(VersionFact(*row) for row in rows)


def _recorded(tx: Transaction, ask: Ask, target: RunTarget) -> TickFact | None:
    if ask.tick_us is None or target.schedule is None:
        return None
    rows = tx.rows("tick_to_run", tenant=ask.tenant, schedule=target.schedule, tick_us=ask.tick_us)
    return TickFact(*rows[0]) if rows else None


def _runs_of_tick(tx: Transaction, ask: Ask, target: RunTarget) -> tuple[RunRow, ...]:
    if ask.tick_us is None or target.schedule is None:
        return ()
    rows = tx.rows("runs_of_tick", tenant=ask.tenant, schedule=target.schedule, tick_us=ask.tick_us)
    return tuple(run_of(row) for row in rows)
