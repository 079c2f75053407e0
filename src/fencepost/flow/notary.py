"""Entry → seal: closes the audit's loose entries in batches, after the fact, so that nothing ever waits for it."""

from collections.abc import Callable, Sequence
from functools import partial

from fencepost.model.audit import Entry, Link, Seal, link, seal
from fencepost.model.light import Protocol

BATCH = 1_000
TENANTS_MAX = 20  # in one step: a backlog is worked off while the other stages go on

Notarize = Callable[[Sequence[Entry], Seal | None], tuple[Sequence[Link], Seal]]


class AuditStore(Protocol):
    """The verbs that the notary uses."""

    def loose_tenants(self) -> list[str]:
        """Return the tenants that have something to seal."""
        ...

    def seal(self, tenant: str, notarize: Notarize, *, limit: int) -> Seal | None:
        """Seal the oldest entries that are loose, all or none."""
        ...


class Notary:
    """Seals with a key that the store does not have."""

    def __init__(
        self,
        store: AuditStore,
        key: bytes,
        clock_us: Callable[[], int],
        export: Callable[[Seal], None],
        *,
        batch: int = BATCH,
    ) -> None:
        """`export` keeps a head outside of the store; what it raises ends the step, and the seal stays."""
        self._store = store
        self._key = key
        self._clock_us = clock_us
        self._export = export
        self._batch = batch

    def step(self) -> bool:
        """Seal one batch of each tenant; return whether there is more to do."""
        tenants = self._store.loose_tenants()
        more = len(tenants) > TENANTS_MAX
        for tenant in tenants[:TENANTS_MAX]:
            at_us = self._clock_us()  # before: inside of its transaction the store cannot be asked for anything else
            found = self._store.seal(tenant, partial(self._notarize, at_us), limit=self._batch)
            if found is not None:
                self._export(found)
                more = more or found.last_place - found.first_place + 1 == self._batch
        return more

    def _notarize(self, at_us: int, entries: Sequence[Entry], last: Seal | None) -> tuple[Sequence[Link], Seal]:
        links = link(entries, last)
        return links, seal(entries[0].tenant, links, last, key=self._key, at_us=at_us)
