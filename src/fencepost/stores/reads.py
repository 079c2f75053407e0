"""What people are shown: questions to the store that write nothing, once for both dialects."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence

from fencepost.model.audit_pack import WantedEntries
from fencepost.model.instants import FOREVER_US
from fencepost.model.run import RunState
from fencepost.ports.read_rows import (
    AuditRow,
    BudgetSums,
    CommandRow,
    Lingering,
    Named,
    PauseFacts,
    Replay,
    ScheduleFacts,
    Skipped,
    StorePulse,
    TickRow,
    VersionFacts,
)
from fencepost.ports.runs import AttemptRow, RunRow
from fencepost.stores.audit_packs import look_audit
from fencepost.stores.run_rows import run_of
from fencepost.stores.transaction import Dialect, Row

BEYOND = "\U0010ffff"  # sorts after every character that follows a prefix


class SqlReads:
    """Questions over named statements, each about one tenant."""

    __slots__ = ("_dialect", "_tenant")

    def __init__(self, dialect: Dialect, tenant: str) -> None:
        self._dialect = dialect
        self._tenant = tenant

    def clock_us(self) -> int:
        """Return the store's own time."""
        return int(self._rows("clock", tenanted=False)[0][0])

    def runs(
        self,
        *,
        state: str = "",
        schedule: str = "",
        agent: str = "",
        since_us: int = 0,
        kept: bool = False,
        before: tuple[int, str] = (FOREVER_US, ""),
        limit: int,
    ) -> list[RunRow]:
        """Return runs, newest first; `kept` no discarded ones, `before` only those that come after this one in the list."""
        rows = self._rows(
            "look_dead" if state == RunState.DEAD.value else "look_runs",
            state=state,
            schedule=schedule,
            agent=agent,
            since_us=since_us,
            kept=kept,
            before_us=before[0],
            before_id=before[1],
            limit=limit,
        )
        return [run_of(row) for row in rows]

    def commands(
        self,
        *,
        states: Sequence[str] = (),
        since_us: int = 0,
        before: tuple[int, str] = (FOREVER_US, ""),
        limit: int,
    ) -> list[CommandRow]:
        """Return guarded commands, newest first; `before` only those that come after this one in the list."""
        rows = self._rows(
            "look_commands",
            states=json.dumps(states),
            since_us=since_us,
            before_us=before[0],
            before_id=before[1],
            limit=limit,
        )
        return [CommandRow(*row) for row in rows]

    def commands_under(self, resource: str, *, until_us: int = FOREVER_US, limit: int) -> list[CommandRow]:
        """Return the guarded commands under a lock that began before an instant, newest first."""
        rows = self._rows("look_commands_under", resource=resource, until_us=until_us, limit=limit)
        return [CommandRow(*row) for row in rows]

    def command_after(self, resource: str, at_us: int) -> CommandRow | None:
        """Return the first guarded command under a lock that began at an instant or later."""
        rows = self._rows("look_command_after", resource=resource, at_us=at_us)
        return CommandRow(*rows[0]) if rows else None

    def commands_like(self, prefix: str, *, limit: int) -> list[CommandRow]:
        """Return the guarded commands whose id begins so."""
        rows = self._rows("look_commands_like", prefix=prefix, beyond=prefix + BEYOND, limit=limit)
        return [CommandRow(*row) for row in rows]

    def tick_records(self, resource: str) -> list[str]:
        """Return what is known of the ticks of the crontab lines under a lock, as JSON."""
        return [str(row[0]) for row in self._rows("look_tick_records", resource=resource)]

    def ended(self, *, limit: int) -> list[RunRow]:
        """Return runs that have ended, those first that were made last."""
        return [run_of(row) for row in self._rows("look_ended", limit=limit)]

    def runs_like(self, prefix: str, *, limit: int) -> list[RunRow]:
        """Return the runs whose id begins so."""
        return [run_of(row) for row in self._rows("look_prefix", prefix=prefix, beyond=prefix + BEYOND, limit=limit)]

    def live(self, *, limit: int) -> list[RunRow]:
        """Return what runs, oldest first, and then what waits, in the order in which it is leased."""
        return [run_of(row) for row in self._rows("look_live", limit=limit)]

    def named_runs(self, run_ids: Iterable[str]) -> dict[str, RunRow]:
        """Return some runs by their ids; those that are not on record are left out."""
        found = self._rows("look_named_runs", ids=json.dumps(sorted(set(run_ids))))
        return {run.id: run for run in map(run_of, found)}

    def alive_at(self, schedule: str, at_us: int, *, limit: int) -> list[RunRow]:
        """Return the runs of a schedule that had not ended at an instant, oldest first."""
        return [run_of(row) for row in self._rows("look_alive", schedule=schedule, at_us=at_us, limit=limit)]

    def replays(self, runs: Sequence[RunRow], *, limit: int) -> dict[str, list[Replay]]:
        """Return the runs that were made of some others, oldest first."""
        found: dict[str, list[Replay]] = defaultdict(list)
        since_us = min((run.created_us for run in runs), default=0)
        ids = json.dumps([run.id for run in runs])
        for origin, *replay in self._rows("look_replays", ids=ids, since_us=since_us, limit=limit) if runs else ():
            found[origin].append(Replay(*replay))
        return found

    def attempts(self, run_ids: Iterable[str]) -> dict[str, list[AttemptRow]]:
        """Return the tries at some runs, oldest first."""
        found: dict[str, list[AttemptRow]] = defaultdict(list)
        for run_id, *attempt in self._rows("look_attempts", tenanted=False, ids=json.dumps(list(run_ids))):
            found[run_id].append(AttemptRow(*attempt))
        return found

    def schedules(self, *, limit: int) -> list[ScheduleFacts]:
        """Return the active schedules, by name."""
        return [_schedule(row) for row in self._rows("look_schedules", limit=limit)]

    def next_due(self, *, limit: int) -> list[ScheduleFacts]:
        """Return the active schedules whose turn comes first, soonest first."""
        return [_schedule(row) for row in self._rows("look_next", limit=limit)]

    def schedule(self, name: str) -> ScheduleFacts | None:
        """Return one schedule, retired or not."""
        rows = self._rows("look_schedule", name=name)
        return _schedule(rows[0]) if rows else None

    def spent(self, schedule: str, *, day_us: int, month_us: int, hour_us: int, timed: bool) -> BudgetSums:
        """Return what the runs of a schedule have spent or set aside since its day and its month began."""
        (row,) = self._rows(
            "look_spending",
            schedule=schedule,
            day_us=day_us,
            month_us=month_us,
            hour_us=hour_us,
            since_us=min(month_us, hour_us),
            timed=timed,
        )
        return BudgetSums(*row)

    def names(self) -> list[Named]:
        """Return every schedule and agent by name."""
        return [Named(name, kind, bool(retired)) for name, kind, retired in self._rows("look_names")]

    def versions(self, name: str) -> list[VersionFacts]:
        """Return a schedule's versions, oldest first."""
        return [VersionFacts(*row) for row in self._rows("look_versions", name=name)]

    def ticks(
        self,
        schedule: str,
        *,
        from_us: int = 0,
        until_us: int = FOREVER_US,
        disposition: str = "",
        before: tuple[int, str] = (FOREVER_US, ""),
        limit: int,
    ) -> list[TickRow]:
        """Return the recorded ticks that touch [from, until), newest first."""
        rows = self._rows(
            "look_ticks",
            schedule=schedule,
            from_us=from_us,
            until_us=until_us,
            disposition=disposition,
            before_us=before[0],
            before=before[1],
            limit=limit,
        )
        return [TickRow(*row) for row in rows]

    def skips(
        self, *, disposition: str = "", before: tuple[int, str, str] = (FOREVER_US, "", ""), limit: int
    ) -> list[TickRow]:
        """Return the ticks of all schedules that made no run, the latest decision first."""
        rows = self._rows(
            "look_skips",
            disposition=disposition,
            before_us=before[0],
            before_schedule=before[1],
            before=before[2],
            limit=limit,
        )
        return [TickRow(*row) for row in rows]

    def skipped(self, *, since_us: int, limit: int) -> list[Skipped]:
        """Return what made no run since an instant and was not meant to be left out, summed up by schedule and reason."""
        return [Skipped(*row) for row in self._rows("look_skipped", since_us=since_us, limit=limit)]

    def following_tick(self, schedule: str, at_us: int) -> TickRow | None:
        """Return the first recorded tick after an instant."""
        rows = self._rows("look_following_tick", schedule=schedule, at_us=at_us)
        return TickRow(*rows[0]) if rows else None

    def pauses_at(self, schedule: str, at_us: int) -> list[PauseFacts]:
        """Return the pauses of a schedule, and the halts, that cover an instant."""
        return [PauseFacts(*row) for row in self._rows("look_pauses", schedule=schedule, at_us=at_us)]

    def pauses_ever(self, schedule: str, *, limit: int) -> list[PauseFacts]:
        """Return the pauses of a schedule, and the halts, newest first, whether in force or over."""
        return [PauseFacts(*row) for row in self._rows("look_pauses_ever", schedule=schedule, limit=limit)]

    def held_back(self, at_us: int) -> list[PauseFacts]:
        """Return every pause that covers an instant, and the halts."""
        return [PauseFacts(*row) for row in self._rows("look_held_back", at_us=at_us)]

    def audit(
        self, *, verb: str = "", subject: str = "", until_us: int = FOREVER_US, before_seq: int = FOREVER_US, limit: int
    ) -> list[AuditRow]:
        """Return audit rows, newest first."""
        kind, _, run_id = subject.partition(":")
        batched = json.dumps(run_id) if kind == "run" else ""
        wanted = WantedEntries(verb, subject, batched, until_us, before_seq)
        return [AuditRow(*row) for row in self._dialect.read(lambda tx: look_audit(tx, self._tenant, wanted, limit))]

    def health(self, *, late_us: int) -> StorePulse:
        """Count what runs, waits, is dead, or was due by an instant and has not been looked at."""
        return StorePulse(*self._rows("look_health", late_us=late_us)[0])

    def lingering(self, *, older_us: int, limit: int) -> list[Lingering]:
        """Return the transactions that have been open for so long, as far as this role may see them, oldest first."""
        return [Lingering(*row) for row in self._rows("look_lingering", tenanted=False, older_us=older_us, limit=limit)]

    def _rows(self, statement: str, /, *, tenanted: bool = True, **values: object) -> list[Row]:
        tenant = {"tenant": self._tenant} if tenanted else {}
        return self._dialect.read(lambda tx: tx.rows(statement, **tenant, **values))


def _schedule(row: Row) -> ScheduleFacts:
    facts = ScheduleFacts(*row)
    return facts._replace(once_done=bool(facts.once_done))
