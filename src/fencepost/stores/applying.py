"""An apply, however large, that never keeps others waiting: planned outside of any lock, decided in one short transaction.

A small one is decided and written down at once. A large one is staged in steps that mean nothing yet; one row decides on
all of them; then they are written down one by one. A program that is killed before the decision has changed nothing, and what
was staged is thrown away later. After it, the next apply or ticker goes on, and no tick is decided in between.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from fencepost.model.apply_steps import ROWS_AT_ONCE, ApplyStep, steps_of
from fencepost.model.definition import ScheduleDefinition
from fencepost.model.errors import StoreUnavailable
from fencepost.model.instants import from_us, to_us
from fencepost.model.registry_plan import ChangeKind, Plan
from fencepost.model.zone import tzdata_version
from fencepost.stores.audit_writing import write_audit
from fencepost.stores.moved_tenants import check_stays
from fencepost.stores.owners import Meeting, Membership
from fencepost.stores.registry_writing import Writing
from fencepost.stores.transaction import Dialect, Transaction
from fencepost.stores.webhooks import HookChanges, write_hooks

LEFT_US = 3600 * 1_000_000  # what was staged so long ago has no owner any more
STAGED_AT_ONCE = 10  # steps in one transaction: no more than a row each
WRITTEN_AT_ONCE = 10  # likewise, of those that are written down, if all of them are quick:
HOLD_US = 40_000  # for so long a transaction goes on with the next step while others may wait for it


class ApplyDecision(NamedTuple):
    """What an apply shall make true, and the state of the registry for which it was planned."""

    planned: Plan
    hooks: HookChanges
    meeting: Meeting
    revision: int
    actor: str

    @property
    def tenant(self) -> str:
        """Whose registry it is."""
        return self.planned.wanted.tenant

    @property
    def source(self) -> str:
        """Whose definitions these are."""
        return self.planned.wanted.source

    @property
    def parsed(self) -> dict[str, ScheduleDefinition]:
        """The definitions that need not be read once more."""
        return {name: one.definition for name, one in self.planned.wanted.schedules.items()}


def put(dialect: Dialect, decision: ApplyDecision) -> datetime | None:
    """Make the registry as decided, and return since when; None if another apply has changed it meanwhile."""
    steps = steps_of(decision.planned, ROWS_AT_ONCE)
    if sum(len(step.rows) for step in steps) <= ROWS_AT_ONCE:
        return dialect.write(lambda tx: _put_at_once(tx, decision, steps), often=True)
    apply_id = f"a{os.urandom(12).hex()}"
    decided = None
    try:
        for first in range(0, len(steps), STAGED_AT_ONCE):
            _stage(dialect, apply_id, first, steps[first : first + STAGED_AT_ONCE], decision.tenant)
        decided = dialect.write(lambda tx: _decide(tx, decision, apply_id, len(steps)))
    finally:
        if decided is None:
            with suppress(StoreUnavailable):  # then the next apply throws it away
                _discard(dialect, apply_id, 0, len(steps))
    if decided is not None:
        finish(dialect, decision.tenant, parsed=(apply_id, decision.parsed))
    return decided


def finish(dialect: Dialect, tenant: str, *, parsed: tuple[str, Mapping[str, ScheduleDefinition]] = ("", {})) -> None:
    """Write down what an apply has decided, to its end; the process that decided it may be dead."""
    while dialect.read(lambda tx: tx.rows("applying_of", tenant=tenant)):
        dialect.write(lambda tx: _write_some(tx, tenant, parsed), often=True)
        dialect.give_way()


def _write_some(tx: Transaction, tenant: str, parsed: tuple[str, Mapping[str, ScheduleDefinition]]) -> None:
    """Write down a step, and those after it as long as that is quick: every transaction waits for the disk once."""
    ((began_us,),) = tx.rows("store_clock_us")
    for _ in range(WRITTEN_AT_ONCE):
        if not write_next(tx, tenant, parsed=parsed, waits=True):
            return
        ((now_us,),) = tx.rows("store_clock_us")
        if int(now_us) - int(began_us) >= HOLD_US:
            return


def write_next(
    tx: Transaction,
    tenant: str,
    *,
    parsed: tuple[str, Mapping[str, ScheduleDefinition]] = ("", {}),
    waits: bool = False,
) -> int:
    """Write down the next step of a tenant's apply; return how many there were, or 0 where another is at it."""
    if waits:
        tx.rows("lock_registry", tenant=tenant)
    elif not tx.rows("try_registry", tenant=tenant)[0][0]:
        return 0
    found = tx.rows("applying_of", tenant=tenant)
    if not found:
        return 0
    ((apply_id, source, actor, decided_us),) = found
    steps = tx.rows("next_step", id=apply_id)
    if not steps:
        tx.rows("end_applying", tenant=tenant, id=apply_id)
        return 1
    ((number, what, rows),) = steps
    known = parsed[1] if parsed[0] == apply_id else {}
    writing = Writing(tx, tenant=tenant, source=source, actor=actor, now=from_us(decided_us), parsed=known)
    writing.write(ApplyStep(what, json.loads(rows)))
    tx.rows("drop_steps", id=apply_id, number=number)
    return 1


def clear(dialect: Dialect, tenant: str) -> None:
    """Throw away what was staged by an apply that never came to a decision."""

    def look(tx: Transaction) -> list[tuple[str, int]]:
        return [(row[0], row[1]) for row in tx.rows("left_steps", tenant=tenant, left_us=LEFT_US)]

    while left := dialect.read(look):
        ((apply_id, number),) = left
        _discard(dialect, apply_id, number, number + 1)


def _put_at_once(tx: Transaction, decision: ApplyDecision, steps: Sequence[ApplyStep]) -> datetime | None:
    now = _begin(tx, decision)
    if now is None:
        return None
    writing = Writing(
        tx,
        tenant=decision.tenant,
        source=decision.source,
        actor=decision.actor,
        now=now,
        parsed=decision.parsed,
    )
    for step in steps:
        writing.write(step)
    return now


def _stage(dialect: Dialect, apply_id: str, first: int, steps: Sequence[ApplyStep], tenant: str) -> None:
    """Put steps aside, numbered from the first on; they are spelled before the transaction begins."""
    told = [(number, step.what, json.dumps(step.rows)) for number, step in enumerate(steps, first)]

    def work(tx: Transaction) -> None:
        for number, what, rows in told:
            tx.later("stage_step", id=apply_id, number=number, tenant=tenant, what=what, rows=rows)

    dialect.write(work, often=True)


def _decide(tx: Transaction, decision: ApplyDecision, apply_id: str, steps: int) -> datetime | None:
    now = _begin(tx, decision, staged=(apply_id, steps))
    if now is not None:
        tx.rows(
            "begin_applying",
            tenant=decision.tenant,
            id=apply_id,
            source=decision.source,
            actor=decision.actor,
            decided_us=to_us(now),
        )
    return now


def _begin(tx: Transaction, decision: ApplyDecision, staged: tuple[str, int] | None = None) -> datetime | None:
    """Record what is decided, and return the instant; None if it was planned on what is no longer so."""
    tenant, planned = decision.tenant, decision.planned
    tx.rows("lock_registry", tenant=tenant)
    check_stays(tx, tenant)
    if revision(tx, tenant) != decision.revision or tx.rows("applying_of", tenant=tenant):
        return None
    if staged is not None and tx.rows("staged_steps", id=staged[0])[0][0] != staged[1]:
        return None  # it took so long that another has thrown some of it away
    ((now_us,),) = tx.rows("store_clock_us")
    tx.rows("next_revision", tenant=tenant)
    Membership(tx, decision.meeting, from_us(int(now_us)), decision.actor).write()
    write_hooks(tx, planned.wanted, decision.hooks, actor=decision.actor)
    if planned.changes_anything:
        tx.rows("begin_with_tzdata", tzdata=tzdata_version())
        counts = planned.counts()
        detail = {"source": decision.source, **{kind.value: counts[kind] for kind in ChangeKind if counts[kind]}}
        write_audit(tx, tenant, actor=decision.actor, verb="apply", subject=f"file:{decision.source}", detail=detail)
    return from_us(int(now_us))


def revision(tx: Transaction, tenant: str) -> int:
    """Return how often a tenant's registry has changed."""
    return int(next(iter(tx.rows("registry_revision", tenant=tenant)), (0,))[0])


def _discard(dialect: Dialect, apply_id: str, first: int, end: int) -> None:
    for number in range(first, end):
        dialect.write(_dropping(apply_id, number))


def _dropping(apply_id: str, number: int) -> Callable[[Transaction], object]:
    return lambda tx: tx.rows("drop_steps", id=apply_id, number=number)
