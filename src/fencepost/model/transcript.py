"""What an agent's own output tells: its session, signs of work, open tool calls, the end, and what it cost.

The rules say where each fact stands, so that one reader understands every agent that prints JSON or text. Nothing
in here believes an exit code: an agent that says that it failed has failed, and one that says nothing has not succeeded.
"""

import json
import math
import re
from decimal import Decimal
from typing import Any

from fencepost.model.budget import MICRO, MicroUsd, measured_usd
from fencepost.model.output_rules import Heard, OutputRules, Rule
from fencepost.model.usage_figures import NOTHING_YET, Figure, SoFar
from fencepost.model.version import Version, version_in

TEXT_MAX = 4096  # characters of a text line that patterns look at
SUMMARY_MAX = 2000
JSON_MAX = 8_000_000
CALLS_MAX = 1000
NUMBER_MAX = 10**15
ROUNDED = 9  # digits of a cost after the point: beyond them are traces of binary arithmetic


class Transcript:
    """Reads an agent's output line by line. Unknown events, torn lines and nonsense are passed over."""

    def __init__(self, rules: OutputRules, *, resumes: str | None = None, so_far: SoFar = NOTHING_YET) -> None:
        self._rules = rules
        self._resumes = resumes  # the session that was asked for
        self._whole: list[bytes] = []
        self._whole_size = 0
        self._failure: str | None = None
        self._until = ""  # what alone unsays the failure, if not every progress does
        self._success = False
        self._piece: tuple[Rule, str | None] | None = None  # what the last piece of the summary belongs to
        self.version: Version | None = None
        self.session: str | None = None
        self.work = 0  # signs of work so far
        self.open_calls: dict[str, None] = {}  # in the order in which they were opened
        self.over_budget = False
        self.ambiguous = False
        self.misconfigured = False  # it failed, and would fail again
        self.lost_session = False
        self._summary = ""
        self.complaint = ""  # what it tries to get over by itself, and has not got over yet
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
    def summary(self) -> str:
        """What it said last."""
        return self._summary.strip()

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

    def words(self, *, cut_off: bool) -> str:
        """Return what is worth keeping of what it said; of one that was `cut_off`, what it could not get over."""
        if self.succeeded:
            return self.summary
        failure = self._failure or ""
        complaint = f"its last complaint: {self.complaint}" if self.complaint else ""
        first, second = (complaint, failure) if cut_off else (failure, complaint)
        return first or second or self.summary

    def hear(self, line: bytes, *, aside: bool = False) -> None:
        """Take in one line of output; `aside` is what came on standard error."""
        if self._rules.format == "json" and not aside:
            self._keep(line)
            return
        event = None if aside or self._rules.format == "text" else event_in(line)
        text = line[: 4 * TEXT_MAX].decode("utf-8", "replace")[:TEXT_MAX] if event is None else ""
        if event is not None or text.strip():
            self._take_in(Heard(event, text, self.version), aside=aside)

    def hear_oversized(self) -> None:
        """Take note of a line that was too long to be read: the agent is at work."""
        self.work += 1

    def finish(self) -> None:
        """Read what could only be read as a whole."""
        if self._rules.format == "json" and self._whole:
            event = event_in(b"\n".join(self._whole))
            self._whole.clear()
            if event is not None:
                self._take_in(Heard(event, "", self.version), aside=False)

    def _keep(self, line: bytes) -> None:
        self._whole_size += len(line) + 1
        if self._whole_size <= JSON_MAX:
            self._whole.append(line)

    def _take_in(self, heard: Heard, *, aside: bool) -> None:
        rules = self._rules
        works = self._is_work(heard, aside=aside)
        self.work += works
        if not self._note_end(heard) and self._is_progress(heard):
            self._success, self._failure, self.misconfigured, self.complaint = False, None, False, ""
            self._until = ""
        if heard.fits(rules.complaint):
            self.complaint = " ".join(str(one).strip() for one in heard.values(*rules.complaint))[:SUMMARY_MAX]
        if not aside or rules.format == "text":
            self._note_session(heard)
            for one in heard.values(*rules.version):
                self.version = self.version or version_in(one)
        for call in heard.values(*rules.call_opened):
            if len(self.open_calls) < CALLS_MAX:
                self.open_calls[str(call)[:TEXT_MAX]] = None
        for call in heard.values(*rules.call_closed):
            self.open_calls.pop(str(call)[:TEXT_MAX], None)
        self._note_summary(heard, works=works)
        self._note_figures(heard)

    def _is_work(self, heard: Heard, *, aside: bool) -> bool:
        if self._rules.work:
            return heard.fits(self._rules.work)
        return not aside and (heard.event is not None or self._rules.format == "text")

    def _is_progress(self, heard: Heard) -> bool:
        """Tell whether it surely went on after all, whatever it said before.

        Any line of text may belong to the complaint itself, so that none of them means it unless a rule says so.
        """
        rules = self._rules
        if self._until:
            return re.search(self._until, heard.text) is not None
        return heard.fits(rules.progress or (rules.work if heard.event is not None else ()))

    def _note_end(self, heard: Heard) -> bool:
        """Return whether this says how it ended."""
        rules = self._rules
        self.lost_session |= heard.fits(rules.unknown_session)
        self.over_budget |= heard.fits(rules.over_budget)
        self.ambiguous |= heard.fits(rules.ambiguous)
        misconfigured = heard.fits(rules.misconfigured)
        if misconfigured or heard.fits(rules.failed):
            words = heard.words((*rules.failed, *rules.misconfigured), "it said so")
            self._failure = self._failure or words.strip()[:SUMMARY_MAX]  # the first: what follows is its consequence
            self.misconfigured |= misconfigured
            self._until = next((rule.until for rule in rules.failed if heard.fits_one(rule)), "") or self._until
            return True
        if heard.fits(rules.succeeded):
            self._success = True  # what it said of a failure stands, unless it has gone on since
            self.open_calls.clear()
            return True
        return False

    def _note_session(self, heard: Heard) -> None:
        for session in heard.values(*self._rules.session):
            if not isinstance(session, str) or not session or len(session) > TEXT_MAX or self.session is not None:
                continue
            self.session = session
            if self._resumes is not None and session != self._resumes:
                self.lost_session = True  # it was asked to go on, and began another conversation

    def _note_summary(self, heard: Heard, *, works: bool) -> None:
        """Keep what it said last; pieces without other work between them are one text."""
        piece = None if works else self._piece
        for rule in self._rules.summary:
            for words in (one for one in heard.values(rule) if isinstance(one, str) and one):
                whole, key = "", (rule, heard.key(rule)) if rule.join else None
                if key is not None and key in (piece, self._piece):
                    whole = self._summary
                if (whole + words).strip():
                    self._summary = (whole + words)[:SUMMARY_MAX]
                    piece = key
        self._piece = piece

    def _note_figures(self, heard: Heard) -> None:
        rules = self._rules
        _hear(self._cost, rules.cost_usd, heard)
        _hear(self._turns, rules.turns, heard)
        for name, where in rules.usage.items():
            _hear(self._usage[name], where, heard)


def event_in(line: bytes) -> Any:  # noqa: ANN401  # JSON of any shape
    """Read one JSON object; None for anything else, which is no event."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def _hear(figure: Figure, rules: tuple[Rule, ...], heard: Heard) -> None:
    """Take in what is said about a figure; a rule that takes nothing counts events."""
    for rule in rules:
        if not heard.fits_one(rule):
            continue
        if not rule.take and not rule.match:
            figure.count()
            return
        amounts = [amount for one in heard.values(rule) if (amount := _amount(one)) is not None]
        if amounts:
            _take(figure, rule, sum(amounts), heard)
            return


def _take(figure: Figure, rule: Rule, amount: float, heard: Heard) -> None:
    if rule.session:
        figure.take_of_session(amount)
    elif rule.add:
        figure.add(amount, heard.key(rule))
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
