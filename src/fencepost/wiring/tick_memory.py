"""What this machine remembers of the ticks of its crontab lines: what is known to be done, and ends not reported yet."""

from __future__ import annotations

import os

from fencepost.model.light import TYPE_CHECKING, NamedTuple
from fencepost.model.tick_claim import FAILED, SUCCEEDED, TickRecord

if TYPE_CHECKING:
    from fencepost.model.lease import Lease


class TickJournal(NamedTuple):
    """One lock in one store."""

    url: str
    is_cells: bool
    tenant: str
    resource: str

    def remembered(self, job: str) -> TickRecord | None:
        """Return what this machine has seen of a job in a store of cells."""
        if not self.is_cells:
            return None
        from fencepost.cells.store import cell_name
        from fencepost.wiring.cell_stores import here

        ticks = here(self.url).memory.cell(cell_name(self.tenant, self.resource)).ticks
        return next((record for record in ticks if record.job == job), None)

    def ended(self, job: str) -> tuple[int, str] | None:
        """Return the fence and the end of a run here that could not be reported."""
        import json

        try:
            with open(self._path(job), encoding="utf-8") as file:
                fence, state = json.load(file)
        except (OSError, ValueError):
            return None
        return int(fence), str(state)

    def keep_end(self, lease: Lease, well: bool) -> None:  # noqa: FBT001  # as Tools wants it
        """Keep an end until the next call here, which reports it if the tick is still this lease's."""
        import json

        from fencepost.cells.local_memory import make_private

        assert lease.tick is not None, "only ends of ticks are kept"
        path = self._path(lease.tick.job)
        make_private(os.path.dirname(path))
        draft = f"{path}.{os.getpid()}"
        with open(draft, "w", encoding="utf-8") as file:
            json.dump([lease.fence, SUCCEEDED if well else FAILED], file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)

    def _path(self, job: str) -> str:
        from hashlib import sha256

        from fencepost.config.find import state_folder, without_password

        words = "\0".join((without_password(self.url), self.tenant, self.resource, job))
        return os.path.join(state_folder(os.environ), "ends", f"{sha256(words.encode()).hexdigest()[:32]}.json")
