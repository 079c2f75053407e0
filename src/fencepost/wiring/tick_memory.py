"""What this machine remembers of the ticks of its crontab lines: what is known to be done, and ends not reported yet."""

from __future__ import annotations

import os
from contextlib import suppress

from fencepost.model.fast_typing import TYPE_CHECKING, NamedTuple
from fencepost.model.tick_claim import FAILED, SUCCEEDED, TickRecord

if TYPE_CHECKING:
    from fencepost.model.lease import Lease


UNHEARD_MAX = 8


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
                return int(fence), str(state)
        except (OSError, ValueError, TypeError, RecursionError):
            return None  # there is none, or it was bent: as if the end had never been kept

    def keep_end(self, lease: Lease, well: bool) -> str:  # noqa: FBT001  # as Tools wants it
        """Keep an end until the next call here, which reports it if the tick is still this lease's; return what is in the way."""
        import json

        assert lease.tick is not None, "only ends of ticks are kept"
        path = self._path(lease.tick.job)
        try:
            self._write(path, json.dumps([lease.fence, SUCCEEDED if well else FAILED]))
        except OSError as error:
            return f"How its tick ended could not be kept either, so it counts as lost: {path}: {error.strerror}."
        return ""

    def unheard(self, job: str) -> tuple[str, ...]:
        """Return the runs of calls here that asked for a tick, were never answered, and started nothing."""
        import json

        try:
            with open(f"{self._path(job)}.unheard", encoding="utf-8") as file:
                return tuple([str(run) for run in json.load(file)])
        except (OSError, ValueError, TypeError, RecursionError):
            return ()

    def keep_unheard(self, job: str, run: str) -> None:
        """Keep such a run: the store may have taken its tick for started. What cannot be kept counts as lost, as without us."""
        import json

        with suppress(OSError):
            self._write(f"{self._path(job)}.unheard", json.dumps([*self.unheard(job), run][-UNHEARD_MAX:]))

    def _write(self, path: str, text: str) -> None:
        from fencepost.cells.local_memory import make_private

        draft = f"{path}.{os.getpid()}"
        try:
            make_private(os.path.dirname(path))
            with open(draft, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except OSError:
            with suppress(OSError):
                os.unlink(draft)
            raise

    def _path(self, job: str) -> str:
        from hashlib import sha256

        from fencepost.config.find import state_folder, without_password

        words = "\0".join((without_password(self.url), self.tenant, self.resource, job))
        return os.path.join(state_folder(os.environ), "ends", f"{sha256(words.encode()).hexdigest()[:32]}.json")
