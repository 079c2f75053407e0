"""What a worker answers to its agent besides the lease: checkpoints, progress, and the gates by their names."""

from collections.abc import Mapping

from fencepost.model.errors import LeaseLost, StoreUnavailable
from fencepost.model.lease import Lease
from fencepost.ports.runs import RunStore
from fencepost.service.answers import LOST, Answers
from fencepost.service.run_socket import Answer, Handler

CHECKPOINT_MAX = 65_536


class RunAnswers:
    """The verbs of the run socket for a scheduled run."""

    def __init__(self, answers: Answers, store: RunStore, lease: Lease, gates: Mapping[str, str]) -> None:
        """`gates` are the agent's, each by the name that its definition uses, with the target that was raised."""
        self._answers = answers.handlers()
        self._gates = gates
        self._store = store
        self._lease = lease
        self.progressed = 0
        self.has_checkpoint = store.checkpoint(lease.run_id) is not None

    def handlers(self) -> dict[str, Handler]:
        """Return who answers which verb."""
        return {
            **self._answers,
            "gate_named": self._gate_named,
            "progress": self._progress,
            "checkpoint_get": self._checkpoint_get,
            "checkpoint_set": self._checkpoint_set,
        }

    def _gate_named(self, request: Answer) -> Answer:
        """Answer where a gate of the agent leads, spelled as it was raised."""
        answer = self._answers["check"](request)
        name = str(request.get("name", ""))
        if not answer["ok"] or name in self._gates:
            return {**answer, "target": self._gates.get(name)}
        known = ", ".join(self._gates) or "none"
        message = f"this agent has no gate {name!r}; its gates are: {known}. Add it to the agent's gates."
        return {"ok": False, "code": "undeclared", "message": message}

    def _progress(self, request: Answer) -> Answer:
        """Count a sign of work."""
        answer = self._answers["check"](request)
        self.progressed += bool(answer["ok"])
        return answer

    def _checkpoint_get(self, request: Answer) -> Answer:
        answer = self._answers["check"](request)
        if not answer["ok"]:
            return answer
        try:
            return {"ok": True, "content": self._store.checkpoint(self._lease.run_id)}
        except StoreUnavailable as error:
            return {"ok": False, "code": error.code, "message": str(error)}

    def _checkpoint_set(self, request: Answer) -> Answer:
        """Keep what the agent wants back when it is resumed; only while it holds its lease."""
        answer = self._answers["check"](request)
        content = str(request.get("content", ""))
        if not answer["ok"]:
            return answer
        if len(content.encode()) > CHECKPOINT_MAX:
            message = f"a checkpoint has at most {CHECKPOINT_MAX} bytes; keep a path or an id instead."
            return {"ok": False, "code": "invalid", "message": message}
        try:
            self._store.put_checkpoint(self._lease, content)
        except LeaseLost:
            return LOST
        except StoreUnavailable as error:
            return {"ok": False, "code": error.code, "message": str(error)}
        self.has_checkpoint = True
        return {"ok": True}
