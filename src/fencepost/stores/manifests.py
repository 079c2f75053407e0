"""Definitions of agents that many runs share: kept once for each tenant, by their hash, and remembered by who reads them.

A run's row has the hash, and an empty manifest. One that an older program made has the definition itself.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import NamedTuple

from fencepost.model.definition import hash_of
from fencepost.model.errors import StoreUnavailable
from fencepost.model.new_run import NewRun
from fencepost.ports.runs import RunRow
from fencepost.stores.run_rows import run_of
from fencepost.stores.transaction import Row, Transaction

FRESH_US = 24 * 3600 * 1_000_000  # how old the note of a last use may be, so that not every run writes one
KNOWN_MAX = 1000

_TENANT, _MANIFEST, _HASH = (RunRow._fields.index(name) for name in ("tenant", "manifest", "manifest_hash"))


class SpelledManifest(NamedTuple):
    """What a run's row has of its manifest."""

    manifest: str  # empty where it is shared
    project: str | None


@lru_cache(maxsize=KNOWN_MAX)
def spelled(manifest: str, manifest_hash: str) -> SpelledManifest:
    """Say what a row has of a manifest; one that its hash does not name stays with its run."""
    project = json.loads(manifest).get("project")
    return SpelledManifest("" if hash_of(manifest) == manifest_hash else manifest, project)


def keep_manifests(tx: Transaction, runs: Iterable[NewRun]) -> None:
    """Keep the definitions that these runs are made with, before the runs are."""
    shared = {(run.tenant, run.manifest_hash): run.manifest for run in runs if not spelled_of(run).manifest}
    kept = [{"tenant": tenant, "hash": name, "definition": text} for (tenant, name), text in shared.items()]
    if kept:
        tx.later("keep_manifests", manifests=json.dumps(kept), fresh_us=FRESH_US)


def spelled_of(run: NewRun) -> SpelledManifest:
    """Say what a new run's row has of its manifest."""
    return spelled(run.manifest, run.manifest_hash)


class Manifests:
    """Remembers definitions by their hashes, which say all: what was read once is never asked for again."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def runs_of(self, tx: Transaction, rows: Sequence[Row]) -> list[RunRow]:
        """Read rows of one tenant that have no more of their manifests than the hash."""
        shared = {row[_HASH] for row in rows if not row[_MANIFEST]}
        texts = self.texts_of(tx, rows[0][_TENANT], shared) if shared else {}
        return [run_of(row, row[_MANIFEST] or texts[row[_HASH]]) for row in rows]

    def texts_of(self, tx: Transaction, tenant: str, hashes: AbstractSet[str]) -> Mapping[str, str]:
        """Return definitions by their hashes."""
        if unknown := sorted(hashes - self._known.keys()):
            self._learn(tx, tenant, unknown)
        return self._known

    def _learn(self, tx: Transaction, tenant: str, unknown: Sequence[str]) -> None:
        if len(self._known) + len(unknown) > KNOWN_MAX:
            self._known.clear()
        self._known |= dict(tx.rows("manifests_of", tenant=tenant, hashes=json.dumps(unknown)))
        if missing := [name for name in unknown if name not in self._known]:
            raise StoreUnavailable(f"the store has lost definition {missing[0]}; see: fencepost store restore --help")
