"""Many runs of an agent at once: all are accepted, in one durable commit, or none is."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fencepost.model.errors import Invalid
from fencepost.model.new_run import RunRecipe, make_run, own_keys
from fencepost.model.request_key import callers_key
from fencepost.model.run import TriggerKind
from fencepost.operations.run_requests import afford, check_request, spell_payload
from fencepost.ports.requests import BATCH_MAX, Ask, BatchWish, Grounds, NewBatch, WaitingLine

if TYPE_CHECKING:
    from fencepost.stores.requests import SqlRequests

BATCH_BYTES_MAX = 50_000_000


class WantedRun(NamedTuple):
    """One run of a batch: what it is told, and a key that makes the request for it idempotent."""

    payload: Mapping[str, object] | None = None
    key: str | None = None


class TriggeredRun(NamedTuple):
    """The run that answers one request of a batch. `earlier`: its key had made it before."""

    id: str
    earlier: bool


def line_of(store: "SqlRequests", *, tenant: str, agent: str) -> WaitingLine:
    """Tell how many more runs of an agent may be asked for, before the caller puts them together."""
    return store.line_of(Ask(tenant, agent, by=""))


def request_many(
    store: "SqlRequests",
    *,
    tenant: str,
    agent: str,
    wanted: Sequence[WantedRun],
    priority: int | None = None,
    new_run_ids: Callable[[int], list[str]],
    by: str,
) -> list[TriggeredRun]:
    """Run an agent many times, once for each that is wanted, in their order; return their runs in that order.

    More than may wait (`waiting_max` of the agent) are refused with Busy, all of them.
    """
    if len(wanted) > BATCH_MAX:
        raise Invalid(f"{len(wanted):,} runs at once are too many; ask for at most {BATCH_MAX:,}, several times.")
    check_request(priority=priority)
    if not wanted:
        return []
    wishes = _wishes(wanted, tenant, agent, new_run_ids(len(wanted)))
    if sum(len(wish.payload) for wish in wishes) > BATCH_BYTES_MAX:
        raise Invalid(f"the payloads are larger than {BATCH_BYTES_MAX:,} bytes together; ask for fewer at once.")

    def decide(grounds: Grounds) -> NewBatch:
        recipe = RunRecipe.of(grounds.target)
        if recipe.schedule is not None:
            raise Invalid(f"{agent!r} is a schedule, which has one run at a time; name its agent, or: fencepost run")
        like = make_run(
            recipe,
            run_id=wishes[0].id,
            tenant=tenant,
            trigger=TriggerKind.MANUAL,
            ready_us=grounds.now_us,
            idempotency_key=wishes[0].idempotency_key,
            reservation=afford(recipe, grounds),
            priority=priority,
        )
        return NewBatch(like, wishes, grounds.waiting, recipe.agent.waiting_max)

    answers = store.ask_batch(Ask(tenant, agent, by), decide)
    return [TriggeredRun(run_id, earlier=not is_new) for run_id, is_new in answers]


def _wishes(wanted: Sequence[WantedRun], tenant: str, agent: str, ids: list[str]) -> list[BatchWish]:
    """Spell what differs between the runs; a batch is large, so that what they share is spelled once."""
    key_of = own_keys(tenant, agent)
    wishes = []
    for one, run_id in zip(wanted, sorted(ids), strict=True):  # made at one moment, they go in the order of their ids
        if one.key is not None:
            check_request(key=one.key)
        payload = spell_payload(one.payload) if one.payload else "{}"
        kept_key = callers_key(one.key) if one.key is not None else None
        wishes.append(BatchWish(run_id, key_of(one.key or run_id), kept_key, payload))
    return wishes
