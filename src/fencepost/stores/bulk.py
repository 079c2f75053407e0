"""Many runs of one agent in one transaction: asked for together, made together, audited together."""

import json
from collections.abc import Sequence

from fencepost.model.overlap import TurnedAway, admit_to_line
from fencepost.ports.requests import Ask, BatchWish, NewBatch
from fencepost.stores.manifests import keep_manifests, spelled_of
from fencepost.stores.run_rows import audit
from fencepost.stores.transaction import Later, Transaction


def put_batch(tx: Transaction, ask: Ask, batch: NewBatch) -> list[tuple[str, bool]]:
    """Make the runs whose keys are not known; return for each wish whose run answers it, and whether it is new."""
    keep_manifests(tx, [batch.like])
    keyed = [wish for wish in batch.wishes if wish.request_key is not None]
    plain = batch.wishes if not keyed else [wish for wish in batch.wishes if wish.request_key is None]
    if plain:
        _insert(tx, "insert_batch", batch, plain)
    answered = _made_or_known(tx, ask, batch, keyed) if keyed else {}
    answers = [(wish.id, True) if wish.request_key is None else answered[wish] for wish in batch.wishes]
    made = [run_id for run_id, is_new in answers if is_new]
    answer = admit_to_line(batch.waiting, more=len(made), line_max=batch.line_max)
    if made and isinstance(answer, TurnedAway):
        raise answer.error()  # which undoes them; those whose keys were known take no room
    if made:
        tx.later("announce", what="ready")
    detail = {
        "agent": batch.like.agent,
        "manifest_hash": batch.like.manifest_hash,
        "runs": made,
        "known": len(answers) - len(made),
    }
    audit(tx, ask.tenant, actor=ask.by, verb=batch.like.trigger, subject=f"agent:{batch.like.agent}", detail=detail)
    return answers


def _made_or_known(
    tx: Transaction, ask: Ask, batch: NewBatch, keyed: Sequence[BatchWish]
) -> dict[BatchWish, tuple[str, bool]]:
    """Make the runs whose keys are new; a key that is known, or that stands in the batch twice, finds its first run."""
    made = {str(run_id) for (run_id,) in _insert(tx, "insert_keyed_batch", batch, keyed)()}
    runs = {wish.request_key: wish.id for wish in keyed if wish.id in made}
    if unmade := sorted({wish.request_key for wish in keyed if wish.request_key is not None} - runs.keys()):
        values = {"tenant": ask.tenant, "target": batch.like.agent, "keys": json.dumps(unmade)}
        runs |= {key: run_id for key, run_id, _ in tx.rows("asked_again_many", **values)}
    return {wish: (runs[wish.request_key], wish.id in made) for wish in keyed}


def _insert(tx: Transaction, statement: str, batch: NewBatch, wishes: Sequence[BatchWish]) -> Later:
    like = batch.like
    return tx.later(
        statement,
        wishes=json.dumps(wishes, check_circular=False),
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
