"""Mistakes on purpose in the runtime: each takes one rule away, and the simulator must notice."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from fencepost.flow import run_recheck, tick_rows
from fencepost.flow.reaper import Reaper
from fencepost.flow.tick_rows import Writer
from fencepost.model import decide, definition, retry, version_handover
from fencepost.model.budget import FREE, Reservation
from fencepost.model.errors import StoreUnavailable
from fencepost.model.missed import _Owed
from fencepost.model.outcome import Settlement
from fencepost.model.overlap import Admitted
from fencepost.model.run import Reason, RunState
from fencepost.model.trigger import CronTrigger
from fencepost.ports.requests import Ask, Grounds, Placement, RequestedRun
from fencepost.stores import requests, run_ends, run_rows, run_starts, runs, ticks
from fencepost.stores.requests import SqlRequests
from fencepost.stores.run_standings import Standings
from fencepost.stores.runs import SqlRuns
from fencepost.stores.tick_draft import draft_of
from tests.simulation.mutations import _sql, _statements
from tests.simulation.promises import until_broken
from tests.simulation.runtime.more_mutations import more_mutations, running_is_enough
from tests.simulation.runtime.mutation import Mutation
from tests.simulation.runtime.play import simulate_runtime
from tests.simulation.world import Violation


def mutations() -> dict[str, Mutation]:
    """Return every mistake, by what it does."""
    stops = "stop keepers, stop attempt, kill tree, kill attempt"
    return {
        "settle without the fence": Mutation(_settle_without_fence, stops),
        "start without the fence": Mutation(
            lambda: [
                patch.object(run_starts, "fate_of_attempt", running_is_enough),
                _sql(start_runs=("+run.fence = one.fence AND ", "")),
                _statements({"start_leases": "SELECT :leases"}),
            ],
            stops,
        ),
        "a checkpoint without the fence": Mutation(
            lambda: [_sql(put_checkpoint=("run.fence = :fence AND ", ":fence = :fence AND "))], stops
        ),
        "reap without compare": Mutation(
            lambda: [
                patch.object(runs, "_is_lost", lambda *_: True),
                _sql(lost_runs=("lease_fact.id IS NULL", "lease_fact.fence > 0")),
            ]
        ),
        "reap the living": Mutation(lambda: [patch.object(Reaper, "step", _break_everything)]),
        "a start that is not recorded": Mutation(lambda: [_sql(start_attempts=("attempt.run_id = one.id", "false"))]),
        "a cursor that stays": Mutation(
            lambda: [_sql(move_cursors=("cursor_us = next.value ->> 'cursor_us'", "cursor_us = schedule.cursor_us"))]
        ),
        "a cursor for each version": Mutation(lambda: [patch.object(version_handover, "_cursor", _an_hour_ago)]),
        "an edit that forgets what is owed": Mutation(
            lambda: [patch.object(version_handover, "ends_at", lambda before, *, now: max(before.cursor, now))],
            "outage",
        ),
        "a retirement that forgets what is owed": Mutation(
            lambda: [_sql(retire_schedules=("due_us <= :now_us OR trigger", "trigger"))], "outage, kill station"
        ),
        "gaps wait for the next tick": Mutation(
            lambda: [patch.object(CronTrigger, "look_after", _next_tick)], "drain | edit, retire"
        ),
        "gaps are not recorded": Mutation(lambda: [patch.object(Writer, "_gaps", lambda *_: iter(()))]),
        "gaps are never shifted": Mutation(lambda: _zone_policy(dst_gap="skip")),
        "folds run twice": Mutation(lambda: _zone_policy(dst_fold="both")),
        "folds run the last time": Mutation(lambda: _zone_policy(dst_fold="last")),
        "no grace": Mutation(lambda: [patch.object(_Owed, "cutoff", property(lambda owed: owed.now))]),
        "endless grace": Mutation(
            lambda: [patch.object(_Owed, "cutoff", property(lambda owed: owed.now - timedelta(days=365)))]
        ),
        "pauses are not looked at": Mutation(
            lambda: [_sql(pauses_since=("until_us > :since_us", "until_us < :since_us"))], "kill agent | pause, halt"
        ),
        "blackouts are not looked at": Mutation(
            lambda: [patch.object(tick_rows, "calendar_of", lambda _: None)], "kill agent | edit | blackouts=1.0"
        ),
        "blackouts are not looked at again": Mutation(
            lambda: [patch.object(run_recheck, "_in_blackout", lambda *_: False)], "stop station | edit | blackouts=1.0"
        ),
        "recheck left out": Mutation(
            lambda: [patch.object(run_recheck, "recheck", lambda _: None)], "stop station | edit, pause | blackouts=1.0"
        ),
        "overlap ignored": Mutation(lambda: [patch.object(decide, "admit", lambda *_, **__: Admitted())]),
        "no bound on what runs at once": Mutation(
            lambda: [
                patch.object(Standings, "has_room", lambda *_: True),
                _sql(line_heads=("lease_max >", "1000000 >")),
            ],
            "kill agent | backfill, replay | slots=3 stations=4 keyed=0.0 overlap=allow_parallel",
        ),
        "budget ignored": Mutation(
            lambda: [patch.object(decide, "reserve", _pay_nothing), patch.object(run_recheck, "reserve", _pay_nothing)]
        ),
        "a drain that uses an attempt": Mutation(
            lambda: [patch.object(retry, "_after_drain", _drained(costs=True))], "drain"
        ),
        "a drain that gives up": Mutation(
            lambda: [
                patch.object(
                    retry,
                    "_after_drain",
                    lambda *_, **__: Settlement(RunState.DEAD, Reason.INTERRUPTED, uses_attempt=False),
                )
            ],
            "drain",
        ),
        "on_lost ignored": Mutation(lambda: [patch.object(retry, "_after_ambiguous_end", _restart)]),
        "retries without end": Mutation(
            lambda: [
                patch.object(
                    retry,
                    "_after_failure",
                    lambda *_, ready_at: Settlement(RunState.READY, Reason.RETRY, ready_at=ready_at),
                )
            ]
        ),
        "a loss before the start uses an attempt": Mutation(
            lambda: [_sql(settle_runs=("attempt - one.refund", "attempt - 0 * one.refund"))]
        ),
        "a stop that is not heeded": Mutation(
            lambda: [patch.object(module, "heeding", lambda _, settlement: settlement) for module in (runs, run_ends)],
            "kill attempt, kill agent | cancel, run",
        ),
        "ack before commit": Mutation(
            lambda: [patch.object(SqlRequests, "ask", _ask_and_hope)], "cut | run, run agent"
        ),
        "an end that is taken as read": Mutation(lambda: [patch.object(SqlRuns, "settle", _settle_and_hope)], "cut"),
        "keys ignored": Mutation(_no_keys, "kill agent | run, run agent"),
        "ticks without audit": Mutation(
            lambda: [
                _sql(
                    write_audit=(
                        "FROM json_each(:entries)",
                        "FROM json_each(:entries) WHERE value ->> 'verb' <> 'tick'",
                    )
                )
            ]
        ),
        "ticks without their runs": Mutation(
            lambda: [patch.object(ticks, "draft_of", lambda plans, *_: draft_of(plans)._replace(runs=()))]
        ),
        "every stops after its first end": Mutation(lambda: [patch.object(run_rows, "_due_again", lambda *_: None)]),
        "a checkpoint that is not handed over": Mutation(
            lambda: [_sql(checkpoints=("WHERE run_id", "WHERE false AND run_id"))]
        ),
        "resumed without being told": Mutation(
            lambda: [_sql(settle_runs=("resume = one.resume", "resume = 0 * one.resume"))]
        ),
        "leased before its time": Mutation(
            lambda: [_sql(line_heads=("place_us <= wall_us() AND ready_us <= wall_us()", "true"))]
        ),
        **more_mutations(),
    }


def seeds_until_caught(mutation: Mutation, limit: int) -> tuple[int, Violation | None]:
    """Try seeds with the mistake in place; return how many it took, and what noticed it."""
    with applied(mutation):
        return until_broken(simulate_runtime(seed, profile=mutation.profile) for seed in range(limit))


@contextmanager
def applied(mutation: Mutation) -> Iterator[None]:
    """Put a mistake in place; what was built before it is forgotten, and afterwards what was built with it."""
    with ExitStack() as stack:
        for one in mutation.patches():
            stack.enter_context(one)
        _forget()
        try:
            yield
        finally:
            stack.callback(_forget)


def _forget() -> None:
    tick_rows.meaning_of.cache_clear()
    definition._cron_trigger.cache_clear()


def _settle_without_fence() -> Sequence[AbstractContextManager[object]]:
    return [
        patch.object(run_ends, "fate_of_attempt", running_is_enough),
        patch.object(run_ends, "_free", lambda *_: None),
        _sql(settle_runs=("+run.fence = one.fence AND ", "")),
    ]


def _break_everything(self: Reaper) -> int:
    for held in self.leases.leases():
        self.leases.break_lease(held, why="who knows")
    return sum(self._reap(run) for run in self.runs.lost_runs(self.batch_max))


def _an_hour_ago(_: object, before: object, now: datetime) -> datetime:
    return now if before is None else now - timedelta(hours=1)


def _next_tick(self: CronTrigger, at: datetime) -> datetime | None:
    following = self.next_after(at)
    return following.tick_at if following else None


def _zone_policy(**policy: Any) -> Sequence[AbstractContextManager[object]]:  # noqa: ANN401  # of the definition
    real = definition.trigger_of

    def trigger_of(schedule: definition.ScheduleDefinition) -> object:
        return real(replace(schedule, **policy))

    return [patch.object(tick_rows, "trigger_of", trigger_of)]


def _pay_nothing(*_: object, at: datetime) -> Reservation:
    return Reservation(FREE, at)


def _drained(*, costs: bool) -> Callable[..., Settlement]:
    real = retry._after_drain
    return lambda *args, **kwargs: replace(real(*args, **kwargs), uses_attempt=costs)


def _restart(*_: object, ready_at: datetime) -> Settlement:
    return Settlement(RunState.READY, Reason.RESTART, ready_at=ready_at)


def _ask_and_hope(
    self: SqlRequests,
    ask: Ask,
    decide: Callable[[Grounds], Placement],
    *,
    real: Callable[..., RequestedRun] = SqlRequests.ask,
) -> RequestedRun:
    decided: list[Placement] = []

    def note(grounds: Grounds) -> Placement:
        decided[:] = [decide(grounds)]
        return decided[0]

    try:
        return real(self, ask, note)
    except StoreUnavailable:
        run_id = decided[0].run.id if decided else "unknown"
        return RequestedRun(SimpleNamespace(id=run_id, request_key=None, state="ready"), is_new=True)  # type: ignore[arg-type]


def _settle_and_hope(self: SqlRuns, *args: Any, real: Any = SqlRuns.settle, **kwargs: Any) -> None:  # noqa: ANN401
    try:
        real(self, *args, **kwargs)
    except StoreUnavailable:
        return


def _no_keys() -> Sequence[AbstractContextManager[object]]:
    real = ticks.put_runs

    def put_runs(tx: Any, made: Any) -> Any:  # noqa: ANN401  # handed on
        return real(tx, [run._replace(request_key=None) for run in made])

    return [patch.object(requests, "known_by_key", lambda *_: None), patch.object(requests, "put_runs", put_runs)]
