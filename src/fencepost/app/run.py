"""A run as a program sees it."""

from dataclasses import dataclass
from datetime import datetime

from fencepost.model.instants import from_us
from fencepost.model.run import RunState
from fencepost.operations.records import at, fields_of
from fencepost.operations.records.run_record import RunRecord, run_record
from fencepost.operations.run_queries import SeenRun
from fencepost.ports.read_rows import CommandRow


class Run(RunRecord):
    """One run, as it was when it was looked at."""

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
        ended_at=at(row.ended_us),
        exit_code=row.exit_code,
        refused=row.refused,
        refused_at=at(row.refused_us),
    )


def run_of(seen: SeenRun, *, earlier: bool = False) -> Run:
    """Return a run with what programs ask it."""
    return Run(**fields_of(run_record(seen)), earlier=earlier)
