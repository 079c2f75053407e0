"""Many runs of an agent at once: all are accepted, in one durable commit, or none is."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fencepost.model.errors import Invalid
from fencepost.model.new_run import RunRecipe, make_run, own_keys
from fencepost.model.request_key import callers_key
from fencepost.model.run import TriggerKind
from fencepost.operations.run_requests import afford, check_request, spell_payload
from fencepost.ports.requests import BATCH_MAX, Ask, BatchPart, Grounds, NewBatch, TriggeredRun, WaitingLine

if TYPE_CHECKING:
    from fencepost.stores.requests import SqlRequests

BATCH_BYTES_MAX = 50_000_000
FIRST_PART, PART = 100, 1000  # so many are spelled before a server gets the first, and while it inserts one


class WantedRun(NamedTuple):
    """One run of a batch: what it is told, and a key that makes the request for it idempotent."""

    payload: Mapping[str, object] | None = None
    key: str | None = None


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
    ids = sorted(new_run_ids(len(wanted)))  # made at one moment, they go in the order of their ids

    def decide(grounds: Grounds) -> NewBatch:
        recipe = RunRecipe.of(grounds.target)
        if recipe.schedule is not None:
            raise Invalid(f"{agent!r} is a schedule, which has one run at a time; name its agent, or: fencepost run")
        like = make_run(
            recipe,
            run_id=ids[0],
            tenant=tenant,
            trigger=TriggerKind.MANUAL,
            ready_us=grounds.now_us,
            idempotency_key=ids[0],
            reservation=afford(recipe, grounds),
            priority=priority,
        )
        return NewBatch(like, grounds.waiting, recipe.agent.waiting_max)

    return store.ask_batch(Ask(tenant, agent, by), decide, lambda: _spelled(wanted, ids, tenant, agent))


def _spelled(wanted: Sequence[WantedRun], ids: Sequence[str], tenant: str, agent: str) -> Iterator[BatchPart]:
    """Spell what differs between the runs, in parts: while a server inserts one, the next is spelled."""
    first, size, left = 0, FIRST_PART, BATCH_BYTES_MAX
    while first < len(wanted):
        last = first + size
        payloads = [spell_payload(payload) if payload else "{}" for payload, _ in wanted[first:last]]
        left -= sum(map(len, payloads))
        if left < 0:
            raise Invalid(f"the payloads are larger than {BATCH_BYTES_MAX:,} bytes together; ask for fewer at once.")
        part = BatchPart(ids[first:last], payloads)
        keys = [key for _, key in wanted[first:last]]
        yield part if keys.count(None) == len(keys) else _with_keys(part, keys, own_keys(tenant, agent))
        first, size = last, PART


def _with_keys(part: BatchPart, keys: Sequence[str | None], key_of: Callable[[str], str]) -> BatchPart:
    """Add the keys that callers gave; a run without one has its id for the key that its agent gets."""
    for key in keys:
        check_request(key=key)
    return part._replace(
        idempotency_keys=[run_id if key is None else key_of(key) for run_id, key in zip(part.ids, keys, strict=True)],
        request_keys=[None if key is None else callers_key(key) for key in keys],
    )
