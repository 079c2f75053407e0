"""The places of a project, and the line before it: which resources a claim looks at, and who else waits."""

from __future__ import annotations

from fencepost.model import fast_json as json
from fencepost.model import lease as rules
from fencepost.model.fast_typing import TYPE_CHECKING, Sequence
from fencepost.model.lease import Claim, Held, Waiter
from fencepost.stores.lease_rows import process_of

if TYPE_CHECKING:
    from fencepost.stores.transaction import Row, Transaction

LINE_MAX = 1000  # of a project that is looked at: who stands farther back waits anyway


def lock_project(tx: Transaction, claim: Claim) -> None:
    """Let one claim at a time look for a place in a project: only then it is known which places there are."""
    project = rules.project_in(claim.resources)
    if project is not None:
        key = json.dumps(rules.keys_of(claim.tenant, [project]))
        tx.rows("ensure_resources", keys=key)
        tx.rows("lock_resources", keys=key)


def wanted_by(tx: Transaction, claim: Claim) -> list[tuple[str, str]]:
    """Return every resource that a claim looks at: all places of a project, though it will get one."""
    project = rules.project_in(claim.resources)
    if project is None:
        return rules.keys_of(claim.tenant, claim.resources)
    return rules.keys_of(claim.tenant, (*claim.resources, *places_in(tx, project, claim.slots)))


def places_in(tx: Transaction, project: str, slots: int) -> list[str]:
    """Return a project's places, and those that it had when more were let in: a run may still be there."""
    return [*rules.slots_of(project, slots), *(str(name) for (name,) in tx.rows("places_beside", project=project))]


def all_of(tx: Transaction, resource: str) -> list[str]:
    """Return a resource, or all places of the project that it is or is a place of."""
    project = rules.project_in([resource])
    return [resource] if project is None else places_in(tx, project.partition("#")[0], 1)


def project_line(tx: Transaction, project: str | None) -> list[Waiter]:
    """Return the queued runs that wait for a project only, once for each worker that can reach it."""
    if project is None:
        return []
    return [_queued(row, project) for row in tx.rows("project_line", resource=project, limit=LINE_MAX)]


def _queued(row: Row, project: str) -> Waiter:
    rank, place_us, run_id, tenant, agent, _, worker, *where = row
    return Waiter(
        id=worker,
        tenant=tenant,
        resources=(project,),
        run_id=run_id,
        label=agent,
        process=process_of(where),
        since_us=place_us,
        stale=False,
        rank=rank,
    )


def beside(tx: Transaction, held: Sequence[Held]) -> list[tuple[Held, list[Row]]]:
    """Return leases, each with the rows of its resources, and of all places of its project."""
    places = {name: all_of(tx, name) for name in {name for one in held for name in one.resources}}
    wanted = {
        one.id: rules.keys_of(one.tenant, [name for each in one.resources for name in places[each]]) for one in held
    }
    keys = sorted({key for some in wanted.values() for key in some})
    rows = {(row[0], row[1]): row for row in tx.rows("resources_named", keys=json.dumps(keys))}
    return [(one, [rows[key] for key in wanted[one.id] if key in rows]) for one in held]
