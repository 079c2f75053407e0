"""What is promised about an agent's effects: which pass a gate, which are only checked, and which are neither."""

from fencepost.model.definition import AgentDefinition, gate_targets
from fencepost.model.fast_typing import NamedTuple
from fencepost.model.lease_check import is_checked


class Effects(NamedTuple):
    """The three kinds of effects of one agent."""

    gated: tuple[str, ...]  # targets that compare the fence themselves
    checked: tuple[str, ...]  # looked at before it acts, in its own tree: a late look can be too late
    ungated: bool  # anything else that it changes is promised nothing

    def words(self) -> str:
        """Say it in one line."""
        parts = [f"gated: {', '.join(self.gated)}"] if self.gated else []
        parts += [f"checked: {', '.join(self.checked)}"] if self.checked else []
        if self.ungated:
            parts.append("ungated: all else that it changes" if parts else "ungated: all that it changes")
        return " · ".join(parts) or "it says that it changes nothing (writes = false)"


def effects_of(agent: AgentDefinition) -> Effects:
    """Return what is promised about an agent."""
    targets = dict(zip(agent.gates, gate_targets(agent), strict=True))
    gated = tuple(name if name == target else f"{name} ({target})" for name, target in targets.items())
    return Effects(gated, _checked(agent), ungated=agent.writes)


def _checked(agent: AgentDefinition) -> tuple[str, ...]:
    """Name what the hook looks at, and the MCP servers that the gateway stands before."""
    if agent.engine != "claude" or not is_checked(agent.options):
        return ()
    servers = agent.options.get("mcp_servers") or {}
    return ("hook", *(f"mcp-gate {name}" for name in servers))
