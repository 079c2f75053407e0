"""The command engine: an argv list, or one string for a shell if the agent asks for that."""

from fencepost.model.definition import AgentDefinition
from fencepost.model.errors import Misconfigured
from fencepost.ports.engine import Launch, Setting
from fencepost.ports.runs import RunRow


class CommandEngine:
    """Starts a program."""

    __slots__ = ()

    def launch(self, agent: AgentDefinition, run: RunRow, _: Setting) -> Launch:
        """Start the argv as it is: nothing of the run is put into it, values travel by environment and file."""
        if not agent.command:
            raise Misconfigured(f'agent {agent.name} has no command (run {run.id}); write command = ["program", "…"].')
        argv = ("/bin/sh", "-c", agent.command[0]) if agent.shell else agent.command
        return Launch(argv, {})
