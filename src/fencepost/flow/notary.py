"""Entry → seal: closes the audit's loose entries in batches, after the fact, so that nothing ever waits for it."""

from collections.abc import Callable, Sequence
from functools import partial

from fencepost.model.audit_chain import ChainEntry, Link, Seal, link, seal
from fencepost.model.errors import AuditCut
from fencepost.model.fast_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fencepost.stores.audit import SqlAudit

BATCH = 1_000
TENANTS_MAX = 20  # in one step: a backlog is worked off while the other stages go on


class SealWitness(NamedTuple):
    """What this machine remembers outside of the store: the newest seal of each tenant."""

    kept: Callable[[str], Seal | None] = lambda _: None
    keep: Callable[[Seal], None] = lambda _: None
    refused: Callable[[AuditCut], None] = lambda _: None  # is told why a tenant is not sealed


class Notary:
    """Seals with a key that the store does not have."""

    def __init__(
        self,
        store: "SqlAudit",
        key: bytes,
        clock_us: Callable[[], int],
        export: Callable[[Seal], None],
        witness: SealWitness = SealWitness(),  # noqa: B008  # a value
        *,
        batch: int = BATCH,
    ) -> None:
        """`export` keeps a head outside of the store; what it raises ends the step, and the seal stays."""
        self._store = store
        self._key = key
        self._clock_us = clock_us
        self._export = export
        self._witness = witness
        self._batch = batch

    def step(self) -> bool:
        """Seal one batch of each tenant; return whether there is more to do."""
        sealed = 0
        more = False
        for tenant in self._store.loose_tenants():
            if sealed == TENANTS_MAX:
                return True
            found = self._seal(tenant)
            if found is not None:
                sealed += 1
                self._witness.keep(found)
                self._export(found)
                more = more or found.last_place - found.first_place + 1 == self._batch
        return more

    def _seal(self, tenant: str) -> Seal | None:
        """Seal one batch of a tenant, unless its chain has lost what this machine remembers of it."""
        at_us = self._clock_us()  # before: inside of its transaction the store cannot be asked for anything else
        notarize = partial(self._notarize, at_us)
        try:
            return self._store.seal(tenant, notarize, limit=self._batch, kept=self._witness.kept(tenant))
        except AuditCut as error:  # the other tenants' chains go on
            self._witness.refused(error)
            return None

    def _notarize(self, at_us: int, entries: Sequence[ChainEntry], last: Seal | None) -> tuple[Sequence[Link], Seal]:
        links = link(entries, last)
        return links, seal(entries[0].tenant, links, last, key=self._key, at_us=at_us)
