"""Fences at a write target: what a writer shows, what the target remembers, and who may pass."""

from __future__ import annotations

from fencepost.model.errors import FenceRefused
from fencepost.model.fast_typing import Mapping, NamedTuple
from fencepost.model.lease import Lease, keys_of

FLOOR = "*"  # the mark of every resource that has none of its own; no key looks like it, since keys have a blank
WRITES_REFUSED = "writes_refused"  # the meter that counts them
MARKS_MAX = 1000
FENCE_MAX = 4_102_444_800_000_000  # 2100-01-01 in microseconds, below what JSON, JavaScript and Redis can count
FLOOR_MAX = FENCE_MAX - 2**40  # a store's floor: there is room above it for a lifetime of grants


class Proof(NamedTuple):
    """What a writer shows at a gate: one fence for all the resources it holds."""

    tenant: str
    resources: tuple[str, ...]
    fence: int
    store: str | None  # which store gave the fence out; unknown to a writer that was only told a number
    host: str = ""
    run_id: str = ""

    @property
    def keys(self) -> list[str]:
        """The names under which a gate keeps its marks: `tenant resource`."""
        return [f"{tenant} {name}" for tenant, name in keys_of(self.tenant, self.resources)]


class Mark(NamedTuple):
    """The highest fence that a gate has seen for one resource, and whose it was."""

    fence: int
    store: str
    host: str
    run_id: str
    at_us: int


class RefusedByMark(FenceRefused):
    """A refusal with the mark that caused it: the caller can tell a newer run from a store that went back in time."""

    def __init__(self, message: str, *, key: str, mark: Mark) -> None:
        super().__init__(message)
        self.key = key
        self.mark = mark


def proof_of(lease: Lease, host: str) -> Proof:
    """Return what the holder of a lease shows."""
    return Proof(lease.tenant, lease.resources, lease.fence, lease.store, host, lease.run_id)


def proof_to_raise(lease: Lease, host: str) -> Proof:
    """Return what keeps out every earlier holder: a project's free places are fenced off too, if their last holder was lost."""
    proof = proof_of(lease, host)
    return proof._replace(resources=(*proof.resources, *lease.fenced))


def check(proof: Proof, marks: Mapping[str, Mark], *, target: str, adopt: bool = False) -> None:
    """Let a writer pass whose fence is at least every mark of its resources, or raise FenceRefused.

    Equal passes: a holder writes more than once. A mark of another store proves nothing about our
    fences, so it refuses until a person adopts the gate. So does a mark that no store can be lifted above.
    """
    if not 0 < proof.fence <= FENCE_MAX:
        raise FenceRefused(f"{proof.fence} is no fence: it lies before the first or beyond 2100. Nothing was written.")
    if not proof.resources:
        raise FenceRefused(f"a fence for no resource proves nothing at {target}. Nothing was written.")
    for key in proof.keys:
        mark = marks.get(key) or marks.get(FLOOR)
        if mark is None:
            continue
        if _is_foreign(mark, proof):
            if not adopt:
                raise RefusedByMark(_foreign_sentence(target, mark), key=key, mark=mark)
        elif is_made_up(mark) and proof.fence < mark.fence:
            if not adopt:
                raise RefusedByMark(_made_up_sentence(target, key, mark), key=key, mark=mark)
        elif proof.fence < mark.fence or _is_twin(mark, proof):
            raise RefusedByMark(_stale_sentence(target, key, mark, proof), key=key, mark=mark)


def raised(proof: Proof, marks: Mapping[str, Mark], *, at_us: int) -> dict[str, Mark]:
    """Return the marks after this proof has passed."""
    mine = Mark(proof.fence, proof.store or "", proof.host, proof.run_id, at_us)
    return _bounded({**marks, **{key: _newer(marks.get(key), mine, proof) for key in proof.keys}})


def closed_below(proof: Proof, *, at_us: int) -> dict[str, Mark]:
    """Return the marks of a gate that has forgotten its own: every writer older than this proof stays outside."""
    return {FLOOR: Mark(proof.fence, "", proof.host, proof.run_id, at_us)}


def covers(declared: str, target: str) -> bool:
    """Tell whether a write to this target passes the declared one: the same, or a directory above it."""
    return declared == target or (declared.endswith("/") and target.startswith(declared))


def is_made_up(mark: Mark) -> bool:
    """Tell whether a mark lies so high that no store has given such a fence out, nor can be lifted above it."""
    return mark.fence > FLOOR_MAX


def _is_foreign(mark: Mark, proof: Proof) -> bool:
    return bool(proof.store and mark.store and mark.store != proof.store)


def _is_twin(mark: Mark, proof: Proof) -> bool:
    """Tell whether another run was given this very fence: only a store that went back in time does that."""
    return bool(proof.fence == mark.fence and mark.run_id and proof.run_id and mark.run_id != proof.run_id)


def _foreign_sentence(target: str, mark: Mark) -> str:
    return (
        f"{target} is fenced by store {mark.store} on host {mark.host or 'unknown'}, not by this one; "
        f"if the store moved on purpose: fencepost gate raise --adopt {target}"
    )


def _made_up_sentence(target: str, key: str, mark: Mark) -> str:
    resource = key.partition(" ")[2]
    return (
        f"{target} has seen fence {mark.fence} for {resource}, which no store has given out; to put it right, with the "
        f"fence N of the run that shall write: fencepost gate raise --adopt {target} --resource {resource} --fence N"
    )


def _stale_sentence(target: str, key: str, mark: Mark, proof: Proof) -> str:
    newer = f"run {mark.run_id} has the same" if _is_twin(mark, proof) else "a newer run has started"
    return (
        f"{target} has seen fence {mark.fence} for {key.partition(' ')[2]}, yours is {proof.fence}: "
        f"{newer}. Nothing was written; stop."
    )


def _newer(old: Mark | None, mine: Mark, proof: Proof) -> Mark:
    if old is None or _is_foreign(old, proof):
        return mine
    if old.fence == mine.fence and (old.store or not mine.store):
        return old
    return mine if mine.store else mine._replace(store=old.store)


def _bounded(marks: dict[str, Mark]) -> dict[str, Mark]:
    """Fold the lowest marks into the floor, so that a gate's memory has an end and forgets no fence."""
    if len(marks) <= MARKS_MAX:
        return marks
    lowest_first = sorted(marks.items(), key=lambda item: (item[0] != FLOOR, item[1].fence))
    folded = [mark for _, mark in lowest_first[: len(marks) - MARKS_MAX + 1]]
    floor = max(folded, key=lambda mark: mark.fence)
    return {FLOOR: floor._replace(store="", host="", run_id=""), **dict(lowest_first[len(folded) :])}
