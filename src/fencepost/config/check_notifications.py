"""Checks what the keys of a notification mean together."""

from fencepost.config.check_shape import Checker, NamedSection
from fencepost.model.allowed_addresses import target_of
from fencepost.model.errors import Invalid

ONLY_FOR = {"secret": ("webhook",), "style": ("ping",), "on": ("apprise", "webhook")}


def check_notification(checker: Checker, entry: NamedSection) -> None:
    """Complain about keys that its kind does not understand, and about what is missing."""
    if entry.bad:
        return  # which was said already
    kind = entry.values.get("kind", "apprise")
    for name in entry.says(*ONLY_FOR):
        if kind not in ONLY_FOR[name]:
            theirs = " and ".join(f'"{one}"' for one in ONLY_FOR[name])
            checker.complain(f'it has no meaning with kind = "{kind}"; it is for {theirs}.', *entry.path, name)
    if kind == "webhook" and not entry.says("secret"):
        message = 'kind = "webhook" needs a secret, so that the receiver can tell who sent it.'
        checker.complain(message, *entry.path)
    if kind == "ping" and len(entry.values.get("schedules", ())) != 1:
        checker.complain('kind = "ping" needs schedules = ["NAME"]: a monitor watches one schedule.', *entry.path)
    url = entry.values["url"]
    if kind != "apprise" and url.partition(":")[0] not in ("env", "file"):
        try:
            target_of(url)
        except Invalid as error:
            checker.complain(str(error), *entry.path, "url")
