"""The python engine: `module:function`, called with a RunContext in a process of its own."""

from fencepost.model.definition import AgentDefinition
from fencepost.model.errors import Misconfigured
from fencepost.model.own_program import own_program
from fencepost.ports.engine import Launch, Setting
from fencepost.ports.runs import RunRow


class PythonEngine:
    """Starts a Python function in a child, where it can be killed."""

    __slots__ = ()

    def launch(self, agent: AgentDefinition, run: RunRow, _: Setting) -> Launch:
        """Start an interpreter that calls the function."""
        module, colon, function = agent.function.partition(":")
        if not (module and colon and function):
            raise Misconfigured(
                f'agent {agent.name} needs function = "module:function" (run {run.id}), not {agent.function!r}.'
            )
        return Launch((*own_program("fencepost.context"), agent.function), {"PYTHONUNBUFFERED": "1"})
