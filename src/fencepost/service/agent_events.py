"""Listens to an agent whose output we understand: session, work, open calls, the end, and what it cost.

Standard error has a way of its own here, so that a warning never tears an event apart; both go to the same log.
"""

from collections.abc import Callable

from fencepost.model.agent_verdict import judge
from fencepost.model.outcome import Outcome
from fencepost.model.transcript import Transcript
from fencepost.model.usage import usage_text
from fencepost.model.usage_figures import NOTHING_YET, SoFar
from fencepost.ports.engine import Manner
from fencepost.service.end_reasons import DONE, LOST_SESSION, OVER_BUDGET
from fencepost.service.end_record import Told
from fencepost.service.output import Output

LINE_MAX = 8_000_000


class LineCutter:
    """Cuts what is read into lines; one that is too long is passed over, at no cost of memory."""

    def __init__(self, hear: Callable[[bytes], None], too_long: Callable[[], None]) -> None:
        self._hear = hear
        self._too_long = too_long
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> None:
        """Take in what was read."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._add(line)
            self.flush()
        self._add(rest)

    def flush(self) -> None:
        """Let a line be heard that is at its end."""
        if self._size > LINE_MAX:
            self._too_long()
        elif self._size:
            self._hear(b"".join(self._parts))
        self._parts, self._size = [], 0

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= LINE_MAX:
            self._parts.append(part)
        else:
            self._parts.clear()


class Listening:
    """One attempt's agent, heard."""

    def __init__(
        self,
        manner: Manner,
        session: str | None,
        *,
        output: Output,
        errors: Output,
        now_ns: Callable[[], int],
        budget_micro: int | None,
        so_far: SoFar = NOTHING_YET,
    ) -> None:
        self._manner = manner
        counted = so_far if manner.resumes else NOTHING_YET
        self._transcript = Transcript(manner.output, resumes=manner.resumes, so_far=counted)
        self._given = self._noted = session
        self._now_ns = now_ns
        self._budget_micro = budget_micro
        self._over_ns: int | None = None  # since when it has said how it ended
        self._was_done = False
        self._out = LineCutter(self._transcript.hear, self._transcript.hear_oversized)
        self._aside = LineCutter(lambda line: self._transcript.hear(line, aside=True), lambda: None)
        output.listener = self._out.feed
        errors.listener = self._aside.feed

    @property
    def work(self) -> int:
        """How many signs of work there were."""
        return self._transcript.work

    @property
    def open_calls(self) -> tuple[str, ...]:
        """The tool calls that have not come back."""
        return tuple(self._transcript.open_calls)

    @property
    def resumable(self) -> bool:
        """Whether the conversation can be taken up again; one that has not begun to work may not have been kept."""
        known = self._transcript.session or self._given
        return self._manner.can_resume and known is not None and self._transcript.work > 0

    @property
    def interrupt_seconds(self) -> float:
        """How long SIGINT may take before SIGTERM."""
        return self._manner.interrupt_seconds

    def unnoted_session(self) -> str | None:
        """Return a session that should be written down now."""
        session = self._transcript.session
        return session if session is not None and session != self._noted else None

    def noted(self, session: str) -> None:
        """Take note that it was written down."""
        self._noted = session

    def due(self) -> str | None:
        """Return why the agent must be ended now, if it must."""
        told = self._transcript
        if told.lost_session:
            return LOST_SESSION
        if self._budget_micro is not None and told.cost is not None and told.cost > self._budget_micro:
            return OVER_BUDGET
        if not told.is_over:
            self._over_ns = None
            return None
        self._over_ns = self._over_ns or self._now_ns()
        return DONE if self.left_seconds() == 0 else None

    def left_seconds(self) -> float:
        """Return for how long nothing of this needs a look."""
        if self._over_ns is None:
            return float("inf")
        return max(0.0, self._manner.result_grace_seconds - (self._now_ns() - self._over_ns) / 1e9)

    def ending(self) -> None:
        """Take note that the agent is being ended from now on."""
        self._was_done = self._transcript.succeeded

    def finish(self) -> None:
        """Take in the rest, when the output has been read to its end."""
        self._out.flush()
        self._aside.flush()
        self._transcript.finish()

    def outcome(self, exit_code: int, *, ended_by_us: bool) -> Outcome | None:
        """Return how it ended by its own words, or None where our reason for ending it stands."""
        return judge(
            self._transcript,
            exit_code,
            tells_success=self._manner.output.tells_success,
            exit_codes=dict(self._manner.exit_codes),
            ended_by_us=ended_by_us,
            was_done=self._was_done,
        )

    def told(self, *, cut_off: bool) -> Told:
        """Return what is worth keeping; an agent that was `cut_off` may not have told all of it."""
        told = self._transcript
        words = told.words(cut_off=cut_off)
        if told.lost_session:
            words = f"it could not go on with its session {self._manner.resumes}: {words or 'it began another one'}"
        return Told(
            summary=words or None,
            cost_micro=told.cost,
            turns=told.turns,
            usage=usage_text(told.usage, partial=cut_off and not told.is_over and told.work > 0),
            session=told.session,
        )
