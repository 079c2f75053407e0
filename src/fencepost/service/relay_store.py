"""The store as a guard's children see it: every verb goes by way of the guard to its worker, which has the store."""

import json
from _socket import socket
from _thread import allocate_lock
from collections.abc import Collection, Sequence
from typing import Any

from fencepost.model.errors import FencepostError, StoreUnavailable, error_named
from fencepost.model.lease import Claim, Granted, Held, Lease, Refused, Waiter
from fencepost.ports.ledger import LedgerStore
from fencepost.ports.store import LeaseStore, StoreFacts
from fencepost.service.wire import pack, unpack

VERBS = frozenset(name for name in vars(LeaseStore) if not name.startswith("_")) - {"facts", "ledger", "close"}


class RelayStore:
    """The verbs of a lease store, asked of the process that has one."""

    def __init__(self, connection: socket, facts: StoreFacts) -> None:
        """Ask over a connection that waits for the answer."""
        self._connection = connection
        self._facts = facts
        self._one_at_a_time = allocate_lock()
        self._rest = b""

    def facts(self) -> StoreFacts:
        """Say who this store is."""
        return self._facts

    def acquire(self, claim: Claim, *, dead: Collection[str] = (), ticket: str | None = None) -> Granted | Refused:
        """Grant all resources with one new fence, or none."""
        answer: Granted | Refused = self._ask("acquire", claim, dead=tuple(dead), ticket=ticket)
        return answer

    def look(self, claim: Claim, *, dead: Collection[str] = (), ticket: str | None = None) -> Refused | None:
        """Tell whether a claim would be refused now."""
        answer: Refused | None = self._ask("look", claim, dead=tuple(dead), ticket=ticket)
        return answer

    def start(self, lease: Lease) -> None:
        """Record the start, or raise LeaseLost."""
        self._ask("start", lease)

    def renew(self, lease: Lease) -> None:
        """Extend the lease, or raise LeaseLost."""
        self._ask("renew", lease)

    def renew_leases(self, leases: Sequence[Lease]) -> dict[str, str]:
        """Extend leases, and say of each what became of it."""
        return dict(self._ask("renew_leases", tuple(leases)))

    def release(self, lease: Lease, *, clean: bool, answered: bool = True, code: int | None = None) -> None:  # noqa: ARG002  # of guarded commands, which ask no worker
        """End the lease, or raise LeaseLost."""
        self._ask("release", lease, clean=clean, answered=answered)

    def enqueue(self, claim: Claim, ticket: str) -> None:
        """Join the queue."""
        self._ask("enqueue", claim, ticket)

    def dequeue(self, ticket: str) -> None:
        """Leave the queue."""
        self._ask("dequeue", ticket)

    def bury(self, lost: Held | Lease) -> None:
        """Forget a lost lease whose tree is known to be gone."""
        self._ask("bury", lost)

    def leases(self) -> list[Held]:
        """Return every lease."""
        return list(self._ask("leases"))

    def count_refused(self, tenant: str) -> None:
        """Count a write that was refused."""
        self._ask("count_refused", tenant)

    def break_lease(self, held: Held, *, why: str) -> bool:
        """Take a lease from its holder."""
        return bool(self._ask("break_lease", held, why=why))

    def waiters(self) -> list[Waiter]:
        """Return the queue, oldest first."""
        return list(self._ask("waiters"))

    def forget_gate(self, tenant: str, resource: str, gate: str) -> bool:
        """No longer owe a gate its fence."""
        return bool(self._ask("forget_gate", tenant, resource, gate))

    def forget_tick(self, tenant: str, resource: str, job: str) -> bool:
        """Throw away the record of a job's ticks."""
        return bool(self._ask("forget_tick", tenant, resource, job))

    def bump(self, floor: int) -> int:
        """Lift the fence floor."""
        return int(self._ask("bump", floor))

    def ledger(self) -> LedgerStore:
        """Refuse: an agent reaches the ledger by the run's socket, and a guard's child has no effects of its own."""
        raise StoreUnavailable("the ledger is out of reach from here.")

    def close(self) -> None:
        """Keep the connection: it is the only one."""

    def _ask(self, verb: str, *values: object, **named: object) -> Any:  # noqa: ANN401  # what the verb returns
        request = {"store": verb, "values": pack(values), "named": pack(named)}
        with self._one_at_a_time:
            self._connection.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(self._line())
        if "answer" not in answer:
            raise error_named(str(answer["error"]))(str(answer["message"]))
        return unpack(answer["answer"])

    def _line(self) -> bytes:
        while b"\n" not in self._rest:
            data = self._connection.recv(65536)
            if not data:
                raise StoreUnavailable("the guard is gone, and with it the way to the store.")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def answer_for(request: dict[str, Any], store: LeaseStore) -> dict[str, Any]:
    """Carry out one verb for a guard's child; what goes wrong is told by the code of its error."""
    verb = str(request.get("store"))
    if verb not in VERBS:
        return {"error": "invalid", "message": f"a guard's child has no verb {verb!r}."}
    try:
        answer = getattr(store, verb)(*unpack(request["values"]), **unpack(request["named"]))
    except FencepostError as error:
        return {"error": error.code, "message": str(error)}
    return {"answer": pack(answer)}
