"""Runs that a lane takes in one go: all of a kind that was fine the last time, looked at once more after they were taken."""

import json
from operator import itemgetter

from fencepost.model.lease import Lease
from fencepost.ports.alike_runs import KNOWN, TAKEN, AlikeRuns, kind_of
from fencepost.ports.runs import LaneRequest, LeasedRun, RunRow
from fencepost.stores.lane_candidates import are_fine
from fencepost.stores.lane_facts import Hunch, LaneStandings
from fencepost.stores.manifests import Manifests
from fencepost.stores.run_ends import Unexpected
from fencepost.stores.transaction import Row, Transaction

_ID, _TENANT, _HASH, _WAITING, _PLACE = map(TAKEN.index, ("id", "tenant", "manifest_hash", "waiting_us", "place_us"))
_FENCE, _FOUND = len(TAKEN), len(TAKEN) + 1  # follow in a row of `lane_take`


def take_alike(
    tx: Transaction, wanted: LaneRequest, hunch: Hunch, manifests: Manifests, *, worker: str, store_id: str
) -> AlikeRuns | None:
    """Take the next runs if all of them are plain, and return them as they are now; or none.

    They are leased before it was looked whether they still may start. Nearly always they may; if one may not,
    raise Unexpected.
    """
    ahead = LaneStandings(tx, hunch.tenant, hunch.agents)
    itself = json.dumps(hunch.tenant)
    rows = tx.rows("lane_take", itself=itself, limit=wanted.limit, lease_id=wanted.claim.id, worker=worker)
    if not rows:
        return None
    rows.sort(key=itemgetter(_PLACE, _ID))
    first = rows[0]
    tenant = first[_TENANT]
    texts = manifests.texts_of(tx, tenant, {row[_HASH] for row in rows})
    fence, owner = int(first[_FENCE]), json.dumps(tenant)
    held = {**KNOWN, "lease_id": wanted.claim.id, "fence": fence, "worker": worker}
    lease = Lease(wanted.claim.id, tenant, (), fence, "", store_id, wanted.claim.ttl_seconds, gates=())

    def spell(row: Row) -> LeasedRun:
        resources = f'[[{owner}, "run:{row[_ID]}"]]'
        fields = {**held, **dict(zip(TAKEN, row, strict=False)), "manifest": texts[row[_HASH]], "resources": resources}
        run = RunRow(**fields)
        return LeasedRun(run, lease._replace(resources=(f"run:{run.id}",), run_id=run.id), (), None, started=True)

    longest: dict[object, Row] = {}  # the run of each kind that waited longest is looked at for all of its kind
    for row in rows:
        kind = kind_of(row)
        if kind not in longest or row[_WAITING] < longest[kind][_WAITING]:
            longest[kind] = row
    if not first[_FOUND] or not are_fine(tx, [spell(row).run for row in longest.values()], wanted, ahead):
        raise Unexpected
    return AlikeRuns(lease, rows, spell)
