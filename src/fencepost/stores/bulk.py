"""Many runs of one agent in one transaction: asked for together, made together, audited together."""

import json
from collections.abc import Iterable, Sequence
from itertools import repeat

from fencepost.model.overlap import TurnedAway, admit_to_line
from fencepost.ports.requests import Ask, BatchPart, NewBatch, TriggeredRun
from fencepost.stores.audit_writing import write_audit
from fencepost.stores.manifests import spelled_of
from fencepost.stores.run_columns import BATCH
from fencepost.stores.transaction import Later, Transaction


def put_batch(tx: Transaction, ask: Ask, batch: NewBatch, parts: Iterable[BatchPart]) -> list[TriggeredRun]:
    """Make the runs whose keys are not known; return which run answers each that is wanted.

    Each part is sent before the next one is asked for, so that a server inserts it meanwhile.
    """
    answers = _answers(tx, ask, batch, [(part, _insert(tx, batch, part)) for part in parts])
    made = [run_id for run_id, earlier in answers if not earlier]
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
    write_audit(
        tx, ask.tenant, actor=ask.by, verb=batch.like.trigger, subject=f"agent:{batch.like.agent}", detail=detail
    )
    return answers


def _answers(tx: Transaction, ask: Ask, batch: NewBatch, sent: Sequence[tuple[BatchPart, Later]]) -> list[TriggeredRun]:
    """Tell which run answers each; a key that is known, or that stands in the batch twice, finds its first run."""
    made = {str(run_id) for part, inserted in sent if part.request_keys for (run_id,) in inserted()}
    keyed = [pair for part, _ in sent for pair in zip(part.request_keys, part.ids, strict=False)]
    runs = {key: run_id for key, run_id in keyed if run_id in made}
    if unmade := sorted({key for key, _ in keyed if key is not None} - runs.keys()):
        values = {"tenant": ask.tenant, "target": batch.like.agent, "keys": json.dumps(unmade)}
        runs |= {key: run_id for key, run_id, _ in tx.rows("asked_again_many", **values)}
    answers: list[TriggeredRun] = []
    for part, _ in sent:
        if part.request_keys:
            pairs = zip(part.request_keys, part.ids, strict=True)
            answers += [TriggeredRun(one if key is None else runs[key], one not in made) for key, one in pairs]
        else:
            answers += map(TriggeredRun, part.ids, repeat(False))
    return answers


def _insert(tx: Transaction, batch: NewBatch, part: BatchPart) -> Later:
    """Insert a part. Runs without a caller's key are all new; of runs with one, the new ones are returned."""
    like = batch.like
    columns = part if part.request_keys else part[:2]
    return tx.later(
        "insert_keyed_batch" if part.request_keys else "insert_batch",
        wishes=json.dumps(list(zip(*columns, strict=True)), check_circular=False),
        itself=json.dumps(like.tenant),
        now_us=like.ready_us,
        queue_for_us=like.queue_for_us,
        **{**{name: getattr(like, name) for name in BATCH}, **spelled_of(like)._asdict()},
    )
