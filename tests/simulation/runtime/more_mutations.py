"""Mistakes on purpose in what stands beside ticks and runs: ledger, projects, keys, lanes, pruning, sealing, notices, hooks."""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from fencepost.flow import notary
from fencepost.model import lease as rules
from fencepost.model.audit_chain import ChainEntry, Link, Seal, link, seal
from fencepost.model.effect_ledger import Ambiguous, New, Verdict, judge
from fencepost.model.project import Workplace
from fencepost.model.slots import Pool, seat
from fencepost.operations import webhook_delivery
from fencepost.service.leftovers import Leftovers
from fencepost.stores import concurrency_slots, end_rows, lane_leases, pruning, run_ends, run_lines, run_rows
from fencepost.stores import ledger as store_ledger
from fencepost.stores.lane_facts import Look
from fencepost.stores.lease_places import project_line
from fencepost.stores.transaction import Transaction
from tests.simulation.mutations import _count, _sql
from tests.simulation.runtime.attempts import Attempt
from tests.simulation.runtime.mutation import Mutation

LEASE_HELD = (
    "AND EXISTS (SELECT 1 FROM lease WHERE id = :lease_id AND fence = :fence AND epoch = :epoch AND state = 'held')"
)
LOOKED_AT = "(state <> 'dead' OR discarded_us <= :horizon_us)"
OLD = "ended_us <= :horizon_us"


def more_mutations() -> dict[str, Mutation]:
    """Return every mistake, by what it does."""
    doubt = "stop attempt, kill attempt | run agent, resolve | effects=1.0 port_fault=0.1 slow=0.1"
    frozen = "stop attempt | run agent | effects=1.0 worst=0.5 port_fault=0.0"
    project = "kill agent, kill attempt | run agent, session | project=project:scout"
    keys = "kill agent | run, tick again, edit | keyed=1.0 key_slots=2 slots=3"
    lanes = "stop attempt, stop keepers | backfill, tick again, replay | lanes=1 lane_batch=3 agent=green worst=0.3"
    pruning_of = "kill agent | run agent, deliver, replay | retention_seconds=20.0"
    return {
        "an answer that is recorded without the lease": Mutation(
            lambda: [_sql(ledger_complete=(LEASE_HELD, ""))], frozen
        ),
        "an effect in doubt is had again": Mutation(lambda: [patch.object(store_ledger, "judge", _once_more)], doubt),
        "an effect begun without the lease": Mutation(
            lambda: [
                patch.object(store_ledger, "_hold", _let_be),
                _sql(ledger_begin=("AND NOT lost AND remaining_ns > 0", "")),
            ],
            frozen,
        ),
        "projects served from the end of the line": Mutation(
            lambda: [patch.object(run_lines, "turns", _last_first), patch.object(rules, "ahead", lambda *_: ())],
            project,
        ),
        "a project with one place more": Mutation(
            lambda: [patch.object(rules, "choose", _squeeze_in), patch.object(run_lines, "turns", _last_first)],
            f"{project} project_slots=2 slots=3",
        ),
        "a key with one slot more": Mutation(
            lambda: [patch.object(concurrency_slots, "seat", _one_more), *_no_look()], keys
        ),
        "once that is not noted": Mutation(
            lambda: [_sql(spend_once=("once_done = true", "once_done = once_done"))], "drain | edit | once=1.0"
        ),
        "prune what has just ended": Mutation(
            lambda: [_sql(prune_run_page=(OLD, "true"), prune_runs=(OLD, ":horizon_us > 0"))], pruning_of
        ),
        "prune what was not looked at": Mutation(
            lambda: [_sql(prune_run_page=(LOOKED_AT, "true"), prune_runs=(LOOKED_AT, "true"))], pruning_of
        ),
        "prune beyond the watermark": Mutation(lambda: [patch.object(pruning, "_mark", lambda *_: None)], pruning_of),
        "prune without counting": Mutation(lambda: [patch.object(pruning, "_count", lambda *_: None)], pruning_of),
        "prune ticks whose runs are there": Mutation(
            lambda: [patch.object(pruning, "_tick_page", _every_tick(pruning._tick_page))], pruning_of
        ),
        "an end that is lost because the time is not told": Mutation(
            lambda: [patch.object(Attempt, "PATIENT", False)],
            "cut | run agent | port_fault=0.05",
        ),
        "a chain with a gap": Mutation(lambda: [patch.object(notary, "link", _skip_one)]),
        "a seal with another key": Mutation(lambda: [patch.object(notary, "seal", _forge(seal))]),
        "an end that is not told": Mutation(
            lambda: [
                patch.object(end_rows, "put_notices", lambda *_: None),
                patch.object(run_rows, "put_notices", lambda *_: None),
            ]
        ),
        "a notice that is sent when it is claimed": Mutation(
            lambda: [_sql(claim_notices=("SET attempt", "SET state = 'sent', attempt"))],
            "kill station, stop station | run agent | tells=1 port_fault=0.05",
        ),
        "a delivery without an id": Mutation(
            lambda: [patch.object(webhook_delivery, "delivery_of", lambda *_: "")], "cut, kill agent | deliver"
        ),
        "a lane that settles what is another's": Mutation(
            lambda: [
                patch.object(run_ends, "fate_of_attempt", running_is_enough),
                patch.object(run_ends, "_free", lambda *_: None),
                _sql(settle_runs=("AND +run.fence = one.fence AND run.state = 'running'", "")),
            ],
            lanes,
        ),
        "a lane that looks at no run": Mutation(
            lambda: [
                patch.object(Look, "has_room", lambda *_: True),
                patch.object(lane_leases, "_free_of_others", lambda _, offers, __: offers),
            ],
            lanes,
        ),
        "a project that two work in at once": Mutation(
            lambda: [patch.object(rules, "blockers", lambda *_: ()), patch.object(run_lines, "turns", _last_first)],
            project,
        ),
        "what is left alive is left alone": Mutation(
            lambda: [patch.object(Leftovers, "clear", lambda *_: None)], "kill tree | run agent | stubborn=1.0"
        ),
        "a server gone back, and a fence from a counter": Mutation(
            lambda: [patch.object(rules, "next_fence", _count)], "rewind"
        ),
    }


def _no_look() -> Sequence[AbstractContextManager[object]]:
    """Leave out the look at the keys that the line takes beforehand, which spares a worker's way and decides nothing."""
    words = ("pool.value ->> 2 <=", "pool.value ->> 2 + 9 <=")
    return [_sql(line_heads=words)]


def _once_more(entry: Any, call: Any, **more: Any) -> Verdict:  # noqa: ANN401  # handed on
    verdict = judge(entry, call, **more)
    return New() if isinstance(verdict, Ambiguous) else verdict


def _let_be(tx: Transaction, lease: rules.Lease) -> None:
    del tx, lease


def _last_first(tx: Transaction, places: Collection[Workplace], passed: Collection[str]) -> list[str]:
    lines = [project_line(tx, place.resource) for place in places]
    return [one.run_id for line in lines for one in reversed(line) if one.run_id not in passed]


def _squeeze_in(claim: rules.Claim, holders: Any, before: Any, dead: Any) -> Any:  # noqa: ANN401  # handed on
    del before
    taken = {name for held in rules.blockers(holders, dead) for name in held.resources}
    project = rules.project_in(claim.resources)
    assert project is not None
    return next((name for name in rules.slots_of(project, claim.slots) if name not in taken), project)


def _one_more(pool: Pool, taken: Collection[str]) -> str | None:
    return seat(pool._replace(limit=pool.limit + 1), taken)


def _every_tick(real: Any) -> Any:  # noqa: ANN401  # handed on
    return lambda *args: [(*row[:-1], True) for row in real(*args)]


def _skip_one(entries: Sequence[ChainEntry], last: Seal | None) -> list[Link]:
    return [one._replace(place=one.place + 1) for one in link(entries, last)]


def _forge(real: Any) -> Any:  # noqa: ANN401  # handed on
    return lambda *args, **options: real(*args, **{**options, "key": b"another key than the notary's own"})._replace(
        key_id=real(*args, **options).key_id
    )


def running_is_enough(lease: rules.Lease, held: rules.Held | None, now: Sequence[object] | None) -> str:
    """Take any run under way for one's own."""
    del lease, held
    return rules.HELD if now is not None and now[1] == "running" else rules.LOST
