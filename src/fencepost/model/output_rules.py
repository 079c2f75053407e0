"""Where the facts stand in an agent's output: rules that are written as data, read and applied here.

A rule fits an event (JSON, by `when`) or a line of text (by `match`), and says which value is meant. What is made of
the facts is for `transcript` to know.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fencepost.model.errors import Invalid
from fencepost.model.json_path import find, spelled
from fencepost.model.version import Version, version_in

FORMATS = ("jsonl", "json", "text")  # one event a line; one object at the end; plain text
JOINED = ("summary",)  # facts that come in pieces

Wanted = str | tuple[str, ...]


class Rule(NamedTuple):
    """Where a fact stands: in which events, or in which lines of text, and which value it is."""

    when: tuple[tuple[str, Wanted], ...] = ()
    take: str = ""
    match: str = ""
    say: str = ""
    add: bool = False
    by: str = (
        ""  # with add: what is told again for the same value here is not added again; with join: what belongs together
    )
    session: bool = False  # the figure is of the whole session, also of what was done before it was resumed
    join: bool = False  # the text is a piece, to be put behind the pieces before it
    since: str = ""  # for agents that say that they are of this version or a later one
    until: str = ""  # a failure that stands until a line fits this pattern, whatever else is progress


@dataclass(frozen=True, slots=True)
class OutputRules:
    """How to read an agent's output."""

    format: str = "text"
    session: tuple[Rule, ...] = ()
    work: tuple[Rule, ...] = ()
    call_opened: tuple[Rule, ...] = ()
    call_closed: tuple[Rule, ...] = ()
    succeeded: tuple[Rule, ...] = ()
    failed: tuple[Rule, ...] = ()
    ambiguous: tuple[Rule, ...] = ()
    over_budget: tuple[Rule, ...] = ()
    unknown_session: tuple[Rule, ...] = ()
    summary: tuple[Rule, ...] = ()
    cost_usd: tuple[Rule, ...] = ()
    turns: tuple[Rule, ...] = ()
    usage: dict[str, tuple[Rule, ...]] = field(default_factory=dict)
    progress: tuple[Rule, ...] = ()
    misconfigured: tuple[Rule, ...] = ()
    complaint: tuple[Rule, ...] = ()
    version: tuple[Rule, ...] = ()

    @property
    def tells_success(self) -> bool:
        """Whether an agent that succeeded says so, so that silence means that it did not."""
        return bool(self.succeeded)


@dataclass(frozen=True, slots=True)
class Heard:
    """One thing that an agent said: an event, or a line of text; and which version says it, as far as it has told."""

    event: Any = None  # JSON of any shape
    text: str = ""
    version: Version | None = None

    def fits(self, rules: tuple[Rule, ...]) -> bool:
        """Tell whether one of the rules is about this."""
        return any(self.fits_one(rule) for rule in rules)

    def fits_one(self, rule: Rule) -> bool:
        """Tell whether a rule is about this."""
        if rule.since and not self._is_since(rule.since):
            return False
        if rule.match:
            return self.event is None and re.search(rule.match, self.text) is not None
        return self.event is not None and all(_is(find(self.event, path), wanted) for path, wanted in rule.when)

    def values(self, *rules: Rule) -> Iterator[Any]:
        """Yield what the rules find, in their order."""
        for rule in rules:
            if not self.fits_one(rule):
                continue
            if rule.say:
                yield rule.say
            elif rule.match:
                found = re.search(rule.match, self.text)
                assert found is not None, "it fits"
                yield found[1] if found.re.groups else found[0]
            elif rule.take:
                yield from find(self.event, rule.take)

    def words(self, rules: tuple[Rule, ...], default: str) -> str:
        """Return the first text that the rules find."""
        return next((str(one) for one in self.values(*rules) if one), default)

    def key(self, rule: Rule) -> str | None:
        """Return what a figure or a piece of text belongs to, where the rule asks for it."""
        return next((str(one) for one in find(self.event, rule.by)), None) if rule.by else None

    def _is_since(self, version: str) -> bool:
        asked = version_in(version)
        return self.version is not None and asked is not None and self.version >= asked


def _is(found: list[Any], wanted: Wanted) -> bool:
    if isinstance(wanted, tuple):
        return any(_is(found, one) for one in wanted)
    if wanted == "null" and not found:
        return True
    words = [word for one in found if (word := spelled(one)) is not None]
    if wanted.startswith("*") and wanted.endswith("*") and len(wanted) > 1:
        return any(wanted[1:-1] in word for word in words)
    if wanted.endswith("*"):
        return any(word.startswith(wanted[:-1]) for word in words)
    return wanted in words


def rules_from(table: Any, *, where: str = "output") -> OutputRules:  # noqa: ANN401  # what a user wrote
    """Read rules as they are written, or raise Invalid with the place and what to do."""
    if not isinstance(table, dict):
        raise Invalid(f"{where}: expected a table.")
    lists = [name for name in OutputRules.__dataclass_fields__ if name not in ("format", "usage")]
    if unknown := sorted(table.keys() - {"format", "usage", *lists}):
        raise Invalid(f"{where}: there is no {unknown[0]}; there are format, usage, {', '.join(lists)}.")
    form = table.get("format", "text")
    if form not in FORMATS:
        raise Invalid(f"{where}.format: {form!r} is none of {', '.join(FORMATS)}.")
    usage = table.get("usage", {})
    if not isinstance(usage, dict):
        raise Invalid(f"{where}.usage: expected a table, such as {{ input = [{{ take = 'usage.input' }}] }}.")
    return OutputRules(
        format=form,
        usage={str(name): _rules(one, f"{where}.usage.{name}") for name, one in usage.items()},
        **{name: _rules(table.get(name, []), f"{where}.{name}", fact=name) for name in lists},
    )


def _rules(rows: Any, where: str, *, fact: str = "usage") -> tuple[Rule, ...]:  # noqa: ANN401  # likewise
    if not isinstance(rows, list):
        raise Invalid(f'{where}: expected a list of rules, such as [{{ when = {{ type = "result" }} }}].')
    found = tuple(_rule(row, f"{where}.{place}") for place, row in enumerate(rows))
    if fact != "failed" and any(rule.until for rule in found):
        raise Invalid(f"{where}: until is for failed, which may stand for longer; remove it.")
    if fact not in JOINED and any(rule.join for rule in found):
        raise Invalid(f"{where}: join is for {' and '.join(JOINED)}, whose text may come in pieces; remove it.")
    return found


def _rule(row: Any, where: str) -> Rule:  # noqa: ANN401  # likewise
    if not isinstance(row, dict):
        raise Invalid(f'{where}: expected a rule, such as {{ when = {{ type = "result" }}, take = "result" }}.')
    if unknown := sorted(row.keys() - set(Rule._fields)):
        raise Invalid(f"{where}: there is no {unknown[0]}; a rule has {', '.join(Rule._fields)}.")
    when = row.get("when", {})
    if not isinstance(when, dict):
        raise Invalid(f'{where}.when: expected a table, such as {{ type = "result" }}.')
    texts: dict[str, Any] = {name: str(row.get(name, "")) for name in ("take", "match", "say", "by", "since", "until")}
    flags: dict[str, Any] = {name: row.get(name, False) is True for name in ("add", "session", "join")}
    wanted = tuple((str(path), _wanted(value, f"{where}.when.{path}")) for path, value in when.items())
    rule = Rule(when=wanted, **texts, **flags)
    _check(rule, where)
    return rule


def _wanted(value: Any, where: str) -> Wanted:  # noqa: ANN401  # likewise
    words = tuple(spelled(one) for one in value) if isinstance(value, list) else (spelled(value),)
    known = tuple(word for word in words if word is not None)
    if len(known) != len(words):
        raise Invalid(f"{where}: expected a text, a number, true, false, or a list of those.")
    return known if isinstance(value, list) else known[0]


def _check(rule: Rule, where: str) -> None:
    if rule.match and (rule.when or rule.take):
        raise Invalid(f"{where}: match is for lines of text, when and take are for JSON; keep one of the two.")
    if rule.by and not (rule.add or rule.join):
        raise Invalid(f"{where}: by is for what is added or joined; write add = true or join = true too.")
    if rule.since and version_in(rule.since) is None:
        raise Invalid(f"{where}.since: {rule.since!r} is no version; write it as the agent does, such as 2.1.300.")
    try:
        for path in (*(path for path, _ in rule.when), *filter(None, (rule.take, rule.by))):
            find({}, path)
        re.compile(rule.match)
        re.compile(rule.until)
    except (Invalid, re.error) as error:
        raise Invalid(f"{where}: {error}") from None
