"""What the supervisor answers about tool calls that are to happen once: it counts the calls of its attempt.

A call's key is its tool, its arguments, and which one of these it is: the first, the second. The count lives here, with
the lease, so that it is one for all gateways of the run and ends with the attempt. A restarted attempt counts from 1 and
meets what the earlier one recorded; a resumed one goes on behind it.
"""

from __future__ import annotations

from fencepost.model.effect_ledger import AMBIGUOUS, KEY_MAX
from fencepost.model.errors import StoreUnavailable
from fencepost.model.fast_typing import TYPE_CHECKING, Any, Callable
from fencepost.service.ledger_answers import ambiguous_sentence, answer_about_ledger

if TYPE_CHECKING:
    from fencepost.model.lease import Lease
    from fencepost.ports.ledger import LedgerStore
    from fencepost.service.run_socket import Answer

NAMES_MAX = 100_000  # different calls of one attempt; each costs a line of memory here
BEHIND_MAX = 10_000  # calls of earlier attempts that a resumed one counts past
SUFFIX_MAX = 8

State = dict[str, dict[str, Any]]  # name -> count; open: key -> the gateway that is at it; doubted keys


class ToolCalls:
    """The calls of one attempt."""

    def __init__(self, lease: Lease, ledger: Callable[[], LedgerStore], state: State) -> None:
        """`state` is how far the calls of each name are; who keeps it goes on where another has stopped."""
        self._lease = lease
        self._ledger = ledger
        self._state = state

    def answer(self, request: Answer) -> Answer:
        """Carry out one verb: begin a call, or end one."""
        name = str(request.get("name", ""))
        if not 1 <= len(name) <= KEY_MAX - SUFFIX_MAX:
            message = f"a tool call's name has 1 to {KEY_MAX - SUFFIX_MAX} characters."
            return {"ok": False, "code": "invalid", "message": message}
        try:
            return self._begin(name, request) if request["verb"] == "tool_begin" else self._end(name, request)
        except StoreUnavailable as error:
            return {"ok": False, "code": error.code, "message": str(error)}

    def _begin(self, name: str, request: Answer) -> Answer:
        """Count the call and write it down, or say what is known of it; what is refused does not count."""
        gateway = str(request.get("gateway", ""))
        in_doubt = self._in_doubt(name) or self._left_open(name, gateway)
        if in_doubt is not None:
            return in_doubt
        if name not in self._state and len(self._state) >= NAMES_MAX:
            return {
                "ok": False,
                "code": "invalid",
                "message": f"one attempt has at most {NAMES_MAX:,} different calls.",
            }
        calls = self._state.get(name, {"count": 0, "open": {}, "doubted": []})
        goes_on = request.get("resume") == "1" and name not in self._state
        for number in range(calls["count"] + 1, calls["count"] + 2 + BEHIND_MAX):
            key = f"{name}:{number}"
            told = self._ask({**request, "verb": "ledger_begin"}, key, strict=request.get("resume") != "1")
            if not told["ok"] or told["verdict"] == "ambiguous":
                return told
            self._state[name] = calls
            calls["count"] = number
            if told["verdict"] == "new":
                calls["open"][key] = gateway
            if told["verdict"] == "new" or not goes_on:
                return {**told, "entry": key}
        return {"ok": False, "code": "invalid", "message": f"earlier attempts made this call {BEHIND_MAX:,} times."}

    def _end(self, name: str, request: Answer) -> Answer:
        """Record how a call ended; one that cannot tell keeps the next like it away."""
        key = str(request.get("entry", ""))
        verb = str(request["verb"]).replace("tool_", "ledger_")
        told = self._ask({**request, "verb": verb}, key)
        calls = self._state.setdefault(name, {"count": 0, "open": {}, "doubted": []})
        if told["ok"] or verb == "ledger_doubt":
            calls["open"].pop(key, None)
        if verb == "ledger_doubt":
            calls["doubted"].append(key)
        if verb == "ledger_release" and told["ok"] and key == f"{name}:{calls['count']}":
            calls["count"] -= 1  # it was never made, so the next one is this one
        return told

    def _ask(self, request: Answer, key: str, *, strict: bool = False) -> Answer:
        asked = {**request, "entry": key, "scope": "run", "strict": strict}
        return answer_about_ledger(asked, self._lease, self._ledger())

    def _in_doubt(self, name: str) -> Answer | None:
        """Refuse a call whose like is in doubt, until a person has said what became of that one."""
        doubted = self._state.get(name, {}).get("doubted", [])
        for key in list(doubted):
            entry = self._ledger().entry(self._lease.tenant, key, f"run:{self._lease.run_id}")
            if entry is not None and entry.standing == AMBIGUOUS:
                return {"ok": True, "verdict": "ambiguous", "message": ambiguous_sentence(entry)}
            doubted.remove(key)
        return None

    def _left_open(self, name: str, gateway: str) -> Answer | None:
        """Refuse a call whose like was begun by another gateway of this run, which may have died at it."""
        mine = self._state.get(name, {}).get("open", {})
        others = [key for key, owner in mine.items() if owner != gateway]
        if not others:
            return None
        message = (
            f"another gateway of this run is at {others[0]!r}; if that gateway is gone, it is not known whether the call "
            "took place, and it is ambiguous when this run has ended."
        )
        return {"ok": False, "code": "busy", "message": message}
