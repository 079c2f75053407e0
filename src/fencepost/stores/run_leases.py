"""The leaser's verbs: which runs are next, may they still start, and who gets them.

Nothing is looked up on the host while rows are locked: a claim is complete before. And a lock is never waited for
while others are held: what another transaction has is left to it. So batches that overlap never stand in a circle.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from fencepost.model.lease import Claim, Held, Refused, keys_of, project_in
from fencepost.model.project import Workplace
from fencepost.model.run import Reason, RunState
from fencepost.ports.runs import LeasedRun, Offer, RunRow, Standing
from fencepost.stores.audit_writing import audit_entry, write_entries
from fencepost.stores.concurrency_slots import ConcurrencySlots, doors_of, outside_of
from fencepost.stores.earlier_attempts import earlier_of
from fencepost.stores.lease_grants import Grant, Ground, Key, lease_again, write_grants
from fencepost.stores.lease_places import beside, places_in
from fencepost.stores.lease_rows import kept, leases_of
from fencepost.stores.run_lines import LOOKS_MAX, Lines
from fencepost.stores.run_rows import end_ready, run_of
from fencepost.stores.run_standings import Standings
from fencepost.stores.ticks import SqlTicks
from fencepost.stores.transaction import Row, Transaction

ClaimOf = Callable[[RunRow], Claim | None]
Rechecked = Callable[[RunRow, Standing], Reason | None]


class SqlRunLeases(SqlTicks):
    """Leases the next runs."""

    def next_runs(self, limit: int, *, passed: Collection[str] = (), places: Sequence[Workplace] = ()) -> list[RunRow]:
        """Return whose turn it is, writing and locking nothing: tenants in turn, then by priority and age.

        Runs that were passed are left out, and those that cannot start now: their schedule has no room, a resource of
        theirs is held, or their tenant is halted.
        """
        return self._dialect.read(lambda tx: Lines(tx, passed, places).first(limit))

    def lease_runs(self, offers: Sequence[Offer], recheck: Rechecked) -> list[LeasedRun]:
        """Lease each of these runs that may start, with a lease and a fence of its own, all in one transaction.

        A run that must not start any more is ended. One that another worker has, or whose resources are held or being
        looked at, is left out: nothing is waited for. Asking again after an unknown answer returns what was granted.
        """
        return self._lease_runs(offers, recheck)[0] if offers else []

    def lease_run(self, claim_of: ClaimOf, recheck: Rechecked, *, places: Sequence[Workplace] = ()) -> LeasedRun | None:
        """Lease the next run that may start, cancelling on the way those that may not any more; None: nothing to do.

        A worker that cannot carry a run out makes no claim for it, and is offered the next. Runs that work in a
        project are offered to those who can reach it, in their turn.
        """
        passed: list[str] = []
        busy: list[RunRow] = []
        while len(passed) < LOOKS_MAX and (found := self.next_runs(1, passed=passed, places=places)):
            passed.append(found[0].id)
            if (claim := claim_of(found[0])) is None:
                continue
            leased, waiting = self._lease_runs([Offer(found[0].id, claim)], recheck)
            if leased:
                return leased[0]
            busy += found if waiting else []
        for run in busy[:1]:
            if claim := claim_of(run):
                leased, _ = self._lease_runs([Offer(run.id, claim)], recheck, patient=True)
                return leased[0] if leased else None
        return None

    def _lease_runs(
        self, offers: Sequence[Offer], recheck: Rechecked, *, patient: bool = False
    ) -> tuple[list[LeasedRun], bool]:
        """Lease runs, and tell whether another worker was busy with the schedule of one that was not leased."""

        def work(tx: Transaction) -> tuple[list[LeasedRun], bool]:
            ids = json.dumps([offer.claim.id for offer in offers])
            known = {held.id: held for held in leases_of(tx.rows("leases_named", ids=ids))}
            new = [offer for offer in offers if offer.claim.id not in known]
            standings = Standings(tx, [offer.run_id for offer in new], patient=patient)
            wanted = [_Wanted(standings.runs[one.run_id], one.claim) for one in new if one.run_id in standings.runs]
            left = [one for one in wanted if not standings.is_busy(one.run)]
            free = [one for one in left if _may_start(tx, one.run, standings, recheck)]
            granted = _grant(tx, free, standings, self._store_id) if free else []
            leased = _take(tx, granted, self._store_id)
            again = _granted_before(tx, known.values(), self._store_id) if known else []
            return [*again, *leased], len(left) < len(wanted)

        return self._dialect.write(work, often=True)


class _Wanted(NamedTuple):
    """A run that may start, and what is claimed for it."""

    run: RunRow
    claim: Claim
    keys: tuple[Key, ...] = ()  # all that it looks at, in the order in which they are locked


def _may_start(tx: Transaction, run: RunRow, standings: Standings, recheck: Rechecked) -> bool:
    """Look at a locked run for the last time before it starts; one that must not start any more is ended."""
    if max(run.ready_us, run.place_us) > standings.now_us:  # it was leased meanwhile, and comes back later
        return False
    standing = standings.of(run)
    if standing.halted or not standings.has_room(run):
        return False
    reason = recheck(run, standing)
    if reason is not None:
        end_ready(tx, run, reason, actor="leaser")
    return reason is None


def _grant(
    tx: Transaction, wanted: Sequence[_Wanted], standings: Standings, store_id: str
) -> list[tuple[RunRow, Grant]]:
    """Grant what no other claim holds, has locked or stands before; one after the other, as if each came alone."""
    rows = _locked(tx, {key for one in wanted for key in _first(one)} | doors_of(one.run for one in wanted), {})
    wanted = list(_placed(tx, [one for one in wanted if _has(rows, _first(one), doors_of([one.run]))]))
    rows = _locked(tx, {key for one in wanted for key in one.keys}, rows)
    wanted = [one for one in wanted if _has(rows, one.keys)]
    if not wanted:
        return []
    keys = sorted({key for one in wanted for key in one.keys})
    holders, stuck = _holders(tx, keys)
    ground = Ground(tx, [rows[key] for key in keys], holders)
    ground.look_up(store_id)
    granted = []
    for one in wanted:
        if stuck.intersection(ground.rows[key][4] for key in one.keys) or not standings.has_room(one.run):
            continue
        answer = ground.judge(one.claim, list(one.keys), above=one.run.fence or 0)
        if not isinstance(answer, Refused):
            ground.take(answer)
            standings.take_room(one.run)
            granted.append((one.run, answer))
    if granted:
        write_grants(tx, [grant for _, grant in granted])
        tx.later("sweep_waiters", ticket="", dead="[]")
    return granted


def _first(one: _Wanted) -> list[Key]:
    """Return what is locked before it is known which slot or place a claim gets."""
    return keys_of(one.claim.tenant, outside_of(one.run, one.claim))


def _placed(tx: Transaction, wanted: Iterable[_Wanted]) -> Iterator[_Wanted]:
    """Find a slot of each key that a run wants, and say which places of its project it looks at."""
    seats = ConcurrencySlots(tx)
    places: dict[str, list[str]] = {}
    for run, claim, _ in wanted:
        seated = seats.take(run, claim)
        if seated is None:
            continue
        project = project_in(claim.resources)
        if project is not None and project not in places:
            places[project] = places_in(tx, project, claim.slots)
        names = (*seated.resources, *places.get(project or "", ()))
        yield _Wanted(run, seated, tuple(keys_of(claim.tenant, names)))


def _locked(tx: Transaction, keys: Collection[Key], rows: dict[Key, Row]) -> dict[Key, Row]:
    """Lock what is not locked yet, and not by another transaction."""
    missing = json.dumps(sorted(key for key in keys if key not in rows))
    if missing == "[]":
        return rows
    tx.later("ensure_resources", keys=missing)
    return rows | {(row[0], row[1]): row for row in tx.rows("try_resources", keys=missing)}


def _has(rows: dict[Key, Row], *keys: Iterable[Key]) -> bool:
    return all(key in rows for some in keys for key in some)


def _holders(tx: Transaction, keys: Sequence[Key]) -> tuple[list[Held], set[str]]:
    """Return the leases on these, with rows locked where the time is up; and the ids that another transaction has locked."""
    text = json.dumps(keys)
    found = {held.id: held for held in leases_of(tx.rows("holders", keys=text))}
    over = {held.id: held for held in leases_of(tx.rows("try_expired", keys=text))}
    return list((found | over).values()), {held.id for held in found.values() if held.expired and held.id not in over}


def _take(tx: Transaction, granted: Sequence[tuple[RunRow, Grant]], store_id: str) -> list[LeasedRun]:
    """Mark the runs of these grants as running, and return them with what earlier attempts left."""
    if not granted:
        return []
    ids, given = [[run.id] for run, _ in granted], [_values(run, grant) for run, grant in granted]
    values = json.dumps({"ids": ids, "given": given})
    taken = tx.later("take_runs", runs=values)
    tx.later("insert_attempts", runs=values)
    write_entries(tx, [_entry(run, grant) for run, grant in granted])
    kept = earlier_of(tx, [run for run, _ in granted])
    assert len(taken()) == len(granted), "the runs were locked while they were ready"
    return [
        kept(_running(run, grant), LeasedRun(run, grant.lease(store_id), grant.predecessors, None))
        for run, grant in granted
    ]


def _values(run: RunRow, grant: Grant) -> dict[str, object]:
    return {
        "lease_id": grant.claim.id,
        "fence": grant.fence,
        "worker": _worker(grant),
        "started": grant.claim.starts,
        "number": run.attempt + 1,
    }


def _worker(grant: Grant) -> str:
    return f"{grant.claim.supervisor.host.name}:{grant.claim.supervisor.pid}"


def _entry(run: RunRow, grant: Grant) -> dict[str, str]:
    said = {"fence": grant.fence, "attempt": run.attempt + 1, "worker": _worker(grant)}
    detail = {**said, "manifest_hash": run.manifest_hash}
    return audit_entry(run.tenant, actor="leaser", verb="lease", subject=f"run:{run.id}", detail=detail)


def _running(run: RunRow, grant: Grant) -> RunRow:
    """Return the run as it is now; its row was locked, so that no other worker can have counted."""
    return run._replace(
        state=RunState.RUNNING.value,
        reason=None,
        attempt=run.attempt + 1,
        lease_id=grant.claim.id,
        fence=grant.fence,
        worker=_worker(grant),
        stop=None,
    )


def _granted_before(tx: Transaction, known: Iterable[Held], store_id: str) -> list[LeasedRun]:
    """Return what was granted when the answer was lost; writing a renewal makes it as durable as a new grant."""
    held = [one for one in known if not one.lost and one.epoch == 0]  # what was adopted since is another's
    renewed = {row[0] for row in tx.rows("renew_leases", leases=kept(held))}
    ids = json.dumps([one.run_id for one in held])
    runs = {run.id: run for run in map(run_of, tx.rows("runs_named", ids=ids)) if run.lease_id in renewed}
    mine = [one for one in held if one.run_id in runs]
    filled = earlier_of(tx, [runs[one.run_id] for one in mine])
    answers = []
    for one, rows in beside(tx, mine):
        lost = leases_of(tx.rows("lost_on", keys=json.dumps([(row[0], row[1]) for row in rows])))
        leased = LeasedRun(runs[one.run_id], lease_again(one, rows, store_id), tuple(lost), None)
        answers.append(filled(runs[one.run_id], leased))
    return answers
