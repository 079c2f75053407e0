"""Opens what a crash left behind, and looks for what was promised."""

import os
from collections.abc import Iterable, Sequence

from fencepost.model.lease import Claim, Granted
from fencepost.model.process import ProcessId
from tests.simulation.crash.images import Image
from tests.simulation.crash.workload import HERE, START_US, TENANT, Fact, open_file
from tests.support.clock import ManualClock

ORDER = {"ready": 0, "running": 1, "succeeded": 2, "in_progress": 0, "completed": 1}


def faults_of(image: Image, facts: Sequence[Fact], folder: str) -> list[str]:
    """Return what is wrong with an image; nothing acknowledged may be missing, and no fence may come again."""
    path = os.path.join(folder, "state.db")
    for name, content in image.files.items():
        with open(os.path.join(folder, name), "wb", opener=_private) as file:
            file.write(content)
    known = [fact for fact in facts if fact.step <= image.step]
    # The clock stands where the day began: fences above all that were given out are not its doing.
    store = open_file(path, ManualClock(START_US))
    try:
        connection = store._sqlite._connection
        ((said,),) = connection.execute("PRAGMA integrity_check").fetchall()
        rows = _rows(connection.execute)
        wrong = [] if said == "ok" else [f"integrity_check says {said}"]
        wrong += [
            f"{fact} was acknowledged, and there is {rows.get((fact.what, fact.name))}"
            for fact in _missing(known, rows)
        ]
        return wrong + list(_regressed(store, known))
    finally:
        store.close()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _rows(execute: object) -> dict[tuple[str, str], str]:
    assert callable(execute)
    found = {("run", name): "" for (name,) in execute("SELECT id FROM run")}
    found |= {("state", name): state for name, state in execute("SELECT id, state FROM run")}
    found |= {("checkpoint", name): content for name, content in execute("SELECT run_id, content FROM checkpoint")}
    return found | {("entry", name): state for name, state in execute("SELECT key, state FROM ledger")}


def _missing(known: Iterable[Fact], rows: dict[tuple[str, str], str]) -> list[Fact]:
    """Find facts that are not there; what came later, unacknowledged, may be there instead."""
    newest = {(fact.what, fact.name): fact for fact in known if fact.what != "fence"}
    return [fact for key, fact in newest.items() if not _holds(fact, rows.get(key))]


def _holds(fact: Fact, found: str | None) -> bool:
    if found is None or fact.what in ("run", "checkpoint"):
        return found is not None and (fact.what == "run" or found == fact.value)
    return ORDER[found] >= ORDER[str(fact.value)]


def _regressed(store: object, known: Sequence[Fact]) -> Iterable[str]:
    newest: dict[str, int] = {}
    for fact in known:
        if fact.what == "fence":
            newest[fact.name] = max(int(fact.value), newest.get(fact.name, 0))
    for resource, fence in sorted(newest.items()):
        claim = Claim(f"after {resource}", TENANT, (resource,), "after", 30.0, ProcessId(HERE, 2, "2"))
        answer = store.acquire(claim, dead=_holders(store))  # type: ignore[attr-defined]
        if not isinstance(answer, Granted) or answer.lease.fence <= fence:
            yield f"{resource} had fence {fence}, and now {answer}"


def _holders(store: object) -> list[str]:
    return [held.id for held in store.leases()]  # type: ignore[attr-defined]
