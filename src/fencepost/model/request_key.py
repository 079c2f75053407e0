"""Keys that make a request for a run idempotent: a caller chooses one, and webhooks, replays and backfills have their own.

All stand in one column. The prefixes keep them apart: a caller's own key that looks like one of ours gets a prefix too,
so that a key of the role `trigger` cannot answer for a delivery that has not come yet.
"""

OWN = "key:"
OURS = (OWN, "hook:", "replay:", "backfill:")


def callers_key(key: str) -> str:
    """Return how the key that a caller has chosen is kept."""
    return f"{OWN}{key}" if key.startswith(OURS) else key


def shown_key(kept: str | None) -> str | None:
    """Return a key as its caller has spelled it."""
    return kept.removeprefix(OWN) if kept is not None else None


def delivery_key(hook: str, identity: str) -> str:
    """Return the key of a delivery to a webhook."""
    return f"hook:{hook}:{identity}"


def replay_key(run_id: str, key: str) -> str:
    """Return the key of a replay, of those that one run has."""
    return f"replay:{run_id}:{key}"


def backfill_key(title: str, occurrence: str) -> str:
    """Return the key of one tick of a backfill."""
    return f"backfill:{title}:{occurrence}"
