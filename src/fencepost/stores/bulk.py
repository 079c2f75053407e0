"""Many runs of one agent in one transaction: asked for together, made together, audited together."""

import json

from fencepost.model.overlap import TurnedAway, admit_to_line
from fencepost.ports.requests import Ask, NewBatch
from fencepost.stores.manifests import keep_manifests, spelled_of
from fencepost.stores.run_rows import audit
from fencepost.stores.transaction import Transaction


def put_batch(tx: Transaction, ask: Ask, batch: NewBatch) -> list[tuple[str, bool]]:
    """Make the runs whose keys are not known; return for each wish whose run answers it, and whether it is new."""
    made = _insert(tx, batch)
    answer = admit_to_line(batch.waiting, more=len(made), line_max=batch.line_max)
    if made and isinstance(answer, TurnedAway):
        raise answer.error()  # which undoes them; those whose keys were known take no room
    keys = {wish.request_key: wish.id for wish in batch.wishes if wish.request_key is not None and wish.id in made}
    unmade = sorted({wish.request_key for wish in batch.wishes if wish.request_key is not None} - keys.keys())
    if unmade:
        values = {"tenant": ask.tenant, "target": batch.like.agent, "keys": json.dumps(unmade)}
        keys |= dict(tx.rows("asked_again_many", **values))
    if made:
        tx.later("announce", what="ready")
    detail = {
        "agent": batch.like.agent,
        "manifest_hash": batch.like.manifest_hash,
        "runs": [wish.id for wish in batch.wishes if wish.id in made],
        "known": len(batch.wishes) - len(made),
    }
    audit(tx, ask.tenant, actor=ask.by, verb=batch.like.trigger, subject=f"agent:{batch.like.agent}", detail=detail)
    return [(wish.id, True) if wish.id in made else (keys[wish.request_key or ""], False) for wish in batch.wishes]


def _insert(tx: Transaction, batch: NewBatch) -> set[str]:
    like = batch.like
    keep_manifests(tx, [like])
    rows = tx.rows(
        "insert_batch",
        wishes=json.dumps(batch.wishes, check_circular=False),
        itself=json.dumps(like.tenant),
        tenant=like.tenant,
        agent=like.agent,
        trigger=like.trigger,
        **spelled_of(like)._asdict(),
        manifest_hash=like.manifest_hash,
        lease_max=like.lease_max,
        priority=like.priority,
        queue_for_us=like.queue_for_us,
        reserved_micro=like.reserved_micro,
        in_process=like.in_process,
    )
    return {str(run_id) for (run_id,) in rows}
