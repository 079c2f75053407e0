"""What we ask of a ledger: every write carries the lease, and matches on it."""

from __future__ import annotations

from fencepost.model.fast_typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fencepost.model.effect_ledger import EffectCall, Entry, Verdict
    from fencepost.model.lease import Lease


class LedgerStore(Protocol):
    """Effects recorded once, by key."""

    def begin(self, lease: Lease, call: EffectCall) -> Verdict:
        """Write the effect down as in progress, or say what is known of it; raise LeaseLost.

        `New` is durable when this returns. Asking again with the same call finds the same grant.
        """
        ...

    def complete(self, lease: Lease, call: EffectCall, answer: str) -> None:
        """Record the answer of an effect that this call began, or raise LeaseLost if it is not its any more."""
        ...

    def doubt(self, lease: Lease, call: EffectCall, why: str) -> None:
        """Record that this call cannot tell whether its effect took place, or raise LeaseLost."""
        ...

    def release(self, lease: Lease, call: EffectCall) -> None:
        """Forget an effect that certainly did not take place, or raise LeaseLost."""
        ...

    def take_over(self, lease: Lease, call: EffectCall, seen: Entry) -> bool:
        """Begin an ambiguous effect anew, which a probe found not done; False if it has changed since it was seen."""
        ...

    def settle_doubt(self, lease: Lease, seen: Entry, answer: str) -> bool:
        """Record the answer of an ambiguous effect, which a probe found done; False if it has changed meanwhile."""
        ...

    def unreplayed(self, lease: Lease, scope: str) -> list[Entry]:
        """Return what earlier attempts in this scope have begun, and this one has not asked for again."""
        ...

    def entry(self, tenant: str, key: str, scope: str) -> Entry | None:
        """Return one entry."""
        ...

    def entries(
        self,
        tenant: str,
        *,
        scope: str | None = None,
        standing: str = "",
        after: tuple[int, str, str] = ...,
        limit: int = 100,
    ) -> list[Entry]:
        """Return entries, newest first; of one scope, or of all; `after` is where an earlier page ended."""
        ...

    def resolve(self, seen: Entry, *, answer: str | None, by: str) -> bool:
        """Let a person end an ambiguity: with its answer, or None to forget it; False if it has changed meanwhile."""
        ...
