"""A run as a program sees it."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from fencepost.model.moment import from_us
from fencepost.model.run import RunState
from fencepost.ports.looking import CommandRow
from fencepost.ports.runs import RunRow

MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class Run:
    """One run, as it was when it was looked at."""

    id: str
    tenant: str
    agent: str
    schedule: str | None
    schedule_version: int | None
    trigger: str
    tick: datetime | None
    state: str
    reason: str | None
    attempt: int
    fence: int | None
    ready_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    cost_usd: Decimal | None
    summary: str | None
    idempotency_key: str
    earlier: bool = False  # the request that returned it had been made before, and made no new run

    @property
    def ended(self) -> bool:
        """Whether nothing more becomes of it."""
        return RunState(self.state).terminal

    @property
    def succeeded(self) -> bool:
        """Whether it ended well."""
        return self.state == RunState.SUCCEEDED


@dataclass(frozen=True, slots=True)
class ExecRun:
    """One guarded command: what `fencepost exec` ran under a lock, as it was when it was looked at."""

    id: str
    tenant: str
    resource: str
    fence: int
    command: str
    host: str
    state: str  # running, succeeded, failed, lost
    started_at: datetime
    ended_at: datetime | None
    exit_code: int | None
    refused: int  # so many came in vain meanwhile
    refused_at: datetime | None


def exec_run_of(row: CommandRow) -> ExecRun:
    """Turn a store's row of a guarded command into what programs rely on."""
    return ExecRun(
        id=row.id,
        tenant=row.tenant,
        resource=row.resource,
        fence=row.fence,
        command=row.label,
        host=row.host,
        state=row.state,
        started_at=from_us(row.started_us),
        ended_at=_at(row.ended_us),
        exit_code=row.exit_code,
        refused=row.refused,
        refused_at=_at(row.refused_us),
    )


def run_of(row: RunRow, *, earlier: bool = False) -> Run:
    """Turn a store's row into what programs rely on."""
    return Run(
        id=row.id,
        tenant=row.tenant,
        agent=row.agent,
        schedule=row.schedule,
        schedule_version=row.version,
        trigger=row.trigger,
        tick=_at(row.tick_us),
        state=row.state,
        reason=row.reason,
        attempt=row.attempt,
        fence=row.fence,
        ready_at=from_us(row.ready_us),
        started_at=_at(row.started_us),
        ended_at=_at(row.ended_us),
        exit_code=row.exit_code,
        cost_usd=None if row.cost_micro is None else Decimal(row.cost_micro) / MICRO,
        summary=row.summary,
        idempotency_key=row.idempotency_key,
        earlier=earlier,
    )


def _at(us: int | None) -> datetime | None:
    return None if us is None else from_us(us)
