"""Runs that a lane takes in one go: all of a kind that was fine the last time, looked at once more after they were taken."""

import json
from operator import itemgetter

from fencepost.model.lease import Lease
from fencepost.model.run import RunState
from fencepost.ports.alike_runs import AlikeRuns, kind_of
from fencepost.ports.runs import LaneRequest, LeasedRun, RunRow
from fencepost.stores.lane_candidates import are_fine
from fencepost.stores.lane_facts import Hunch, LaneStandings
from fencepost.stores.manifests import Manifests
from fencepost.stores.run_ends import Unexpected
from fencepost.stores.transaction import Row, Transaction

_WAITING, _PLACE, _FENCE, _FOUND = 12, 18, 20, 21  # of a row of `lane_take`


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
    rows.sort(key=itemgetter(_PLACE, 0))
    first = rows[0]
    texts = manifests.texts_of(tx, first[1], {row[7] for row in rows})
    fence, owner = int(first[_FENCE]), json.dumps(first[1])
    held = (RunState.RUNNING.value, wanted.claim.id, fence, worker)
    lease = Lease(wanted.claim.id, first[1], (), fence, "", store_id, wanted.claim.ttl_seconds, gates=())

    def spell(row: Row) -> LeasedRun:
        run = _running(row, texts[row[7]], owner, held)
        return LeasedRun(run, lease._replace(resources=(f"run:{run.id}",), run_id=run.id), (), None, started=True)

    longest: dict[object, Row] = {}  # the run of each kind that waited longest is looked at for all of its kind
    for row in rows:
        kind = kind_of(row)
        if kind not in longest or row[_WAITING] < longest[kind][_WAITING]:
            longest[kind] = row
    if not first[_FOUND] or not are_fine(tx, [spell(row).run for row in longest.values()], wanted, ahead):
        raise Unexpected
    return AlikeRuns(lease, rows, spell)


def _running(row: Row, manifest: str, owner: str, held: tuple[str, str, int, str]) -> RunRow:
    """Read a row of `lane_take`: a run of no schedule that is in its first attempt."""
    (run_id, tenant, agent, trigger, idempotency_key, request_key, origin, manifest_hash, payload, lease_max, priority,
     created_us, waiting_us, ready_us, reserved_micro, counted_us, give_up_us, rank, place_us, requests, *_) = row  # fmt: skip
    state, *lease = held
    return RunRow._make((
        run_id, tenant, agent, None, None, trigger, None, None, None, None, None, None, idempotency_key, request_key,
        origin, manifest, manifest_hash, payload, f'[[{owner}, "run:{run_id}"]]', lease_max, False, priority,
        state, None, created_us, waiting_us, ready_us, 1, False, None, *lease, None,
        None, None, reserved_micro, counted_us, None, None, None, None, give_up_us, rank, place_us, requests,
    ))  # fmt: skip
