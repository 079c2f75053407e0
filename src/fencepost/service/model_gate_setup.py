"""Leads an agent to the model gate: its variables, its arguments, and the pass that its guard keeps."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from fencepost.gates.model.recipes import Recipe, is_led, recipe, scrubbed
from fencepost.model.definition import AgentDefinition
from fencepost.model.errors import GateUnreachable, Misconfigured
from fencepost.ports.runs import RunRow
from fencepost.service.command_order import ModelWish
from fencepost.service.model_gate_client import ModelGateStarter, ModelOrder


class Led(NamedTuple):
    """An agent with what leads it to the gate; as it was where it has none."""

    agent: AgentDefinition
    order: ModelOrder | None = None
    env: Mapping[str, str] = {}  # never changed
    key: str = ""
    files: Mapping[str, str] = {}  # in the run's folder

    def applied(self, env: dict[str, str]) -> dict[str, str]:
        """Return its environment: with the gate's address, and without what leads past it."""
        return {**scrubbed(env, self.key), **self.env} if self.order else env


class Way(NamedTuple):
    """The way to the gate for one run: its pass, and the variables, arguments and files that lead there."""

    order: ModelOrder
    recipe: Recipe


def lead(
    agent: AgentDefinition,
    run: RunRow,
    gate: ModelGateStarter | None,
    *,
    key: str,
    budget_micro: int | None,
    folder: str,
) -> Led:
    """Make the pass of a run, and put its address where the agent looks for it."""
    if not agent.model_gate:
        return Led(agent)
    if gate is None:
        raise Misconfigured("this worker has no model gate.")
    wish = ModelWish(agent.model_gate, key, agent.model_url, budget_micro)
    cli, model = str(agent.options.get("preset", "")), str(agent.options.get("model", ""))
    order, known = way_to(gate, wish, cli, run.id, folder=folder, model=model)
    args = [*known.args, *agent.options.get("args", ())]
    options = {**agent.options, "args": args} if known.args else agent.options
    return Led(replace(agent, options=options), order, known.env, key, known.files)


def way_to(gate: ModelGateStarter, wish: ModelWish, cli: str, run_id: str, *, folder: str = "", model: str = "") -> Way:
    """Make the pass of a run with a key of its own; the real one goes to the gate alone."""
    known = _recipe_for(wish.provider, cli, folder=folder, model=model)
    port = gate.port()
    if port is None:
        if gate.trouble:
            raise Misconfigured(f"the model gate does not start: {gate.trouble}")
        raise GateUnreachable("the model gate is being started.")
    here, shown = f"http://127.0.0.1:{port}", f"fencepost-{run_id}-{os.urandom(16).hex()}"
    terms = {
        "run_id": run_id,
        "provider": wish.provider,
        "upstream": wish.url or known.upstream,
        "key": wish.key,
        "counts_sleep": False,  # who opens it knows
        "budget_micro": wish.budget_micro,
    }
    order = ModelOrder(gate.folder, port, shown, terms, keeper=os.urandom(16).hex())
    return Way(order, known.filled(url=here, key=shown, folder=folder, model=model))


def _recipe_for(provider: str, cli: str, *, folder: str, model: str) -> Recipe:
    """Return what leads a CLI to the gate, or raise why nothing would."""
    known = recipe(provider, cli)
    if not is_led(provider, cli):
        raise Misconfigured(f"{cli} knows its model from its own settings alone, and would go around the model gate.")
    if known.files and not folder:
        raise Misconfigured(f"{cli} is led to the model gate by a file of its run: let a worker run it, not exec.")
    if not model and any("{model}" in text for text in known.files.values()):
        raise Misconfigured(f"{cli} gets its model by the same file as the gate: give it as model = …")
    return known
