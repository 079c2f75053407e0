"""The llm_tokens of an attempt as they are kept: figures by kind, and whether the agent was cut off before it told all."""

import json
from collections.abc import Mapping

PARTIAL = "partial"


def usage_text(usage: Mapping[str, int], *, partial: bool) -> str | None:
    """Spell what an attempt told; nothing if it told nothing, unless that is because it was cut off."""
    if not usage and not partial:
        return None
    return json.dumps({**usage, **({PARTIAL: True} if partial else {})}, sort_keys=True)


def llm_tokens(text: str | None) -> dict[str, int]:
    """Return the figures by kind."""
    told = json.loads(text) if text else {}
    return {name: amount for name, amount in told.items() if isinstance(amount, int) and not isinstance(amount, bool)}


def is_partial(text: str | None) -> bool:
    """Tell whether the agent was cut off before it told what it used and cost."""
    return bool(text) and json.loads(text or "{}").get(PARTIAL) is True
