"""Values on their way between a worker and its guards: JSON, and only the kinds that are named here."""

import json
from dataclasses import fields, is_dataclass
from typing import Any

from fencepost.model.lease import Claim, Granted, Held, Lease, Refused, Turn, Waiter
from fencepost.model.output_rules import OutputRules, Rule
from fencepost.model.process import Host, ProcessId
from fencepost.model.project import Project
from fencepost.model.usage_figures import SoFar
from fencepost.ports.engine import Manner
from fencepost.ports.store import StoreFacts
from fencepost.service.model_gate_client import ModelOrder
from fencepost.service.run_order import Additions

KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Additions,
        Claim,
        Granted,
        Held,
        Host,
        Lease,
        Manner,
        ModelOrder,
        OutputRules,
        ProcessId,
        Project,
        Refused,
        Rule,
        SoFar,
        StoreFacts,
        Turn,
        Waiter,
    )
}
KIND, VALUES = "kind", "values"


def pack(value: object) -> Any:  # noqa: ANN401  # whatever JSON can hold
    """Return a value as JSON can hold it."""
    name = type(value).__name__
    if KINDS.get(name) is type(value):
        return {KIND: name, VALUES: [pack(one) for one in _parts(value)]}
    if isinstance(value, list | tuple):
        return [pack(one) for one in value]
    if isinstance(value, dict):
        return {VALUES: {key: pack(one) for key, one in value.items()}}
    return value


def unpack(packed: Any) -> Any:  # noqa: ANN401  # what it was
    """Return the value again; a list comes back as a tuple, since values do not change."""
    if isinstance(packed, list):
        return tuple(unpack(one) for one in packed)
    if not isinstance(packed, dict):
        return packed
    if KIND in packed:
        return KINDS[packed[KIND]](*map(unpack, packed[VALUES]))
    return {key: unpack(one) for key, one in packed[VALUES].items()}


def spell(value: object) -> str:
    """Return a value as one line of text."""
    return json.dumps(pack(value))


def read(text: str) -> Any:  # noqa: ANN401  # what it was
    """Return the value that this text spells."""
    return unpack(json.loads(text))


def _parts(value: Any) -> list[Any]:  # noqa: ANN401  # one of the kinds
    if is_dataclass(value):
        return [getattr(value, one.name) for one in fields(value)]
    return list(value)
