"""What a worker answers to its agent besides the lease: checkpoints, progress, gates by name, reports, news from outside."""

import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from fencepost.model.budget import measured_usd
from fencepost.model.errors import InDoubt, Invalid, LeaseLost, RunDiverged, StoreUnavailable
from fencepost.model.lease import Lease
from fencepost.model.run import Reason
from fencepost.model.transcript import NUMBER_MAX, SUMMARY_MAX
from fencepost.service.answers import CHECKPOINT_MAX, LEDGER_VERBS, LOST, TOO_LONG, TOOL_VERBS, SocketAnswers
from fencepost.service.end_record import Told
from fencepost.service.run_socket import Answer, Handler

if TYPE_CHECKING:
    from fencepost.stores.runs import SqlRuns

LOCAL = ("check", "gate", "gate_named", "progress", "checkpoint_get", "report")  # need nothing but the lease


class RunAnswers:
    """The verbs of the run socket for a scheduled run."""

    def __init__(
        self,
        answers: SocketAnswers,
        store: "SqlRuns | None",
        lease: Lease,
        gates: Mapping[str, str],
        checkpoint: str | None,
    ) -> None:
        """`gates` are the agent's, each by the name that its definition uses, with the target that was raised.

        `checkpoint` is what an earlier attempt left. A guard has no store: it answers `LOCAL` verbs alone.
        """
        self._answers = answers.handlers()
        self._gates = gates
        self._store = store
        self._lease = lease
        self._told = Told()
        self.progressed = 0
        self.checkpoint = checkpoint

    def handlers(self) -> dict[str, Handler]:
        """Return who answers which verb."""
        return {
            **self._answers,
            "gate": self._declared,
            "gate_named": self._gate_named,
            "progress": self._progress,
            "checkpoint_get": self._checkpoint_get,
            "checkpoint_set": self._checkpoint_set,
            "report": self._report,
            "completion": self._completion,
            "refused": self._refused,
            **dict.fromkeys((*LEDGER_VERBS, *TOOL_VERBS), self._asked),
        }

    def told(self) -> Told:
        """Return what the agent has reported about itself."""
        return self._told

    def _declared(self, request: Answer) -> Answer:
        """Answer whether the agent has named this target; if not, say where it is to be named."""
        answer = self._answers["gate"](request)
        if answer.get("code") != "undeclared":
            return answer
        message = f"this agent did not declare {request.get('gate')}; describe it as [gates.NAME], and add NAME to the agent's gates."
        return {**answer, "message": message}

    def _gate_named(self, request: Answer) -> Answer:
        """Answer where a gate of the agent leads, spelled as it was raised."""
        answer = self._answers["check"](request)
        name = str(request.get("name", ""))
        if not answer["ok"] or name in self._gates:
            return {**answer, "target": self._gates.get(name)}
        known = ", ".join(self._gates) or "none"
        message = f"this agent has no gate {name!r}; its gates are: {known}. Add it to the agent's gates."
        return {"ok": False, "code": "undeclared", "message": message}

    def _refused(self, request: Answer) -> Answer:
        """Remember that a gate refused a write."""
        answer = self._answers["refused"](request)
        self.heard("refused", answer)
        return answer

    def _asked(self, request: Answer) -> Answer:
        """Answer about the ledger, and remember what it refused."""
        verb = str(request["verb"])
        answer = self._answers[verb](request)
        self.heard(verb, answer)
        return answer

    def heard(self, verb: str, answer: Answer) -> None:
        """Remember what a gate or the ledger refused last, until the ledger grants something."""
        if verb == "refused":
            self._told = self._told._replace(refused=Reason.FENCE_REFUSED)
        if verb not in (*LEDGER_VERBS, *TOOL_VERBS):
            return
        doubted = answer.get("verdict") == InDoubt.code
        diverged = answer.get("code") == RunDiverged.code
        refused = Reason.IN_DOUBT if doubted else Reason.DIVERGED if diverged else None
        if refused or answer["ok"]:
            self._told = self._told._replace(refused=refused)

    def _progress(self, request: Answer) -> Answer:
        """Count a sign of work."""
        answer = self._answers["check"](request)
        self.progressed += bool(answer["ok"])
        return answer

    def _checkpoint_get(self, request: Answer) -> Answer:
        answer = self._answers["check"](request)
        return {"ok": True, "content": self.checkpoint} if answer["ok"] else answer

    def _checkpoint_set(self, request: Answer) -> Answer:
        """Keep what the agent wants back when it is resumed; only while it holds its lease."""
        answer = self._answers["check"](request)
        content = str(request.get("content", ""))
        if not answer["ok"]:
            return answer
        if len(content.encode()) > CHECKPOINT_MAX:
            return TOO_LONG
        assert self._store is not None, "a guard relays this"
        try:
            self._store.put_checkpoint(self._lease, content)
        except LeaseLost:
            return LOST
        except StoreUnavailable as error:
            return {"ok": False, "code": error.code, "message": str(error)}
        self.checkpoint = content
        return {"ok": True}

    def _report(self, request: Answer) -> Answer:
        """Take note of what the agent says about its work; the last word stands."""
        answer = self._answers["check"](request)
        if not answer["ok"]:
            return answer
        try:
            self._told = report_of(request, before=self._told)
        except Invalid as error:
            return {"ok": False, "code": error.code, "message": str(error)}
        return {"ok": True}

    def _completion(self, request: Answer) -> Answer:
        """Tell what was heard from outside about this run; an end counts whichever attempt it was for."""
        answer = self._answers["check"](request)
        if not answer["ok"]:
            return answer
        assert self._store is not None, "a guard relays this"
        try:
            heard = self._store.completion(self._lease.run_id)
        except StoreUnavailable as error:
            return {"ok": False, "code": error.code, "message": str(error)}
        if heard is None or (heard.state == "running" and heard.fence != self._lease.fence):
            return {"ok": True, "state": None}
        return {"ok": True, "state": heard.state, "content": heard.content, "beats": heard.beats}


def report_of(request: Answer, *, before: Told) -> Told:
    """Read a report: summary, cost_usd, turns, usage, each if it is there; or raise Invalid."""
    summary, cost, turns, usage = (request.get(name) for name in ("summary", "cost_usd", "turns", "usage"))
    return before._replace(
        summary=before.summary if summary is None else str(summary)[:SUMMARY_MAX],
        cost_micro=before.cost_micro if cost is None else measured_usd(Decimal(_figure("cost_usd", cost))),
        turns=before.turns if turns is None else int(Decimal(_figure("turns", turns))),
        usage=before.usage if usage is None else _usage(usage),
    )


def _figure(name: str, value: object) -> str:
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = Decimal(str(value))
        except InvalidOperation:
            number = Decimal("NaN")
        if number.is_finite() and 0 <= number <= NUMBER_MAX:
            return str(value)
    raise Invalid(f"{name} is a number that is not negative.")


def _usage(value: object) -> str:
    """Read llm_tokens by kind; from a command line they come as text."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Invalid('usage is an object of figures, such as {"input": 1200, "output": 80}.')
    return json.dumps({str(name): int(Decimal(_figure(f"usage.{name}", one))) for name, one in found.items()})
