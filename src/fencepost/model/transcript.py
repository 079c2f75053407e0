"""What an agent's own output tells: its session, signs of work, open tool calls, the end, and what it cost.

The rules say where each fact stands, so that one reader understands every agent that prints JSON or text. Nothing
in here believes an exit code: an agent that says that it failed has failed, and one that says nothing has not succeeded.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from fencepost.model.budget import MICRO, MicroUsd, measured_usd
from fencepost.model.errors import Invalid
from fencepost.model.figures import NOTHING_YET, Figure, SoFar
from fencepost.model.json_path import find, spelled

TEXT_MAX = 4096  # characters of a text line that patterns look at
SUMMARY_MAX = 2000
JSON_MAX = 8_000_000
CALLS_MAX = 1000
NUMBER_MAX = 10**15
ROUNDED = 9  # digits of a cost after the point: beyond them are traces of binary arithmetic

Wanted = str | tuple[str, ...]


class Rule(NamedTuple):
    """Where a fact stands: in which events, or in which lines of text, and which value it is."""

    when: tuple[tuple[str, Wanted], ...] = ()
    take: str = ""
    match: str = ""
    say: str = ""
    add: bool = False
    by: str = ""  # with add: what is told again for the same value here is not added again
    session: bool = False  # the figure is of the whole session, also of what was done before it was resumed


@dataclass(frozen=True, slots=True)
class OutputRules:
    """How to read an agent's output."""

    format: str = "text"  # jsonl: one event a line; json: one object at the end; text
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

    @property
    def tells_success(self) -> bool:
        """Whether an agent that succeeded says so, so that silence means that it did not."""
        return bool(self.succeeded)


class Transcript:
    """Reads an agent's output line by line. Unknown events, torn lines and nonsense are passed over."""

    def __init__(self, rules: OutputRules, *, resumes: str | None = None, so_far: SoFar = NOTHING_YET) -> None:
        self._rules = rules
        self._resumes = resumes  # the session that was asked for
        self._whole: list[bytes] = []
        self._whole_size = 0
        self._failure: str | None = None
        self._success = False
        self.session: str | None = None
        self.work = 0  # signs of work so far
        self.open_calls: dict[str, None] = {}  # in the order in which they were opened
        self.over_budget = False
        self.ambiguous = False
        self.lost_session = False
        self.summary = ""
        self._cost = Figure(so_far.cost_micro / MICRO)
        self._turns = Figure()
        counted = dict(so_far.usage)
        self._usage = {name: Figure(counted.get(name, 0)) for name in rules.usage}

    @property
    def cost(self) -> MicroUsd | None:
        """What this attempt has cost, as far as that was told."""
        return None if self._cost.value is None else measured_usd(Decimal(repr(round(self._cost.value, ROUNDED))))

    @property
    def turns(self) -> int | None:
        """How many turns it took."""
        return None if self._turns.value is None else int(self._turns.value)

    @property
    def usage(self) -> dict[str, int]:
        """The llm_tokens of this attempt, by kind, as far as they were told."""
        return {name: int(one.value) for name, one in self._usage.items() if one.value is not None}

    @property
    def failure(self) -> str | None:
        """What went wrong by the agent's own words, if it said so."""
        return self._failure

    @property
    def succeeded(self) -> bool:
        """Whether the agent said that it is done, and nothing to the contrary."""
        return self._success and self._failure is None

    @property
    def is_over(self) -> bool:
        """Whether the agent has said how it ended and has not gone on since."""
        return self._success or self._failure is not None

    def hear(self, line: bytes, *, aside: bool = False) -> None:
        """Take in one line of output; `aside` is what came on standard error."""
        if self._rules.format == "json" and not aside:
            self._keep(line)
            return
        event = None if aside or self._rules.format == "text" else _event(line)
        text = line[: 4 * TEXT_MAX].decode("utf-8", "replace")[:TEXT_MAX] if event is None else ""
        if event is not None or text.strip():
            self._take_in(event, text, aside=aside)

    def hear_oversized(self) -> None:
        """Take note of a line that was too long to be read: somebody is at work there."""
        self.work += 1

    def finish(self) -> None:
        """Read what could only be read as a whole."""
        if self._rules.format == "json" and self._whole:
            event = _event(b"\n".join(self._whole))
            self._whole.clear()
            if event is not None:
                self._take_in(event, "", aside=False)

    def _keep(self, line: bytes) -> None:
        self._whole_size += len(line) + 1
        if self._whole_size <= JSON_MAX:
            self._whole.append(line)

    def _take_in(self, event: Any, text: str, *, aside: bool) -> None:  # noqa: ANN401  # JSON of any shape
        rules = self._rules
        works = self._is_work(event, text, aside=aside)
        over = self._note_end(event, text)
        if works:
            self.work += 1
            if not over:
                self._success, self._failure = False, None  # it went on after all
        if not aside or rules.format == "text":
            self._note_session(event, text)
        for call in _values(rules.call_opened, event, text):
            if len(self.open_calls) < CALLS_MAX:
                self.open_calls[str(call)[:TEXT_MAX]] = None
        for call in _values(rules.call_closed, event, text):
            self.open_calls.pop(str(call)[:TEXT_MAX], None)
        self._note_figures(event, text)

    def _is_work(self, event: Any, text: str, *, aside: bool) -> bool:  # noqa: ANN401  # likewise
        if self._rules.work:
            return _any(self._rules.work, event, text)
        return not aside and (event is not None or self._rules.format == "text")

    def _note_end(self, event: Any, text: str) -> bool:  # noqa: ANN401  # likewise
        """Return whether this says how it ended."""
        rules = self._rules
        if _any(rules.unknown_session, event, text):
            self.lost_session = True
        if _any(rules.over_budget, event, text):
            self.over_budget = True
        if _any(rules.ambiguous, event, text):
            self.ambiguous = True
        if _any(rules.failed, event, text):
            words = (str(one) for one in _values(rules.failed, event, text) if one)
            self._failure = next(words, "it said so")[:SUMMARY_MAX]
            return True
        if _any(rules.succeeded, event, text):
            self._success = True  # what it said of a failure stands, unless it has gone on since
            self.open_calls.clear()
            return True
        return False

    def _note_session(self, event: Any, text: str) -> None:  # noqa: ANN401  # likewise
        for session in _values(self._rules.session, event, text):
            if not isinstance(session, str) or not session or len(session) > TEXT_MAX or self.session is not None:
                continue
            self.session = session
            if self._resumes is not None and session != self._resumes:
                self.lost_session = True  # it was asked to go on, and began another conversation

    def _note_figures(self, event: Any, text: str) -> None:  # noqa: ANN401  # likewise
        rules = self._rules
        for words in _values(rules.summary, event, text):
            if isinstance(words, str) and words.strip():
                self.summary = words.strip()[:SUMMARY_MAX]
        _hear(self._cost, rules.cost_usd, event, text)
        _hear(self._turns, rules.turns, event, text)
        for name, where in rules.usage.items():
            _hear(self._usage[name], where, event, text)


def _event(line: bytes) -> Any:  # noqa: ANN401  # likewise
    """Read one JSON object; None for anything else, which is no event."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def _any(rules: tuple[Rule, ...], event: Any, text: str) -> bool:  # noqa: ANN401  # likewise
    return any(_applies(rule, event, text) for rule in rules)


def _applies(rule: Rule, event: Any, text: str) -> bool:  # noqa: ANN401  # likewise
    if rule.match:
        return event is None and re.search(rule.match, text) is not None
    return event is not None and all(_is(find(event, path), wanted) for path, wanted in rule.when)


def _is(found: list[Any], wanted: Wanted) -> bool:
    if isinstance(wanted, tuple):
        return any(_is(found, one) for one in wanted)
    if wanted == "null" and not found:
        return True
    words = [word for one in found if (word := spelled(one)) is not None]
    if wanted.endswith("*"):
        return any(word.startswith(wanted[:-1]) for word in words)
    return wanted in words


def _values(rules: tuple[Rule, ...], event: Any, text: str) -> Iterator[Any]:  # noqa: ANN401  # likewise
    """Yield what the rules find, in their order."""
    for rule in rules:
        if not _applies(rule, event, text):
            continue
        if rule.say:
            yield rule.say
        elif rule.match:
            found = re.search(rule.match, text)
            assert found is not None, "it applies"
            yield found[1] if found.re.groups else found[0]
        elif rule.take:
            yield from find(event, rule.take)


def _hear(figure: Figure, rules: tuple[Rule, ...], event: Any, text: str) -> None:  # noqa: ANN401  # likewise
    """Take in what an event says about a figure; a rule that takes nothing counts events."""
    for rule in rules:
        if not _applies(rule, event, text):
            continue
        if not rule.take and not rule.match:
            figure.count()
            return
        amounts = [amount for one in _values((rule,), event, text) if (amount := _amount(one)) is not None]
        if amounts:
            _take(figure, rule, sum(amounts), event)
            return


def _take(figure: Figure, rule: Rule, amount: float, event: Any) -> None:  # noqa: ANN401  # likewise
    if rule.session:
        figure.take_of_session(amount)
    elif rule.add:
        figure.add(amount, next((str(one) for one in find(event, rule.by)), None) if rule.by else None)
    else:
        figure.take(amount)


def _amount(value: object) -> float | None:
    """Read a figure; what is negative, endless or absurd is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and 0 <= number <= NUMBER_MAX else None


def rules_from(table: Any, *, where: str = "output") -> OutputRules:  # noqa: ANN401  # what a user wrote
    """Read rules as they are written, or raise Invalid with the place and what to do."""
    if not isinstance(table, dict):
        raise Invalid(f"{where}: expected a table.")
    lists = [name for name in OutputRules.__dataclass_fields__ if name not in ("format", "usage")]
    if unknown := sorted(table.keys() - {"format", "usage", *lists}):
        raise Invalid(f"{where}: there is no {unknown[0]}; there are format, usage, {', '.join(lists)}.")
    form = table.get("format", "text")
    if form not in ("jsonl", "json", "text"):
        raise Invalid(f"{where}.format: {form!r} is none of jsonl, json, text.")
    usage = table.get("usage", {})
    if not isinstance(usage, dict):
        raise Invalid(f"{where}.usage: expected a table, such as {{ input = [{{ take = 'usage.input' }}] }}.")
    return OutputRules(
        format=form,
        usage={str(name): _rules(one, f"{where}.usage.{name}") for name, one in usage.items()},
        **{name: _rules(table.get(name, []), f"{where}.{name}") for name in lists},
    )


def _rules(rows: Any, where: str) -> tuple[Rule, ...]:  # noqa: ANN401  # likewise
    if not isinstance(rows, list):
        raise Invalid(f'{where}: expected a list of rules, such as [{{ when = {{ type = "result" }} }}].')
    return tuple(_rule(row, f"{where}.{place}") for place, row in enumerate(rows))


def _rule(row: Any, where: str) -> Rule:  # noqa: ANN401  # likewise
    if not isinstance(row, dict):
        raise Invalid(f'{where}: expected a rule, such as {{ when = {{ type = "result" }}, take = "result" }}.')
    if unknown := sorted(row.keys() - set(Rule._fields)):
        raise Invalid(f"{where}: there is no {unknown[0]}; a rule has {', '.join(Rule._fields)}.")
    when = row.get("when", {})
    if not isinstance(when, dict):
        raise Invalid(f'{where}.when: expected a table, such as {{ type = "result" }}.')
    rule = Rule(
        when=tuple((str(path), _wanted(value, f"{where}.when.{path}")) for path, value in when.items()),
        take=str(row.get("take", "")),
        match=str(row.get("match", "")),
        say=str(row.get("say", "")),
        add=row.get("add", False) is True,
        by=str(row.get("by", "")),
        session=row.get("session", False) is True,
    )
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
    if rule.by and not rule.add:
        raise Invalid(f"{where}: by is for figures that are added; write add = true too.")
    try:
        for path in (*(path for path, _ in rule.when), *filter(None, (rule.take, rule.by))):
            find({}, path)
        re.compile(rule.match)
    except (Invalid, re.error) as error:
        raise Invalid(f"{where}: {error}") from None
