"""The registry's verbs, written once for both dialects; each but a large apply is one transaction.

An apply is planned outside of any lock (applying.py). It locks the tenant's registry first, then the schedules that it
changes, by name. Tickers lock schedules only, so the two never wait for each other in a circle.
"""

import json
from collections.abc import Callable, Iterable
from datetime import datetime

from fencepost.model import pause as rules
from fencepost.model.errors import Busy, Invalid, Rollback, Unknown
from fencepost.model.instants import FOREVER_US, from_us, to_us
from fencepost.model.pause import OPEN_END, SkipNext
from fencepost.model.registry_plan import KnownDefinitions, Plan, Wanted, plan
from fencepost.model.run import TriggerKind
from fencepost.ports.registry import BEYOND, AgentRow, Applied, Listing, PauseEntry, ScheduleRow, Survey, VersionRow
from fencepost.stores import applying
from fencepost.stores.applying import ApplyDecision
from fencepost.stores.audit_writing import write_audit
from fencepost.stores.lease_rows import storable
from fencepost.stores.moved_tenants import check_stays
from fencepost.stores.owners import Meeting, meet
from fencepost.stores.transaction import Dialect, Row, Transaction
from fencepost.stores.webhooks import plan_hooks

EVERYTHING = ""  # the schedule column of a halt
CONFLICTS_SHOWN = 50
TRIES = 50  # to plan on what is so, while others change it


class SqlRegistry:
    """Definitions, their versions, and what operators have said about them."""

    def __init__(self, dialect: Dialect) -> None:
        """Speak to a store through its dialect."""
        self._dialect = dialect

    def survey(self, wanted: Wanted) -> Survey:
        """Return what an apply of these definitions would meet."""

        def work(tx: Transaction) -> Survey:
            meeting = meet(tx, wanted)
            return Survey(_now(tx), meeting.known, meeting.wanted, meeting.replaced)

        return self._dialect.read(work, patient=True)

    def apply(
        self,
        wanted: Wanted,
        *,
        actor: str,
        take_over: bool = False,
        rollback: bool = False,
        seen: Callable[[KnownDefinitions], None] | None = None,
    ) -> Applied:
        """Make the registry as wanted, all of it or nothing; raise Invalid if something stands in the way.

        A file as it was before its present version is refused with Rollback, unless `rollback` is said.
        `seen` looks at what it is planned on, and raises if that is not what the caller knows.
        """
        applying.clear(self._dialect, wanted.tenant)
        for _ in range(TRIES):
            applying.finish(self._dialect, wanted.tenant)
            now, meeting, revision = self._dialect.read(lambda tx: _state(tx, wanted), patient=True)
            if seen is not None:
                seen(meeting.known)
            planned = plan(meeting.known, meeting.wanted, take_over=take_over, replaced=meeting.replaced)
            if planned.rollback and not rollback:
                raise Rollback(f"{planned.rollback} Nothing was changed.")
            if planned.conflicts:
                raise Invalid(_refusal(planned))
            hooks = plan_hooks(meeting.known.hooks, meeting.wanted, take_over=take_over)
            decision = ApplyDecision(planned, hooks, meeting, revision, actor)
            if not planned.changes_anything and not any(hooks) and meeting.is_settled:
                return Applied(planned, now)
            decided = applying.put(self._dialect, decision)
            if decided is not None:
                return Applied(planned, decided)
        raise Busy(f"others have changed the registry of tenant {wanted.tenant} all the time; try again.")

    def agents(self, tenant: str, *, limit: int, after: str = "") -> list[AgentRow]:
        """Return the agents of a tenant, by name."""
        values = {"tenant": tenant, "after": after, "limit": limit}
        return [AgentRow(*row) for row in self._dialect.read(lambda tx: tx.rows("list_agents", **values))]

    def agent(self, tenant: str, name: str) -> AgentRow | None:
        """Return one agent, retired or not."""
        rows = self._dialect.read(lambda tx: tx.rows("find_agent", tenant=tenant, name=name))
        return next((AgentRow(*row) for row in rows), None)

    def schedules(self, tenant: str, *, limit: int, after: str = "") -> Listing:
        """Return the active schedules of a tenant, by name."""
        return self._dialect.read(
            lambda tx: _listing(tx, tenant, tx.rows("list_schedules", tenant=tenant, after=after, limit=limit))
        )

    def schedule(self, tenant: str, name: str) -> Listing:
        """Return one schedule, retired or not; none if there never was one."""
        return self._dialect.read(lambda tx: _listing(tx, tenant, tx.rows("find_schedule", tenant=tenant, name=name)))

    def has_tenant(self, tenant: str) -> bool:
        """Tell whether anything at all is kept for a tenant."""
        return self._dialect.read(lambda tx: bool(tx.rows("has_tenant", tenant=tenant)[0][0]))

    def tenants(self) -> list[str]:
        """Return the tenants that have definitions or keys."""
        return self._dialect.read(lambda tx: [str(name) for (name,) in tx.rows("tenants")])

    def schedule_names(self, tenant: str) -> list[str]:
        """Return the names of the active schedules of a tenant."""
        return self._dialect.read(lambda tx: [str(name) for (name,) in tx.rows("schedule_names", tenant=tenant)])

    def versions(self, tenant: str, name: str, *, before: int = BEYOND, limit: int) -> list[VersionRow]:
        """Return the versions of a schedule, newest first, from the one before a number on."""
        values = {"tenant": tenant, "name": name, "before": before, "limit": limit}
        rows = self._dialect.read(lambda tx: tx.rows("list_versions", **values))
        return [VersionRow(*row) for row in rows]

    def pauses(self, tenant: str, name: str, *, before: int = BEYOND, limit: int) -> list[PauseEntry]:
        """Return the pauses of a schedule (or with an empty name, the halts), newest first, from the one before an id on."""
        values = {"tenant": tenant, "schedule": name, "before": before, "limit": limit}
        rows = self._dialect.read(lambda tx: tx.rows("pauses_of", **values))
        return [PauseEntry(*row) for row in rows]

    def pause(self, tenant: str, name: str, *, until: datetime | None, note: str, actor: str) -> PauseEntry:
        """Pause a schedule from now on; a pause that is in force gives way to this one."""

        def work(tx: Transaction) -> PauseEntry:
            _active(tx, tenant, name)
            return _pause(tx, tenant, name, until=until, note=note, actor=actor, verb="pause")

        return self._dialect.write(work)

    def resume(self, tenant: str, name: str, *, actor: str) -> list[PauseEntry]:
        """End the pauses of a schedule; return those that were ended."""

        def work(tx: Transaction) -> list[PauseEntry]:
            _active(tx, tenant, name)
            return _resume(tx, tenant, name, actor=actor, verb="resume")

        return self._dialect.write(work)

    def skip_next(self, tenant: str, name: str, count: int, *, actor: str) -> datetime:
        """Leave out the next ticks of a schedule after now, which is returned; 0 takes it back."""

        def work(tx: Transaction) -> datetime:
            found = _active(tx, tenant, name)
            if found.trigger == TriggerKind.EVERY:
                raise Invalid(
                    f"{name} runs every so often after its last end, so it has no next tick to skip; "
                    f"hold it back with: fencepost schedule pause {name} --until T"
                )
            now = _now(tx)
            skip = SkipNext(now, count)
            tx.rows("set_skip_next", tenant=tenant, name=name, skip_next=_skip_text(skip))
            write_audit(tx, tenant, actor=actor, verb="skip_next", subject=_subject(name), detail={"count": count})
            return now

        return self._dialect.write(work)

    def halt(self, tenant: str, *, note: str, actor: str) -> PauseEntry:
        """Pause everything of a tenant."""
        return self._dialect.write(
            lambda tx: _pause(tx, tenant, EVERYTHING, until=None, note=note, actor=actor, verb="halt")
        )

    def unhalt(self, tenant: str, *, actor: str) -> list[PauseEntry]:
        """End the halt; return what was ended."""

        def work(tx: Transaction) -> list[PauseEntry]:
            check_stays(tx, tenant)
            return _resume(tx, tenant, EVERYTHING, actor=actor, verb="unhalt")

        return self._dialect.write(work)


def _state(tx: Transaction, wanted: Wanted) -> tuple[datetime, Meeting, int]:
    """Return what an apply is planned on, all of one moment."""
    check_stays(tx, wanted.tenant)
    return _now(tx), meet(tx, wanted), applying.revision(tx, wanted.tenant)


def _refusal(planned: Plan) -> str:
    shown = list(planned.conflicts[:CONFLICTS_SHOWN])
    if len(planned.conflicts) > CONFLICTS_SHOWN:
        shown.append(f"… and {len(planned.conflicts) - CONFLICTS_SHOWN} more")
    if len(shown) == 1:
        return f"{shown[0]} Nothing was changed."
    return "\n  ".join([f"{len(planned.conflicts)} conflicts; nothing was changed:", *shown])


def _listing(tx: Transaction, tenant: str, rows: Iterable[Row]) -> Listing:
    now = _now(tx)
    pauses = [PauseEntry(*row) for row in tx.rows("pauses_in_force", tenant=tenant, now_us=to_us(now))]
    return Listing(now, [_schedule(row) for row in rows], pauses)


def _schedule(row: Row) -> ScheduleRow:
    found = ScheduleRow(*row)
    return found._replace(once_done=bool(found.once_done))


def _active(tx: Transaction, tenant: str, name: str) -> ScheduleRow:
    """Lock a schedule that is there and not retired; the door has looked already, so this is about a race."""
    found = [_schedule(row) for row in tx.rows("hold_schedule", tenant=tenant, name=name)]
    if not found or found[0].retired_us is not None:
        raise Unknown(f'there is no schedule "{name}"; see: fencepost schedule list')
    return found[0]


def _pause(
    tx: Transaction, tenant: str, name: str, *, until: datetime | None, note: str, actor: str, verb: str
) -> PauseEntry:
    now = _now(tx)
    wanted = rules.pause(now, until=until, note=storable(note))
    tx.rows("end_pauses", tenant=tenant, schedule=name, now_us=to_us(now))
    (row,) = tx.rows(
        "put_pause",
        tenant=tenant,
        schedule=name,
        since_us=to_us(wanted.since),
        until_us=FOREVER_US if wanted.until == OPEN_END else to_us(wanted.until),
        note=wanted.note,
        by_whom=actor,
    )
    detail: dict[str, object] = {"note": wanted.note}
    if until is not None:
        detail["until_us"] = to_us(until)
    write_audit(tx, tenant, actor=actor, verb=verb, subject=_subject(name), detail=detail)
    return PauseEntry(*row)


def _resume(tx: Transaction, tenant: str, name: str, *, actor: str, verb: str) -> list[PauseEntry]:
    ended = [PauseEntry(*row) for row in tx.rows("end_pauses", tenant=tenant, schedule=name, now_us=to_us(_now(tx)))]
    if ended:
        write_audit(tx, tenant, actor=actor, verb=verb, subject=_subject(name), detail={})
    return ended


def _subject(name: str) -> str:
    return f"schedule:{name}" if name else "everything"


def _skip_text(skip: SkipNext) -> str | None:
    return json.dumps({"asked_us": to_us(skip.asked_at), "left": skip.left}) if skip.left else None


def _now(tx: Transaction) -> datetime:
    ((now_us,),) = tx.rows("store_clock_us")
    return from_us(int(now_us))
