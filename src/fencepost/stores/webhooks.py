"""The verbs about webhooks, once for both dialects."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from fencepost.model.errors import Invalid
from fencepost.model.registry_plan import KnownHook, Wanted
from fencepost.ports.webhooks import HookRow
from fencepost.stores.audit_writing import write_audit
from fencepost.stores.transaction import Dialect, Transaction


class SqlWebhooks:
    """Webhooks."""

    def __init__(self, dialect: Dialect) -> None:
        """Speak to a store through its dialect."""
        self._dialect = dialect

    def hook(self, tenant: str, name: str) -> HookRow | None:
        """Return one webhook."""
        rows = self._dialect.read(lambda tx: tx.rows("hook", tenant=tenant, name=name))
        return HookRow(*rows[0]) if rows else None

    def hooks(self, tenant: str) -> list[HookRow]:
        """Return a tenant's webhooks by name."""
        return [HookRow(*row) for row in self._dialect.read(lambda tx: tx.rows("hooks", tenant=tenant))]


class HookChanges(NamedTuple):
    """What becomes of the webhooks of one file."""

    changed: dict[str, str]  # JSON by name
    gone: list[str]


def plan_hooks(there: Mapping[str, KnownHook], wanted: Wanted, *, take_over: bool) -> HookChanges:
    """Compare the webhooks that are there with those that a file wants; what it no longer has is gone at once."""
    for name in wanted.hooks:
        other = there.get(name)
        if other is not None and other.source != wanted.source and not take_over:
            raise Invalid(
                f'hook "{name}" is defined by {other.source} too, and this is {wanted.source}; '
                "rename one of them, or move it here with 'fencepost apply --take-over'."
            )
    changed = {name: text for name, text in wanted.hooks.items() if _is_news(there.get(name), text, wanted.source)}
    gone = [row.name for row in there.values() if row.source == wanted.source and row.name not in wanted.hooks]
    return HookChanges(changed, gone)


def write_hooks(tx: Transaction, wanted: Wanted, changes: HookChanges, *, actor: str) -> None:
    """Make the webhooks of one file as it wants them, inside an apply."""
    for name, text in changes.changed.items():
        agent = json.loads(text)["agent"]
        tx.rows("put_hook", tenant=wanted.tenant, name=name, agent=agent, definition=text, source=wanted.source)
    for name in changes.gone:
        tx.rows("drop_hook", tenant=wanted.tenant, name=name)
    if any(changes):
        detail = {"hooks": sorted(changes.changed), "gone": changes.gone}
        subject = f"file:{wanted.source}"
        write_audit(tx, wanted.tenant, actor=actor, verb="apply_hooks", subject=subject, detail=detail)


def _is_news(known: KnownHook | None, text: str, source: str) -> bool:
    return known is None or (known.definition, known.source) != (text, source)
