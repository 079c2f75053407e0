"""Claims, leases and waiters as rows: spelled for a store, read from one, and missed where they should be."""

from __future__ import annotations

from fencepost.model import fast_json as json
from fencepost.model import lease as rules
from fencepost.model.errors import LeaseLost, LeaseMoved
from fencepost.model.fast_typing import TYPE_CHECKING, Collection, Iterable, Sequence
from fencepost.model.lease import Claim, Held, Lease, Waiter
from fencepost.model.process import Host, ProcessId

if TYPE_CHECKING:
    from fencepost.stores.transaction import Row, Transaction


def claim_values(claim: Claim) -> dict[str, object]:
    """Spell a claim as the columns of its row."""
    process = claim.supervisor
    return {
        "id": claim.id,
        "tenant": claim.tenant,
        "resources": json.dumps(rules.keys_of(claim.tenant, claim.resources)),
        "run_id": claim.run_id,
        "holder": claim.holder,
        "label": storable(claim.label),
        "host": process.host.name,
        "machine": process.host.machine,
        "boot": process.host.boot,
        "pid_namespace": process.host.pid_namespace,
        "pid": process.pid,
        "pid_started": process.started,
        "guard_pid": claim.guard.pid if claim.guard else None,
        "guard_started": claim.guard.started if claim.guard else None,
        "cgroup": claim.cgroup,
        "ttl_ms": round(claim.ttl_seconds * 1000),
        "keeper": claim.keeper,
        "adopt_key": claim.adopt_key,
        "keeper_socket": claim.keeper_socket,
    }


def storable(text: str) -> str:
    """Replace what no database takes: bytes of an argv that were no UTF-8, and NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "?")


def leases_of(rows: list[Row]) -> list[Held]:
    """Read rows of the view lease_custody."""
    return [held_of(row) for row in rows]


def held_of(row: Row) -> Held:
    """Read a row of the view lease_custody, maybe with a column more: whether a later grant has met it."""
    (id_, tenant, resources, fence, run_id, holder, label, *where, guard_pid, guard_started, cgroup) = row[:16]
    ttl_ms, renewals, granted_us, started_us, expires_us, remaining_ns, lost = row[16:23]
    keeper, epoch, left_us, keeper_socket, *met = row[23:]
    process = process_of(where)
    return Held(
        id=id_,
        tenant=tenant,
        resources=_names(resources),
        fence=fence,
        run_id=run_id,
        holder=holder,
        label=label,
        supervisor=process,
        guard=ProcessId(process.host, guard_pid, guard_started) if guard_pid else None,
        cgroup=cgroup,
        ttl_seconds=ttl_ms / 1000,
        renewals=renewals,
        granted_us=granted_us,
        started_us=started_us,
        expires_us=expires_us,
        remaining_seconds=remaining_ns / 1e9,
        lost=bool(lost),
        keeper=keeper,
        epoch=epoch,
        left_us=left_us,
        keeper_socket=keeper_socket,
        met=any(met),
    )


def waiter_of(row: Row) -> Waiter:
    """Read a row of the view waiter_fact."""
    (_, id_, tenant, resources, run_id, label, *where, since_us, stale) = row
    return Waiter(
        id=id_,
        tenant=tenant,
        resources=_names(resources),
        run_id=run_id,
        label=label,
        process=process_of(where),
        since_us=since_us,
        stale=bool(stale),
    )


def process_of(where: Sequence[object]) -> ProcessId:
    """Read the columns that name a process."""
    host, machine, boot, pid_namespace, pid, started = where
    return ProcessId(Host(str(host), str(machine), str(boot), str(pid_namespace)), int(str(pid)), str(started))


def _names(resources: str) -> tuple[str, ...]:
    return tuple([name for _, name in json.loads(resources)])


def kept(leases: Iterable[Lease | Held]) -> str:
    """Spell leases as their keeper has them: a statement that extends or ends one names its fence and its epoch."""
    return json.dumps([(lease.id, lease.fence, lease.epoch) for lease in leases])


def freed(lease: Lease | Held, owed: Collection[str] | None) -> list[dict[str, object]]:
    """Spell the resources of a lease that others may have."""
    owed_gates = None if owed is None else json.dumps(list(owed))
    return [
        {"tenant": tenant, "name": name, "id": lease.id, "fence": lease.fence, "owed_gates": owed_gates}
        for tenant, name in rules.keys_of(lease.tenant, lease.resources)
    ]


def owed_by(locked: Iterable[Row]) -> tuple[str, ...]:
    """Return the gates that earlier grants still owe, from locked rows of resources."""
    return tuple(dict.fromkeys(gate for row in locked for gate in json.loads(row[3])))


def still_ours(tx: Transaction, rows: list[Row], lease: Lease) -> None:
    """Raise unless a statement found the lease as its keeper has it: LeaseMoved if another worker keeps it now."""
    if not rows:
        check_not_moved(tx, lease)
        raise LeaseLost(f"{_named(lease)} is no longer held.")


def check_not_moved(tx: Transaction, lease: Lease) -> None:
    """Raise LeaseMoved if another worker keeps the lease."""
    found = leases_of(tx.rows("leases_named", ids=json.dumps([lease.id])))
    if rules.fate_of(lease, found[0] if found else None) == rules.MOVED:
        raise LeaseMoved(f"{_named(lease)} is kept by another worker, which has adopted it: its run goes on there.")


def _named(lease: Lease) -> str:
    return f"the lease on {' '.join(lease.resources)} with fence {lease.fence}"
