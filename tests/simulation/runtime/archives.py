"""What is looked at when accounts are closed, beside ticks and runs: the audit's chain, and whether everybody was told."""

from fencepost.model.audit_chain import ChainEntry, Seal, Sealed, Verifier, key_id
from tests.simulation.runtime.chores import KEY
from tests.simulation.runtime.snapshot import Snapshot
from tests.simulation.runtime.stage import Stage

SEALS = "SELECT tenant, number, first_place, last_place, hash, at_us, key_id, mac FROM seal ORDER BY number"
ENTRIES = "SELECT seq, tenant, at_us, actor, verb, subject, detail, place, hash FROM audit WHERE place IS NOT NULL ORDER BY place"


def check_chain(stage: Stage) -> None:
    """Walk the audit's chain with the key and the heads that were exported."""
    if not stage.plot.seals:
        return
    seals = [Seal(*row) for row in stage.place.engine.rows(SEALS)]
    entries = [Sealed(ChainEntry(*row[:7]), row[7], row[8]) for row in stage.place.engine.rows(ENTRIES)]
    verifier = Verifier({key_id(KEY): KEY}, stage.archive.heads)
    for seal in seals:
        if not verifier.take(seal, entries[seal.first_place - 1 : seal.last_place]):
            break
    verdict = verifier.verdict()
    if verdict.faults or verdict.unknown_keys or verdict.entries != len(entries):
        stage.world.fail("the chain holds", f"{verdict}, and {len(entries)} entries have a place")


def check_told(stage: Stage, snapshot: Snapshot) -> None:
    """Everything that was to be told has arrived, or was given up; what is said to be sent did arrive."""
    if not stage.plot.tells:
        return
    waiting = [notice.id for notice in snapshot.notices.values() if notice.state == "waiting"]
    if waiting:
        stage.world.fail("progress", f"{len(waiting)} notices still wait long after the last fault")
    sent = [notice.id for notice in snapshot.notices.values() if notice.state == "sent"]
    unheard = [one for one in sent if not stage.archive.arrived[one]]
    if unheard:
        stage.world.fail("told", f"sent, as the store says, and never arrived: {unheard}")
