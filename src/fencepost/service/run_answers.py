"""What a worker answers to its agent besides the lease: checkpoints and progress."""

from fencepost.model.errors import LeaseLost, StoreUnavailable
from fencepost.model.lease import Lease
from fencepost.ports.runs import RunStore
from fencepost.service.answers import LOST, Answers
from fencepost.service.run_socket import Answer, Handler

CHECKPOINT_MAX = 65_536


class RunAnswers:
    """The verbs of the run socket for a scheduled run."""

    def __init__(self, answers: Answers, store: RunStore, lease: Lease) -> None:
        self._answers = answers.handlers()
        self._store = store
        self._lease = lease
        self.progressed = 0
        self.has_checkpoint = store.checkpoint(lease.run_id) is not None

    def handlers(self) -> dict[str, Handler]:
        """Return who answers which verb."""
        return {
            **self._answers,
            "progress": self._progress,
            "checkpoint_get": self._checkpoint_get,
            "checkpoint_set": self._checkpoint_set,
        }

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
