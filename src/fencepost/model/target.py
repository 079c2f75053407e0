"""The one spelling of a gate's target: `kind:where`, and `#name=value&…` for what else its kind has to know.

A target is kept with the lease that owes it a fence, shown to people, and read by another machine later. So it says
everything that opening the gate takes, except secrets, for which it has a reference: `sql:env:LEDGER_URL`.
"""

from __future__ import annotations

from fencepost.model.errors import Invalid
from fencepost.model.fast_typing import Mapping, NamedTuple

PATHS = ("file", "dir")  # where a target is a path, and nothing else: a name may contain any character
# kind -> what a person writes; in the order in which they are listed
KINDS = {
    "file": "file:PATH",
    "dir": "dir:PATH",
    "sql": "sql:env:NAME",
    "git": "git:URL#branch=NAME",
    "http": "http:URL#key=env:NAME",
    "s3": "s3:s3://BUCKET/KEY",
    "redis": "redis:env:NAME",
}
OURS = ("repo",)  # opened by Fencepost for itself; users do not write these
NOT_OPTIONS = ("kind", "url", "path")


class Target(NamedTuple):
    """Where a gate stands."""

    kind: str
    where: str
    options: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """Its one spelling."""
        said = "&".join(f"{name}={_quoted(value)}" for name, value in sorted(self.options))
        return f"{self.kind}:{self.where}#{said}" if said else f"{self.kind}:{self.where}"

    def option(self, name: str, default: str = "") -> str:
        """Return what it says about one thing."""
        return dict(self.options).get(name, default)


def is_target(text: str) -> bool:
    """Tell a target from the name of a gate, which has no colon."""
    return ":" in text


def parse_target(text: str) -> Target:
    """Read a target, or raise Invalid."""
    kind, colon, where = text.partition(":")
    if kind not in (*KINDS, *OURS) or not colon or not where:
        known = ", ".join(KINDS.values())
        example = f"file:{text}" if text and not colon else "file:report.json"
        raise Invalid(f"{text!r} is no gate; write kind:where, for example {example}. There are {known}.")
    if kind in PATHS:
        return Target(kind, where)
    where, hash_sign, said = where.rpartition("#") if "#" in where else (where, "", "")
    target = Target(kind, where, tuple(sorted(_options(text, said))) if hash_sign else ())
    if not where or _has_password(where):
        raise Invalid(
            f"{kind}:… names no place, or holds a password, which lists and logs would show; "
            f"put the URL into a variable and write {kind}:env:NAME."
        )
    return target


def target_of(gate: Mapping[str, object]) -> str:
    """Spell a gate as its definition has it."""
    kind = str(gate["kind"])
    where = str(gate.get("path") or gate.get("url") or "")
    options = [(name, str(value)) for name, value in gate.items() if value and name not in NOT_OPTIONS]
    return parse_target(Target(kind, where, tuple(options)).text).text


def _options(text: str, said: str) -> list[tuple[str, str]]:
    found = {}
    for part in said.split("&"):
        name, equals, value = part.partition("=")
        if not equals or not name or name in found:
            raise Invalid(f"{text!r}: after # a gate's target says name=value, joined by &; {part!r} is none.")
        found[name] = _unquoted(value)
    return list(found.items())


def _has_password(where: str) -> bool:
    _, slashes, rest = where.partition("://")
    login, at, _ = rest.partition("/")[0].rpartition("@")
    return bool(slashes and at and ":" in login) or "password=" in where.partition("?")[2].casefold()


def _quoted(value: str) -> str:
    return value.replace("%", "%25").replace("&", "%26").replace("#", "%23")


def _unquoted(value: str) -> str:
    return value.replace("%23", "#").replace("%26", "&").replace("%25", "%")
