"""What the supervisor answers to its agent on the run socket."""

from __future__ import annotations

from fencepost.model.fast_typing import TYPE_CHECKING, Callable

if TYPE_CHECKING:
    from fencepost.model.lease import Lease
    from fencepost.ports.store import LeaseStore
    from fencepost.service.custody import Term
    from fencepost.service.run_socket import Answer, Handler
    from fencepost.service.tool_calls import State, ToolCalls

LEDGER_VERBS = (
    "ledger_begin",
    "ledger_complete",
    "ledger_doubt",
    "ledger_release",
    "ledger_take_over",
    "ledger_settle",
    "ledger_unreplayed",
)
TOOL_VERBS = ("tool_begin", "tool_complete", "tool_doubt", "tool_release")
CHECKPOINT_MAX = 65_536
TOO_LONG: Answer = {
    "ok": False,
    "code": "invalid",
    "message": f"a checkpoint has at most {CHECKPOINT_MAX} bytes; keep a path or an id instead.",
}
LOST: Answer = {"ok": False, "code": "lease_lost", "message": "the lease of this run is lost: stop."}


class SocketAnswers:
    """The verbs of the run socket, for one lease."""

    __slots__ = ("_checkpoint", "_is_ending", "_lease", "_store", "_term", "_tool_calls", "_tool_state")

    def __init__(
        self,
        lease: Lease,
        term: Term,
        is_ending: Callable[[], bool],
        store: LeaseStore | None,
        tool_state: State | None = None,
    ) -> None:
        """Answer about a lease; a guard has no store, and relays what takes one."""
        self._lease = lease
        self._term = term
        self._is_ending = is_ending
        self._store = store
        self._tool_calls: ToolCalls | None = None
        self._tool_state = {} if tool_state is None else tool_state
        self._checkpoint: str | None = None

    def handlers(self) -> dict[str, Handler]:
        """Return who answers which verb."""
        return {
            "check": self._check,
            "gate": self._declared,
            "refused": self._refused,
            "progress": self._check,
            "checkpoint_get": self._checkpoint_get,
            "checkpoint_set": self._checkpoint_set,
            **dict.fromkeys(LEDGER_VERBS, self._of_ledger),
            **dict.fromkeys(TOOL_VERBS, self._of_tools),
        }

    def _check(self, _: Answer) -> Answer:
        """Answer whether the agent may still act."""
        left = self._term.left_seconds
        if not left or self._is_ending():
            return LOST
        return {"ok": True, "fence": self._lease.fence, "resources": self._lease.resources, "trusted_seconds": left}

    def _declared(self, request: Answer) -> Answer:
        """Answer whether the run has named this target, so that its fence was raised there before the start."""
        from fencepost.model.gate import covers

        answer = self._check(request)
        target = str(request.get("gate", ""))
        if not answer["ok"]:
            self._refused(request)
            return answer
        if any(covers(gate, target) for gate in self._lease.gates):
            return answer
        message = f"this run did not declare {target}; add --gate {target} to fencepost exec."
        return {"ok": False, "code": "undeclared", "message": message}

    def _refused(self, _: Answer) -> Answer:
        """Have a write counted that was refused, here or at its target; also when the lease is lost, as it mostly is."""
        from fencepost.model.errors import StoreUnavailable

        if self._store is None:
            return {"ok": True}  # the gate at the target counts too
        try:
            self._store.count_refused(self._lease.tenant)
        except StoreUnavailable as error:
            return {"ok": False, "code": error.code, "message": str(error)}
        return {"ok": True}

    def _checkpoint_get(self, request: Answer) -> Answer:
        """Answer what was kept; a guarded command is never resumed, so that is for its own time only."""
        answer = self._check(request)
        return {"ok": True, "content": self._checkpoint} if answer["ok"] else answer

    def _checkpoint_set(self, request: Answer) -> Answer:
        answer = self._check(request)
        content = str(request.get("content", ""))
        if not answer["ok"]:
            return answer
        if len(content.encode()) > CHECKPOINT_MAX:
            return TOO_LONG
        self._checkpoint = content
        return {"ok": True}

    def _of_ledger(self, request: Answer) -> Answer:
        """Answer about effects that are to happen once; most runs never ask."""
        from fencepost.service.ledger_answers import answer_about_ledger

        assert self._store is not None, "a guard relays this"
        answer = self._check(request)
        return answer_about_ledger(request, self._lease, self._store.ledger()) if answer["ok"] else answer

    def _of_tools(self, request: Answer) -> Answer:
        """Answer a gateway about the calls that pass it; few runs have one."""
        from fencepost.service.tool_calls import ToolCalls

        answer = self._check(request)
        if not answer["ok"]:
            return answer
        assert self._store is not None, "a guard relays this"
        if self._tool_calls is None:
            self._tool_calls = ToolCalls(self._lease, self._store.ledger, self._tool_state)
        return self._tool_calls.answer(request)
