"""What the web door asks of a store about webhooks."""

from typing import NamedTuple, Protocol


class HookRow(NamedTuple):
    """A webhook as its file defines it; secrets stand in it as references only."""

    name: str
    agent: str
    definition: str
    source: str


class HookStore(Protocol):
    """Webhooks."""

    def hook(self, tenant: str, name: str) -> HookRow | None:
        """Return one webhook."""
        ...
