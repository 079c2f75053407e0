"""What the supervisor answers about the ledger: the run's own lease goes into every verb, so none outlives it."""

from __future__ import annotations

from fencepost.model.effect_ledger import (
    Ambiguous,
    Answered,
    Diverged,
    EffectCall,
    Elsewhere,
    Entry,
    Mine,
    New,
    Verdict,
    scope_of,
)
from fencepost.model.errors import Busy, FencepostError, InDoubt, Invalid, LeaseLost, RunDiverged, StoreUnavailable
from fencepost.model.fast_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.model.lease import Lease
    from fencepost.ports.ledger import LedgerStore
    from fencepost.service.run_socket import Answer

CALL_MAX = 64
UNREPLAYED_SHOWN = 20


def answer_about_ledger(request: Answer, lease: Lease, ledger: LedgerStore) -> Answer:
    """Carry out one verb for a caller that has the run's key."""
    try:
        return _answer(request, lease, ledger)
    except (Busy, Invalid, LeaseLost, StoreUnavailable) as error:
        return {"ok": False, "code": error.code, "message": str(error)}


def error_of(answer: Answer) -> FencepostError:
    """Return a refusal as the error that a caller in this process is to see."""
    kinds = (Busy, InDoubt, Invalid, LeaseLost, RunDiverged, StoreUnavailable)
    kind = next((one for one in kinds if one.code == answer["code"]), FencepostError)
    return kind(str(answer["message"]))


def _answer(request: Answer, lease: Lease, ledger: LedgerStore) -> Answer:
    verb, call = str(request["verb"]), _call(request, lease)
    match verb:
        case "ledger_begin":
            return _told(ledger.begin(lease, call))
        case "ledger_complete":
            ledger.complete(lease, call, str(request.get("answer", "null")))
        case "ledger_doubt":
            ledger.doubt(lease, call, str(request.get("why", "")))
        case "ledger_release":
            ledger.release(lease, call)
        case "ledger_take_over":
            return _changed_unless(ledger.take_over(lease, call, _seen(request, lease, call, ledger)), call)
        case "ledger_settle":
            seen = _seen(request, lease, call, ledger)
            return _changed_unless(ledger.settle_doubt(lease, seen, str(request.get("answer", "null"))), call)
        case _:
            left = ledger.unreplayed(lease, call.scope)
            return {"ok": True, "count": len(left), "keys": [entry.key for entry in left[:UNREPLAYED_SHOWN]]}
    return {"ok": True}


def _call(request: Answer, lease: Lease) -> EffectCall:
    """Read which effect is meant; a run reaches its tenant's keys and its own, and no other run's."""
    scope = scope_of(str(request.get("scope", "tenant")), lease.run_id)
    call = str(request.get("call", ""))
    if len(call) > CALL_MAX or not call.isprintable():
        raise Invalid(f"a call names itself in at most {CALL_MAX} printable characters.")
    return EffectCall(str(request.get("entry", "")), call, scope, strict=request.get("strict") in (True, "1"))


def _seen(request: Answer, lease: Lease, call: EffectCall, ledger: LedgerStore) -> Entry:
    entry = ledger.entry(lease.tenant, call.key, call.scope)
    if entry is None or entry.call != request.get("seen"):
        raise Busy(f"the ledger entry {call.key!r} has changed meanwhile; ask again.")
    return entry


def _changed_unless(done: bool, call: EffectCall) -> Answer:  # noqa: FBT001  # the store's answer, handed on
    if not done:
        raise Busy(f"the ledger entry {call.key!r} has changed meanwhile; ask again.")
    return {"ok": True}


def _told(verdict: Verdict) -> Answer:
    """Spell a verdict; what is ambiguous is no refusal yet, since the caller may have a probe."""
    match verdict:
        case New():
            return {"ok": True, "verdict": "new"}
        case Answered(answer=answer):
            return {"ok": True, "verdict": "answered", "answer": answer}
        case Ambiguous(entry=entry):
            return {"ok": True, "verdict": "ambiguous", "seen": entry.call, "message": ambiguous_sentence(entry)}
        case Diverged(unreplayed=left):
            keys = ", ".join(entry.key for entry in left[:UNREPLAYED_SHOWN])
            message = f"this run did {keys} before and has not asked for it again: refused, for a person."
            return {"ok": False, "code": "diverged", "message": message}
        case Mine(entry=entry):
            message = (
                f"another call of this run is at {entry.key!r}; if that call is gone, the entry is ambiguous when this "
                "run has ended."
            )
            return {"ok": False, "code": "busy", "message": message}
        case Elsewhere(entry=entry):
            return {"ok": False, "code": "busy", "message": f"run {entry.run_id} is at {entry.key!r}; try again later."}


def ambiguous_sentence(entry: Entry) -> str:
    """Say what is not known, and who can tell."""
    why = entry.doubt or "its run ended before it was recorded"
    scope = f" --scope {entry.scope}" if entry.scope else ""
    return (
        f"run {entry.run_id} began {entry.key!r} and it is not known whether it took place ({why}). Look, then say so: "
        f"fencepost ledger resolve '{entry.key}'{scope} --completed ANSWER, or --forget to have it done again."
    )
