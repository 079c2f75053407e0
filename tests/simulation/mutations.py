"""Mistakes on purpose: each takes one rule away, and the simulator must notice."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import NamedTuple
from unittest.mock import patch

from fencepost.flow.leaser import Undertaker
from fencepost.gates import path as file_gate
from fencepost.gates.marks import FileMarks as Marks
from fencepost.model import lease as rules
from fencepost.model.errors import LeaseLost
from fencepost.model.gate import Mark, Proof
from fencepost.model.gate import check as real_check
from fencepost.model.lease import Granted, Held, Lease
from fencepost.service.admission import Admission
from fencepost.service.custody import Kept, Term
from fencepost.stores import lane_leases, lease_grants, leases
from fencepost.stores.sqlite import store as sqlite
from fencepost.stores.sqlite.copy import Copied
from fencepost.stores.sqlite.dialect import STATEMENTS
from tests.simulation.keepers import Guard, Renewing
from tests.simulation.nodes import Run
from tests.simulation.promises import until_broken
from tests.simulation.simulate import simulate
from tests.simulation.world import Violation

KEPT = "(id, fence, epoch) IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:leases))"
WITHOUT_FENCE = (KEPT, "(id, epoch) IN (SELECT value ->> 0, value ->> 2 FROM json_each(:leases))")
FREED = "AND resource.lease_id = freed.id AND resource.fence = freed.fence"


class Mutation(NamedTuple):
    """A mistake, and where to look for it."""

    apply: Callable[[], AbstractContextManager[object]]
    profile: str | None = None  # the kind of trouble in which it shows, if not in any
    compares: bool = False  # whether the reference is needed; the promises alone should do


def mutations() -> dict[str, Mutation]:
    """Return every mistake, by what it does."""
    return {
        "renew without the fence": Mutation(lambda: _sql(renew_leases=WITHOUT_FENCE), "echoes"),
        "release without the fence": Mutation(
            lambda: _sql(forget_leases=WITHOUT_FENCE, free_resources=(FREED, "AND resource.lease_id = freed.id")),
            "echoes",
        ),
        "lose without the fence": Mutation(lambda: _sql(lose_leases=WITHOUT_FENCE), "echoes"),
        "release by the name of the resource": Mutation(_blind_release),
        "renew whatever its state": Mutation(lambda: _sql(renew_leases=("AND state = 'held'", ""))),
        "raise after the start": Mutation(_raise_after_start),
        "raise only the gates of one's own": Mutation(_owe_nothing, "zombies"),
        "start although a gate is out of reach": Mutation(_start_anyway, "zombies"),
        "a gate that compares >": Mutation(lambda: patch.object(file_gate, "check", _strict_check)),
        "a gate that does not compare": Mutation(lambda: patch.object(file_gate, "check", lambda *_, **__: None)),
        "a gate that forgets": Mutation(lambda: patch.object(Marks, "keep", lambda *_: None)),
        "a fence from a counter": Mutation(lambda: patch.object(rules, "next_fence", _count)),
        "no copy of the fence": Mutation(lambda: patch.object(sqlite, "_ahead", lambda *_, **__: False), "rewind"),
        "a copy that leaves out the last grant": Mutation(
            lambda: patch.object(sqlite, "_ahead", _one_behind), "rewind"
        ),
        "a renewer that ignores errors": Mutation(
            lambda: patch.object(Kept, "fail", _renewed_whatever_happens), "silence"
        ),
        "a deadline from after the answer": Mutation(lambda: patch.object(Term, "extend", _extend_from_now), "silence"),
        "a guard that waits for news": Mutation(lambda: patch.object(Guard, "_now_ns", lambda _: 0), "silence"),
        "no end to the predecessor's tree": Mutation(lambda: patch.object(Undertaker, "end", _let_them_run)),
        "no end to the predecessor's guard": Mutation(
            lambda: patch.object(Undertaker, "_end_tree", _spare_the_guard), "worst"
        ),
        "a clean end for what never started": Mutation(_clean_without_start, "zombies", compares=True),
        "expired is as good as held": Mutation(
            lambda: patch.object(rules, "blockers", lambda holders, _: tuple(holders)), compares=True
        ),
        "held is as good as expired": Mutation(lambda: patch.object(rules, "blockers", lambda *_: ())),
        "last come, first served": Mutation(lambda: patch.object(rules, "ahead", lambda *_: ())),
    }


def seeds_until_caught(mutation: Mutation, limit: int) -> tuple[int, Violation | None]:
    """Try seeds with the mistake in place; return how many it took, and what noticed it."""
    with mutation.apply():
        return until_broken(
            simulate(seed, profile=mutation.profile, compares=mutation.compares) for seed in range(limit)
        )


@contextmanager
def _sql(**changes: tuple[str, str]) -> Iterator[None]:
    """Take words out of statements."""
    for name, (words, _) in changes.items():
        assert words in STATEMENTS[name], f"{name} has changed: there is no {words!r} in it"
    with _statements({name: STATEMENTS[name].replace(words, instead) for name, (words, instead) in changes.items()}):
        yield


@contextmanager
def _statements(changed: dict[str, str]) -> Iterator[None]:
    kept = {name: STATEMENTS[name] for name in changed}
    STATEMENTS.update(changed)
    try:
        yield
    finally:
        STATEMENTS.update(kept)


@contextmanager
def _blind_release() -> Iterator[None]:
    by_name = """
        DELETE FROM lease WHERE :leases = :leases AND EXISTS (
            SELECT 1 FROM resource JOIN json_each(lease.resources) AS mine
             WHERE resource.lease_id = lease.id AND mine.value ->> 1 = 'lock:a')
        RETURNING id, started_us
    """
    with _sql(free_resources=(FREED, "")), _statements({"forget_leases": by_name}):
        yield


@contextmanager
def _raise_after_start() -> Iterator[None]:
    late: dict[str, tuple[Admission, Granted]] = {}
    raise_all, started = Admission.prepare, Run._watch

    def prepare(self: Admission, granted: Granted) -> None:
        late[granted.lease.run_id] = (self, granted)
        raise_all(self, granted._replace(lease=granted.lease._replace(gates=())))

    def watch(self: Run, renewing: Renewing) -> tuple[bool, bool]:
        admission, granted = late[self.process.name]
        self.process.clock.sleep(0.05)
        for target in granted.lease.gates:
            admission._raise(granted.lease, target)
        return started(self, renewing)

    with patch.object(Admission, "prepare", prepare), patch.object(Run, "_watch", watch):
        yield


@contextmanager
def _owe_nothing() -> Iterator[None]:
    with ExitStack() as stack:
        for module in (lease_grants, leases, lane_leases):
            stack.enter_context(patch.object(module, "owed_by", lambda _: ()))
        yield


@contextmanager
def _start_anyway() -> Iterator[None]:
    real = Admission._raise

    def unafraid(self: Admission, lease: Lease, target: str) -> None:
        try:
            real(self, lease, target)
        except LeaseLost:
            raise
        except Exception:  # noqa: BLE001  # this is the mistake
            return

    with patch.object(Admission, "_raise", unafraid):
        yield


def _strict_check(proof: Proof, marks: dict[str, Mark], *, target: str, adopt: bool = False) -> None:
    real_check(proof._replace(fence=proof.fence - 1), marks, target=target, adopt=adopt)


def _count(stored: int, floor: int, wall_us: int) -> int:
    del wall_us
    return max(stored, floor) + 1


def _one_behind(copied: Copied | None, *, store: str, high: int) -> bool:
    return copied is not None and (copied.store != store or copied.committed > high)


def _renewed_whatever_happens(self: Kept, why: str, asked_ns: int) -> None:
    del why
    self.hear("renewed", asked_ns)


def _extend_from_now(self: Term, ttl_seconds: float, *, asked_ns: int) -> None:
    del asked_ns
    self.deadline_ns = self.now_ns() + round(rules.trusted_for(ttl_seconds) * 1e9)


def _let_them_run(self: Undertaker, predecessors: Iterable[Held], *, kill_seconds: float) -> list[Held]:
    del self, predecessors, kill_seconds
    return []


def _spare_the_guard(self: Undertaker, held: Held, kill_seconds: float) -> bool:
    from fencepost.flow.leaser import traces_of  # noqa: PLC0415  # only this mistake needs it

    return self._processes.end(traces_of(held), grace_seconds=0, kill_seconds=kill_seconds)


@contextmanager
def _clean_without_start() -> Iterator[None]:
    def give_back(self: Admission, lease: Lease) -> None:
        self._store.release(lease, clean=True)

    with patch.object(Admission, "give_back", give_back), _sql(forget_leases=("id, started_us", "id, 1")):
        yield
