"""Puts facts of a run into a text, as data: each `{name}` is replaced once, and what was put in is never read again.

Braces that hold no name, as in JSON or code, are left alone. `{{name}}` stands for `{name}` itself. `{name|text}` is the
text where the value is empty, as `{last_success|the beginning}` is at the first run.
"""

import re
from collections.abc import Collection, Mapping

from fencepost.model.errors import Invalid
from fencepost.model.nearest_name import nearest

# What a prompt or an argument may ask for. The payload is JSON and may come from outside.
FIELDS = (
    "run_id",
    "tenant",
    "agent",
    "schedule",
    "schedule_version",
    "trigger",
    "tick",
    "period_start",
    "period_end",
    "backfill_from",
    "last_success",
    "idempotency_key",
    "attempt",
    "fence",
    "payload",
)
IN_CALLBACK = ("tenant", "run_id")  # what the address of a report may ask for
_PLACEHOLDER = re.compile(r"\{\{([a-z_]+(?:\|[^{}\n]*)?)\}\}|\{([a-z_]+)(?:\|([^{}\n]*))?\}")
NEAR = 0.8  # how like a field's name a word before a bar must be to be taken for a slip of the pen


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace every placeholder by its value, or raise Invalid for an unknown one."""
    check_placeholders(template, values)

    def value_of(found: re.Match[str]) -> str:
        if found[1]:
            return "{" + found[1] + "}"
        if found[2] not in values:
            return found[0]  # a bar in braces that mean something else
        return values[found[2]] or found[3] or ""

    return _PLACEHOLDER.sub(value_of, template)


def check_placeholders(template: str, known: Collection[str]) -> None:
    """Refuse an unknown placeholder, and name the one that was probably meant."""
    for found in _PLACEHOLDER.finditer(template):
        name, has_bar = found[2], found[3] is not None
        if name and name not in known:
            near = nearest(name, known, likeness=NEAR if has_bar else 0.6)
            if has_bar and not near:
                continue
            hint = f" Did you mean {{{near}}}?" if near else f" There are {', '.join(known)}."
            raise Invalid(
                f"there is no placeholder {{{name}}}.{hint} To write it as it is, double the braces: {{{{{name}}}}}."
            )


def as_data(payload: str) -> str:
    """Wrap a payload so that a reader sees where data begins and ends; nothing in it can close the tag."""
    return f"<payload>\n{payload.replace('<', chr(92) + 'u003c')}\n</payload>"
