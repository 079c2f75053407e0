"""Which runs a lane gets: looked at, checked again and granted under one lease, without waiting."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from fencepost.model import lease as rules
from fencepost.model.errors import StoreUnavailable
from fencepost.model.lease import Claim, Held, Lease
from fencepost.model.run import RunState
from fencepost.ports.alike_runs import AlikeRuns
from fencepost.ports.runs import LaneRequest, LeasedRun, RunRow
from fencepost.stores.audit_writing import batch_entry, write_entries
from fencepost.stores.lane_candidates import Key, LaneOffer, offers_among
from fencepost.stores.lane_facts import Hunch, LaneStandings
from fencepost.stores.lane_takes import take_alike
from fencepost.stores.lease_rows import claim_values, held_of, kept, owed_by, waiter_of
from fencepost.stores.manifests import Manifests
from fencepost.stores.run_rows import run_of
from fencepost.stores.transaction import Later, Row, Transaction

LOOKS_MAX = 4  # at a line of which no run could go


def grant(
    tx: Transaction,
    wanted: LaneRequest,
    manifests: Manifests,
    *,
    store_id: str,
    absent: set[Key],
    hunch: Hunch | None = None,
) -> Sequence[LeasedRun]:
    """Lease the next runs of one line under one lease; `absent` gets the resources that have no row yet."""
    if wanted.again:
        return _granted_before(tx, wanted, store_id)
    tx.later(
        "lock_leases", ids=json.dumps([wanted.claim.id])
    )  # there is none yet; but a standstill of all grants is heeded
    facts = tx.later("fence_facts")
    if hunch is not None and hunch.plain and wanted.starts >= wanted.limit:
        runs = take_alike(tx, wanted, hunch, manifests, worker=_worker(wanted.claim), store_id=store_id)
        if runs is not None:
            _write_alike(tx, runs, wanted, _checked(facts(), store_id)[0])
            return runs
    ahead = LaneStandings(tx, hunch.tenant, hunch.agents) if hunch else None
    first = manifests.runs_of(tx, tx.rows("lane_next", limit=wanted.limit))
    if offers := _free_of_others(tx, list(offers_among(tx, first, wanted, ahead)), absent):
        return _take(tx, offers, wanted, store_id, facts())
    for line in tx.rows("lane_lines"):
        offers = _offers(tx, line, wanted, manifests, absent)
        if offers:
            return _take(tx, offers, wanted, store_id, facts())
    return ()


def _offers(tx: Transaction, line: Row, wanted: LaneRequest, manifests: Manifests, absent: set[Key]) -> list[LaneOffer]:
    """Return the runs that can go, looking further down the line while none can."""
    passed: list[str] = []
    for _ in range(LOOKS_MAX):
        values = {"tenant": line[0], "rank": line[1], "passed": json.dumps(passed), "limit": wanted.limit}
        runs = manifests.runs_of(tx, tx.rows("lane_heads", **values))
        if not runs:
            return []
        offers = _free_of_others(tx, list(offers_among(tx, runs, wanted)), absent)
        if offers:
            return offers
        passed += [run.id for run in runs]
    return []


def _free_of_others(tx: Transaction, offers: list[LaneOffer], absent: set[Key]) -> list[LaneOffer]:
    """Keep the runs whose resources are not held, waited for, locked, or granted just before in this batch."""
    keys = sorted({key for offer in offers if not offer.is_new for key in offer.keys})
    if not keys:
        return offers
    text = json.dumps(keys)
    rows = {(row[0], row[1]): row for row in tx.rows("try_resources", keys=text)}
    absent.update(key for offer in offers if not offer.alone for key in offer.keys if key not in rows)
    holders = [held_of(row) for row in tx.rows("lock_holders", keys=text)]
    waiters = [waiter_of(row) for row in tx.rows("waiters_on", keys=text)]
    lost = [held_of(row) for row in tx.rows("lost_on", keys=text)]
    blocked = {key for held in rules.blockers(holders, ()) for key in rules.keys_of(held.tenant, held.resources)}
    blocked |= {key for one in rules.ahead(waiters, None, ()) for key in rules.keys_of(one.tenant, one.resources)}
    free = []
    for offer in offers:
        if offer.is_new:
            free.append(offer)
        elif not blocked.intersection(offer.keys) and (offer.alone or all(key in rows for key in offer.keys)):
            blocked.update(offer.keys)
            mine = [rows[key] for key in offer.keys if key in rows]
            offer.has_row = bool(mine)
            offer.stored = max([offer.stored, *(row[2] for row in mine)])
            offer.gates = tuple(dict.fromkeys((*offer.gates, *owed_by(mine))))
            offer.predecessors = _before(offer, [*lost, *holders])
            free.append(offer)
    for held in holders:
        if held.expired and any(held in offer.predecessors for offer in free):
            tx.rows("lose_leases", leases=kept([held]), why="expired")
    return free


def _before(offer: LaneOffer, helds: Sequence[Held]) -> tuple[Held, ...]:
    """Return the earlier holders of this run's resources whose processes may still live."""
    mine = set(offer.keys)
    return tuple(
        held._replace(lost=True) for held in helds if mine.intersection(rules.keys_of(held.tenant, held.resources))
    )


def _take(
    tx: Transaction, offers: Sequence[LaneOffer], wanted: LaneRequest, store_id: str, facts: Sequence[Row]
) -> tuple[LeasedRun, ...]:
    floor, clock_us = _checked(facts, store_id)
    fence = rules.next_fence(max(offer.stored for offer in offers), floor, clock_us)
    keys = sorted({key for offer in offers for key in offer.keys})
    claim = _write_lease(tx, wanted, offers[0].run.tenant, keys, fence)
    granted = _grant_resources(tx, offers, claim.id, fence)
    worker = _worker(claim)
    at_once = _startable(offers, wanted.starts)
    later = [one for one in offers if one not in at_once]
    taken = [
        _take_alike(tx, group, claim.id, fence, worker, started=started)
        for started, group in ((True, at_once), (False, later))
        if group
    ]
    running = [_running(offer.run, claim.id, fence, worker) for offer in offers]
    alike: dict[tuple[int, str], list[str]] = defaultdict(list)
    for run in running:
        alike[run.attempt, run.manifest_hash].append(run.id)
    _audit_leased(tx, claim, fence, alike)
    left = _checkpoints(tx, offers)
    assert sum(len(rows()) for rows in taken) == len(offers), "the runs were locked while they were ready"
    written = sum(len(offer.keys) for offer in offers if not offer.granted_by_itself)
    assert granted() == written, "all resources are granted, or none"
    return tuple(
        LeasedRun(
            run,
            _lease_of(offer, claim, fence, store_id),
            offer.predecessors,
            left.get(run.id),
            offer in at_once,
            None,
        )
        for offer, run in zip(offers, running, strict=True)
    )


def _write_alike(tx: Transaction, runs: AlikeRuns, wanted: LaneRequest, floor: int) -> None:
    """Write down the one lease of runs that are taken already, and their first attempts."""
    fence, tenant, ids = runs.lease.fence, runs.lease.tenant, runs.ids
    assert fence > floor, "a fence is above all that were given out before"
    claim = _write_lease(tx, wanted, tenant, [(tenant, f"run:{run_id}") for run_id in sorted(ids)], fence)
    alike = {"number": 1, "lease_id": claim.id, "fence": fence, "worker": _worker(claim), "started": True}
    tx.later("insert_attempts", runs=json.dumps({"ids": [ids], "given": [alike]}))
    _audit_leased(tx, claim, fence, {(1, name): some for name, some in runs.by_manifest().items()})


def _checked(facts: Sequence[Row], store_id: str) -> tuple[int, int]:
    """Return the floor and the clock of a store that is still the one that was opened."""
    ((floor, clock_us, store),) = facts
    if store != store_id:
        raise StoreUnavailable(f"the store was restored as {store} while it was in use; start again.")
    return int(floor), int(clock_us)


def _write_lease(tx: Transaction, wanted: LaneRequest, tenant: str, keys: Sequence[Key], fence: int) -> Claim:
    """Write down one lease on all that the runs want, which is sorted."""
    tx.remember(fence)
    claim = wanted.claim._replace(tenant=tenant, resources=())
    values = {**claim_values(claim), "resources": json.dumps(keys)}
    tx.later("insert_leases", leases=json.dumps([{**values, "fence": fence, "starts": wanted.starts > 0}]))
    return claim


def _worker(claim: Claim) -> str:
    return f"{claim.supervisor.host.name}:{claim.supervisor.pid}"


def _startable(offers: Sequence[LaneOffer], starts: int) -> set[LaneOffer]:
    """Return the runs that need no preparation: no gate to raise, no process to end, nothing to retire."""
    plain = [offer for offer in offers if not (offer.gates or offer.predecessors or offer.once)]
    return set(plain[:starts])


def _grant_resources(tx: Transaction, offers: Sequence[LaneOffer], lease_id: str, fence: int) -> Callable[[], int]:
    """Grant the runs' resources, and return a function that counts them."""
    wanted = [
        {"tenant": tenant, "name": name, "id": lease_id, "fence": fence, "owed_gates": json.dumps(offer.gates)}
        for offer in offers
        if not offer.granted_by_itself
        for tenant, name in offer.keys
    ]
    if not wanted:
        return lambda: 0
    taken = tx.later("take_resources", taken=json.dumps(wanted))
    return lambda: len(taken())


def _take_alike(
    tx: Transaction,
    offers: Sequence[LaneOffer] | set[LaneOffer],
    lease_id: str,
    fence: int,
    worker: str,
    *,
    started: bool,
) -> Later:
    numbers: dict[int, list[str]] = defaultdict(list)
    for offer in offers:
        numbers[offer.run.attempt + 1].append(offer.run.id)
    alike = {"lease_id": lease_id, "fence": fence, "worker": worker, "started": started}
    runs = json.dumps({"ids": list(numbers.values()), "given": [{"number": number, **alike} for number in numbers]})
    taken = tx.later("take_runs", runs=runs)
    tx.later("insert_attempts", runs=runs)
    return taken


def _audit_leased(tx: Transaction, claim: Claim, fence: int, alike: Mapping[tuple[int, str], Sequence[str]]) -> None:
    """Write down which runs were leased, once for all with one number of the attempt and one manifest."""
    worker = _worker(claim)
    entries = [
        batch_entry(
            claim.tenant,
            claim.id,
            ids,
            actor="leaser",
            verb="lease",
            detail={"fence": fence, "attempt": attempt, "worker": worker, "manifest_hash": manifest_hash},
        )
        for (attempt, manifest_hash), ids in alike.items()
    ]
    write_entries(tx, entries)


_TAKEN = [RunRow._fields.index(name) for name in ("state", "reason", "attempt", "lease_id", "fence", "worker", "stop")]


def _running(run: RunRow, lease_id: str, fence: int, worker: str) -> RunRow:
    """Return the run as `take_runs` leaves it; the row was locked, so that no other worker can have counted."""
    fields = list(run)
    values = (RunState.RUNNING.value, None, run.attempt + 1, lease_id, fence, worker, None)
    for place, value in zip(_TAKEN, values, strict=True):
        fields[place] = value
    return RunRow._make(fields)


def _lease_of(offer: LaneOffer, claim: Claim, fence: int, store_id: str) -> Lease:
    """Return the lease as one run of the batch has it: its own resources, the fence of all."""
    resources = tuple([name for _, name in offer.keys])
    return Lease(
        claim.id, claim.tenant, resources, fence, offer.run.id, store_id, claim.ttl_seconds, offer.gates, False
    )


def _checkpoints(tx: Transaction, offers: Sequence[LaneOffer]) -> dict[str, str]:
    """Return what earlier attempts left; a run that was never leased has none."""
    ids = [offer.run.id for offer in offers if offer.run.fence is not None]
    return dict(tx.rows("checkpoints", ids=json.dumps(ids))) if ids else {}


def _granted_before(tx: Transaction, wanted: LaneRequest, store_id: str) -> tuple[LeasedRun, ...]:
    """Return what a turn granted if its answer was lost; a renewal makes it as durable as a new grant."""
    runs = [run_of(row) for row in tx.rows("runs_of_lease", lease_id=wanted.claim.id)]
    if not runs or runs[0].fence is None:
        return ()
    fence = runs[0].fence
    if not tx.rows("renew_leases", leases=json.dumps([(wanted.claim.id, fence, 0)])):
        return ()
    claim = wanted.claim._replace(tenant=runs[0].tenant)
    offers = [LaneOffer(run, wanted.gates_of(run), once=False) for run in runs]
    keys = json.dumps(sorted(key for offer in offers for key in offer.keys))
    begun = {row[0] for row in tx.rows("begun_of_lease", ids=json.dumps([run.id for run in runs]), fence=fence)}
    lost = [held_of(row) for row in tx.rows("lost_on", keys=keys)]
    left: dict[str, str] = dict(tx.rows("checkpoints", ids=json.dumps([run.id for run in runs])))
    answers = []
    for offer in offers:
        lease = _lease_of(offer, claim, fence, store_id)
        before = _before(offer, lost)
        answers.append(LeasedRun(offer.run, lease, before, left.get(offer.run.id), started=offer.run.id in begun))
    return tuple(answers)
