"""The outbox: who wants to be told, and what is on its way; a notice commits with what it tells of."""

import json
from collections.abc import Callable, Collection, Sequence

from fencepost.model.instants import FOREVER_US
from fencepost.model.notice import SUMMARY_MAX, Delivery, Notice, Wish, last_lines, settled_events
from fencepost.model.outcome import Settlement
from fencepost.model.run import RunState
from fencepost.ports.notices import NoticeHealth, NoticeRow, run_notice
from fencepost.ports.runs import Report, RunRow
from fencepost.stores.transaction import Dialect, Transaction

DAY_US = 24 * 3600 * 1_000_000
WAITING_FOR_US = 7 * DAY_US  # afterwards it is no news any more
SENT_FOR_US, DEAD_FOR_US = 7 * DAY_US, 30 * DAY_US
LATE_US = 15 * 60 * 1_000_000
PAGE = 500
ERROR_MAX = 500


class SqlNotices:
    """The verbs of the worker that delivers, over named statements."""

    def __init__(self, dialect: Dialect) -> None:
        """Speak to a store through its dialect."""
        self._dialect = dialect

    def declare(self, tenant: str, owner: str, wishes: Collection[Wish]) -> None:
        """Say who wants to hear of what; what this owner said before is void, and targets that are gone get nothing."""
        names = json.dumps(sorted({wish.name for wish in wishes}))

        def work(tx: Transaction) -> None:
            tx.rows("drop_wishes", tenant=tenant, owner=owner)
            tx.rows("drop_unwished", tenant=tenant, owner=owner, names=names)
            if wishes:
                tx.rows("put_wishes", tenant=tenant, owner=owner, wishes=json.dumps(sorted(wishes)))

        self._dialect.write(work)

    def is_wished(self, tenant: str, event: str) -> bool:
        """Tell whether a target wants to hear of an event."""
        values = {"tenants": json.dumps([tenant]), "events": json.dumps([event])}
        return bool(self._dialect.read(lambda tx: tx.rows("any_wish", **values)))

    def put(self, notices: Sequence[Notice]) -> None:
        """Tell those who want to hear of it; what was told is not told again."""
        if notices:
            self._dialect.write(lambda tx: put_notices(tx, notices))

    def claim(
        self, tenant: str, owner: str, names: Collection[str], *, limit: int, hold_seconds: float
    ) -> list[Delivery]:
        """Take what is due, for so long; a worker that dies with it leaves it to the next, under the same id."""
        values = {"tenant": tenant, "owner": owner, "names": json.dumps(sorted(names)), "limit": limit}
        hold_us = round(hold_seconds * 1e6)
        rows = self._dialect.write(lambda tx: tx.rows("claim_notices", **values, hold_us=hold_us))
        return sorted((Delivery(*row) for row in rows), key=lambda one: one.at_us)

    def sent(self, one: Delivery) -> bool:
        """Write down that it arrived; False if another worker has taken it over."""
        return self._settle(one, "sent", 0.0, None)

    def failed(self, one: Delivery, error: str, *, again_in_seconds: float | None) -> bool:
        """Write down why it did not arrive, and when it is tried again; None: never."""
        state = "dead" if again_in_seconds is None else "waiting"
        return self._settle(one, state, again_in_seconds or 0.0, error[:ERROR_MAX])

    def forget(self, tenant: str) -> bool:
        """Give up what waits for too long, and let go of what is old; tell whether there is more."""

        def work(tx: Transaction) -> bool:
            tx.rows("expire_notices", tenant=tenant, age_us=WAITING_FOR_US)
            gone = [
                len(tx.rows("forget_notices", tenant=tenant, state=state, age_us=age_us, limit=PAGE))
                for state, age_us in (("sent", SENT_FOR_US), ("dead", DEAD_FOR_US))
            ]
            return PAGE in gone

        return self._dialect.write(work)

    def listed(
        self,
        tenant: str,
        *,
        state: str = "",
        event: str = "",
        name: str = "",
        before: tuple[int, int] = (FOREVER_US, 0),
        limit: int,
    ) -> list[NoticeRow]:
        """Return notices, newest first."""
        values: dict[str, str | int] = {"tenant": tenant, "state": state, "event": event, "name": name}
        values |= {"before_us": before[0], "before_seq": before[1], "limit": limit}
        rows = self._dialect.read(lambda tx: tx.rows("list_notices", **values))
        return [NoticeRow(*row) for row in rows]

    def revive(self, tenant: str, name: str) -> int:
        """Have what was given up for one target tried once more; return how many."""
        return len(self._dialect.write(lambda tx: tx.rows("revive_notices", tenant=tenant, name=name)))

    def health(self, tenant: str) -> NoticeHealth:
        """Return how the outbox stands."""
        ((late, waiting, dead, error),) = self._dialect.read(
            lambda tx: tx.rows("notice_health", tenant=tenant, late_us=LATE_US)
        )
        return NoticeHealth(int(late), int(waiting), int(dead), error)

    def _settle(self, one: Delivery, state: str, again_seconds: float, error: str | None) -> bool:
        values = {"id": one.id, "attempt": one.attempt, "state": state, "error": error}
        again_us = round(again_seconds * 1e6)
        return bool(self._dialect.write(lambda tx: tx.rows("settle_notice", **values, again_us=again_us)))


def put_notices(tx: Transaction, notices: Sequence[Notice]) -> None:
    """Tell those who want to hear of it, in the transaction of what is told."""
    if notices:
        spelt = [{**one._asdict(), "event": one.events[0], "body": json.dumps(one.body)} for one in notices]
        tx.rows("put_notices", notices=json.dumps(spelt))


def end_notices(
    tx: Transaction,
    tenants: Collection[str],
    kinds: Collection[tuple[Settlement, Report]],
    spell: Callable[[], list[Notice]],
) -> Callable[[], list[Notice]]:
    """Return a way to the notices about attempts that ended in these ways; where no target listens, none is spelt."""
    events = sorted({event for one, report in kinds for event in _events(one, stalled=report.stalled)})
    if not events:
        return list
    wished = tx.later("any_wish", tenants=json.dumps(sorted(tenants)), events=json.dumps(events))
    return lambda: spell() if wished() else []


def _events(settlement: Settlement, *, stalled: bool) -> Sequence[str]:
    reason = settlement.reason.value if settlement.reason else None
    return settled_events(settlement.state.value, reason, alarm=settlement.alarm, stalled=stalled)


def end_notice(run: RunRow, fence: int | None, settlement: Settlement, report: Report | None) -> list[Notice]:
    """Return what there is to tell of the end of an attempt, or of a run that never had one."""
    reason = settlement.reason.value if settlement.reason else None
    events = _events(settlement, stalled=report is not None and report.stalled)
    if not events:
        return []
    summary = (report.summary or "")[:SUMMARY_MAX] if report else ""
    more: dict[str, object] = {"exit_code": report.exit_code if report else None, "summary": summary, "fence": fence}
    if report is not None and settlement.state is not RunState.SUCCEEDED:
        more["last_log"] = last_lines(report.last_log)
    key = f"{events[0]} {run.id} {fence or 0}"
    return [run_notice(run, key, events, state=settlement.state.value, reason=reason, **more)]
