"""The verbs about keys, once for both dialects."""

from fencepost.model.instants import FOREVER_US
from fencepost.ports.keys import KeyRow, NewKey
from fencepost.stores.audit_writing import write_audit
from fencepost.stores.lease_rows import storable
from fencepost.stores.transaction import Dialect, Transaction

KEPT_US = 7 * 86_400 * 1_000_000  # for so long a session or link is listed after its end


class SqlKeys:
    """Keys, each verb in one transaction, with its line in the audit."""

    def __init__(self, dialect: Dialect) -> None:
        """Speak to a store through its dialect."""
        self._dialect = dialect

    def put_key(self, key: NewKey, *, by: str) -> KeyRow:
        """Keep a new key."""
        made = self.put_key_once(key, by=by)
        assert made is not None, "its id is random"
        return made

    def put_key_once(self, key: NewKey, *, by: str) -> KeyRow | None:
        """Keep a new key; None if there is one with its id."""
        return self._dialect.write(lambda tx: _put(tx, key, by))

    def key(self, key_id: str, *, tenant: str) -> KeyRow | None:
        """Return a key, good or not."""
        rows = self._dialect.read(lambda tx: tx.rows("key", id=key_id, tenant=tenant))
        return KeyRow(*rows[0]) if rows else None

    def use_link(self, link_id: str, link_hash: str, session: NewKey) -> KeyRow | None:
        """Use a link up for a session; None if another request was quicker, or its time is over."""

        def work(tx: Transaction) -> KeyRow | None:
            if not tx.rows("use_link", id=link_id, hash=link_hash):
                return None
            return _put(tx, session, f"link:{link_id}")

        return self._dialect.write(work)

    def key_in_force(self, key_id: str) -> tuple[KeyRow, str] | None:
        """Return a key that is good now, and its hash."""
        rows = self._dialect.read(lambda tx: tx.rows("key_in_force", id=key_id))
        return (KeyRow(*rows[0][:-1]), str(rows[0][-1])) if rows else None

    def keys(
        self, tenant: str, *, kind: str = "", before: tuple[int, str] = (FOREVER_US, ""), limit: int
    ) -> list[KeyRow]:
        """Return a tenant's keys, newest first; `before` is where an earlier page ended."""
        values = {"tenant": tenant, "kind": kind, "before_us": before[0], "before": before[1], "limit": limit}
        rows = self._dialect.read(lambda tx: tx.rows("list_keys", **values))
        return [KeyRow(*row) for row in rows]

    def revoke_key(self, key_id: str, *, tenant: str, by: str) -> KeyRow | None:
        """End a key, at once; None if there is none that is good."""

        def work(tx: Transaction) -> KeyRow | None:
            rows = tx.rows("revoke_key", id=key_id, tenant=tenant)
            if not rows:
                return None
            key = KeyRow(*rows[0])
            _note(tx, key, "key_revoke", by)
            return key

        return self._dialect.write(work)


def _put(tx: Transaction, key: NewKey, by: str) -> KeyRow | None:
    tx.rows("drop_old_keys", kept_us=KEPT_US)
    rows = tx.rows("put_key", **key._asdict(), by=storable(by))
    if not rows:
        return None
    made = KeyRow(*rows[0])
    _note(tx, made, "key_create", by)
    return made


def _note(tx: Transaction, key: KeyRow, verb: str, by: str) -> None:
    detail: dict[str, object] = {"kind": key.kind, "name": key.name, "role": key.role}
    if key.all_tenants:
        detail["all_tenants"] = True
    write_audit(tx, key.tenant, actor=by, verb=verb, subject=f"key:{key.id}", detail=detail)
