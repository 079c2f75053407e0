"""Checks what a gate's keys mean together."""

from fencepost.config.check_shape import Checker, NamedSection
from fencepost.config.sections import GATE
from fencepost.model.errors import Invalid
from fencepost.model.target import PATHS, target_of

KINDS_OF = {key.name: key.engines for key in GATE.keys if key.engines}


def check_gate(checker: Checker, entry: NamedSection) -> None:
    """Complain about keys that its kind does not understand, and about a place that is missing."""
    kind = entry.values.get("kind")
    if kind is None:
        return  # missing or misspelled, which was said already
    for name in entry.says(*KINDS_OF):
        if kind not in KINDS_OF[name]:
            theirs = " and ".join(f'"{one}"' for one in KINDS_OF[name])
            checker.complain(f'it has no meaning with kind = "{kind}"; it is for {theirs}.', *entry.path, name)
            return
    where = "path" if kind in PATHS else "url"
    if not entry.says(where):
        checker.complain(f'kind = "{kind}" needs {where}.', *entry.path)
    elif not entry.bad:
        try:
            target_of(entry.values)
        except Invalid as error:
            checker.complain(str(error), *entry.path, where)
