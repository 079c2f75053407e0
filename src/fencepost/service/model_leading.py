"""Leads an agent to the model gate: its variables, its arguments, and the pass that its guard keeps."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from fencepost.gates.model.recipes import is_led, recipe, scrubbed
from fencepost.model.definition import AgentDefinition
from fencepost.model.errors import GateUnreachable, Misconfigured
from fencepost.ports.runs import RunRow
from fencepost.service.model_line import ModelGateStarter, ModelOrder


class Led(NamedTuple):
    """An agent with what leads it to the gate; as it was where it has none."""

    agent: AgentDefinition
    order: ModelOrder | None = None
    env: Mapping[str, str] = {}  # never changed
    key: str = ""

    def applied(self, env: dict[str, str]) -> dict[str, str]:
        """Return its environment: with the gate's address, and without what leads past it."""
        return {**scrubbed(env, self.key), **self.env} if self.order else env


class Way(NamedTuple):
    """The way to the gate for one run: its pass, and the variables and arguments that lead there."""

    order: ModelOrder
    env: Mapping[str, str]
    args: tuple[str, ...]


def lead(
    agent: AgentDefinition, run: RunRow, gate: ModelGateStarter | None, *, key: str, budget_micro: int | None
) -> Led:
    """Make the pass of a run, and put its address where the agent looks for it."""
    if not agent.model_gate:
        return Led(agent)
    if gate is None:
        raise Misconfigured("this worker has no model gate.")
    cli = str(agent.options.get("preset", ""))
    if not is_led(cli):
        raise Misconfigured(f"{cli} knows its model from its own settings alone, and would go around the model gate.")
    way = way_to(gate, agent.model_gate, cli, run.id, url=agent.model_url, key=key, budget_micro=budget_micro)
    options = {**agent.options, "args": [*way.args, *agent.options.get("args", ())]} if way.args else agent.options
    return Led(replace(agent, options=options), way.order, way.env, key)


def way_to(
    gate: ModelGateStarter, provider: str, cli: str, run_id: str, *, url: str, key: str, budget_micro: int | None
) -> Way:
    """Make the pass of a run with a key of its own; the real one goes to the gate alone."""
    port = gate.port()
    if port is None:
        if gate.trouble:
            raise Misconfigured(f"the model gate does not start: {gate.trouble}")
        raise GateUnreachable("the model gate is being started.")
    known = recipe(provider, cli)
    here, shown = f"http://127.0.0.1:{port}", f"fencepost-{run_id}-{os.urandom(16).hex()}"
    terms = {
        "run_id": run_id,
        "provider": provider,
        "upstream": url or known.upstream,
        "key": key,
        "counts_sleep": False,  # who opens it knows
        "budget_micro": budget_micro,
    }
    order = ModelOrder(gate.folder, port, shown, terms, keeper=os.urandom(16).hex())
    return Way(order, known.env_for(here, shown), known.args_for(here, shown))
