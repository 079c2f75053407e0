"""Hands to an agent what its definition asks for, as far as the worker's own lists let its tenant have it."""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from fencepost.gates.model.recipes import recipe
from fencepost.host.secrets import hand_over, permit
from fencepost.model.definition import AgentDefinition, gate_targets
from fencepost.model.secret_rights import Rights, is_ordinary, references_in
from fencepost.model.target import is_target, parse_target


class Given(NamedTuple):
    """What an agent gets of the worker: variables that it asked for, and what its secrets mean."""

    passed: dict[str, str]
    secrets: dict[str, str]  # also kept out of the log
    model_key: str = ""  # for the model gate, never for the agent


def given_to(agent: AgentDefinition, tenant: str, rights: Rights, inherited: Mapping[str, str]) -> Given:
    """Fetch all that a definition asks for, or raise Withheld about what is not for the tenant; nothing is written down."""
    _look_at_gates(agent, tenant, rights)
    fetch = partial(hand_over, tenant=tenant, rights=rights, environ=inherited)
    passed = {}
    for name in agent.pass_env:
        if not is_ordinary(name):
            what = f"agent {agent.name}, pass_env {name}"
            permit(f"env:{name}", tenant=tenant, rights=rights, what=what)
            if name in inherited:
                passed[name] = fetch(f"env:{name}", what=what)
    secrets = {
        name: fetch(reference, what=f"agent {agent.name}, secret {name}") for name, reference in agent.secrets.items()
    }
    if not agent.model_gate:
        return Given(passed, secrets)
    reference = agent.model_key or recipe(agent.model_gate).key
    return Given(passed, secrets, fetch(reference, what=f"agent {agent.name}, model_key"))


def _look_at_gates(agent: AgentDefinition, tenant: str, rights: Rights) -> None:
    """Raise before anything moves what would be raised when the gates are opened, by the same rule."""
    for gate in filter(is_target, gate_targets(agent)):
        for reference in references_in(parse_target(gate)):
            permit(reference, tenant=tenant, rights=rights, what=f"agent {agent.name}, gate {gate}")
