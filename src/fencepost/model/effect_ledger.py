"""The ledger's rules: an effect has one key, is begun once, and is answered from the record ever after.

An entry is `in_progress` from before its effect is tried until the answer is recorded. If its run is gone
by then, or could not say how it went, it is not known whether the effect took place: that is *ambiguous*, and goes to a
person or to a probe, never blindly again.
"""

from __future__ import annotations

from fencepost.model.errors import Invalid
from fencepost.model.fast_typing import NamedTuple

IN_PROGRESS, COMPLETED, AMBIGUOUS = "in_progress", "completed", "ambiguous"
KEY_MAX = 512
ANSWER_MAX = 65_536
DOUBT_MAX = 500
WHOLE_TENANT = ""  # the scope of a key that means the same effect for every run of the tenant


class Done(NamedTuple):
    """What a probe returns that found the effect done, with its answer."""

    answer: object


class NotDone(Exception):
    """The effect certainly did not take place, so that it may be tried again; raised by it, or told by its probe."""


class EffectCall(NamedTuple):
    """One caller's wish to have an effect once."""

    key: str
    id: str  # of this very call: asking again with it, after an answer was lost, finds the same grant
    scope: str = WHOLE_TENANT  # or `run:ID`: only the attempts of this run share the key
    strict: bool = False  # refuse a new effect while earlier attempts' effects in this scope were not asked for again


class Entry(NamedTuple):
    """An effect as the ledger has it."""

    tenant: str
    scope: str
    key: str
    run_id: str
    lease_id: str
    fence: int
    call: str
    state: str
    answer: str | None  # JSON
    doubt: str | None  # what the caller said when it could not tell how the effect ended
    begun_us: int
    completed_us: int | None
    resolved_by: str | None  # a person or a probe, where not the caller itself
    asked_fence: int  # the newest fence that began it or was answered from it
    lease_live: bool  # whether the lease that it was begun under is held, and its time not up

    @property
    def standing(self) -> str:
        """What it is now: an entry in progress whose run is gone is ambiguous."""
        if self.state == IN_PROGRESS and (self.doubt is not None or not self.lease_live):
            return AMBIGUOUS
        return self.state


class New(NamedTuple):
    """It is yours to do, now and once."""


class Answered(NamedTuple):
    """It was done; this is what came of it."""

    answer: str


class Mine(NamedTuple):
    """Another call under the same lease is at it, or died at it."""

    entry: Entry


class Elsewhere(NamedTuple):
    """Another run is at it."""

    entry: Entry


class Ambiguous(NamedTuple):
    """It is not known whether it was done."""

    entry: Entry


class Diverged(NamedTuple):
    """A restarted run wants something else than it did before, while effects of before stand unexplained."""

    unreplayed: tuple[Entry, ...]


Verdict = New | Answered | Mine | Elsewhere | Ambiguous | Diverged


def judge(
    entry: Entry | None, call: EffectCall, *, lease_id: str, run_id: str, unreplayed: tuple[Entry, ...] = ()
) -> Verdict:
    """Decide what a caller is told; `New` is only true once the store has written it down."""
    if entry is None:
        return Diverged(unreplayed) if call.strict and unreplayed else New()
    if entry.state == COMPLETED:
        return Answered(entry.answer or "null")
    if entry.call == call.id and entry.lease_id == lease_id and entry.doubt is None:
        return New()
    if is_in_doubt(entry, lease_id=lease_id, run_id=run_id):
        return Ambiguous(entry)
    return Mine(entry) if entry.lease_id == lease_id else Elsewhere(entry)


def is_in_doubt(entry: Entry, *, lease_id: str, run_id: str) -> bool:
    """Tell whether an entry was begun and never recorded, by a run that is gone.

    Runs that share a lease go one after the other: what another of them has begun is over, although the lease lasts.
    """
    shared = entry.state == IN_PROGRESS and entry.lease_id == lease_id and entry.run_id != run_id
    return shared or entry.standing == AMBIGUOUS


def scope_of(word: str, run_id: str) -> str:
    """Return the scope that a caller means: `tenant`, or `run` for the attempts of its own run."""
    if word == "tenant":
        return WHOLE_TENANT
    if word == "run":
        return f"run:{run_id}"
    raise Invalid(f"a key is shared within the tenant or within the run, so scope is 'tenant' or 'run', not {word!r}.")


def check_key(key: str) -> str:
    """Return a key that can be kept, shown and typed."""
    if not 1 <= len(key) <= KEY_MAX or not key.isprintable():
        raise Invalid(f"a ledger key has 1 to {KEY_MAX} printable characters; {key[:40]!r} has {len(key)}.")
    return key


def check_answer(answer: str) -> str:
    """Return an answer that can be kept; it is JSON text."""
    size = len(answer.encode())
    if size > ANSWER_MAX:
        raise Invalid(
            f"an answer of {size:,} bytes is too long for the ledger, which keeps {ANSWER_MAX:,}; keep an id."
        )
    return answer


def doubt_of(text: str) -> str:
    """Shorten and clean what is said about an effect that failed, so that every store takes it."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    shown = shown.encode("utf-8", "replace").decode()
    return shown[:DOUBT_MAX] or "it failed without a word"
