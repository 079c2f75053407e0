"""Checks what the keys of a gate, and those of a notification, mean together: both are targets of one kind."""

from collections.abc import Mapping, Sequence

from fencepost.config.check_shape import Checker, NamedSection
from fencepost.config.sections import GATE
from fencepost.model import allowed_addresses, target
from fencepost.model.errors import Invalid

ONLY_FOR_GATES = {key.name: key.engines for key in GATE.keys if key.engines}
ONLY_FOR_NOTIFICATIONS = {"secret": ("webhook",), "style": ("ping",), "on": ("apprise", "webhook")}


def check_gate(checker: Checker, entry: NamedSection) -> None:
    """Complain about keys that its kind does not understand, and about a place that is missing."""
    kind = entry.values.get("kind")
    if kind is None or _has_strange_keys(checker, entry, kind, ONLY_FOR_GATES):
        return  # a kind that is missing or misspelled was said already
    where = "path" if kind in target.PATHS else "url"
    if not entry.says(where):
        checker.complain(f'kind = "{kind}" needs {where}.', *entry.path)
    elif not entry.bad:
        try:
            target.target_of(entry.values)
        except Invalid as error:
            checker.complain(str(error), *entry.path, where)


def check_notification(checker: Checker, entry: NamedSection) -> None:
    """Complain about keys that its kind does not understand, and about what is missing."""
    if entry.bad:
        return  # which was said already
    kind = entry.values.get("kind", "apprise")
    _has_strange_keys(checker, entry, kind, ONLY_FOR_NOTIFICATIONS)
    if kind == "webhook" and not entry.says("secret"):
        message = 'kind = "webhook" needs a secret, so that the receiver can tell who sent it.'
        checker.complain(message, *entry.path)
    if kind == "ping" and len(entry.values.get("schedules", ())) != 1:
        checker.complain('kind = "ping" needs schedules = ["NAME"]: a monitor watches one schedule.', *entry.path)
    url = entry.values["url"]
    if kind != "apprise" and url.partition(":")[0] not in ("env", "file"):
        try:
            allowed_addresses.target_of(url)
        except Invalid as error:
            checker.complain(str(error), *entry.path, "url")


def _has_strange_keys(checker: Checker, entry: NamedSection, kind: str, only_for: Mapping[str, Sequence[str]]) -> bool:
    """Complain about keys that are for another kind; tell whether there is one."""
    strange = [name for name in entry.says(*only_for) if kind not in only_for[name]]
    for name in strange:
        theirs = " and ".join(f'"{one}"' for one in only_for[name])
        checker.complain(f'it has no meaning with kind = "{kind}"; it is for {theirs}.', *entry.path, name)
    return bool(strange)
