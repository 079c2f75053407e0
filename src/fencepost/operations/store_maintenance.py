"""What may be asked about the store itself: back it up, restore it, lift its fences, let go of what is old or pack it."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost.flow.pruner import ORDER, Pruner
from fencepost.model.errors import Invalid, Unknown
from fencepost.model.gate import FLOOR_MAX
from fencepost.model.retention import check_retention
from fencepost.ports.pruning import PastPlace, PrunePlace
from fencepost.ports.store import LeaseStore
from fencepost.stores import backup as backups
from fencepost.stores.leases import SqlLeases

if TYPE_CHECKING:
    from fencepost.stores.maintenance import SqlCare
    from fencepost.stores.runtime import RuntimeStore

TOLD_EVERY = 500  # rows


class BackedUp(NamedTuple):
    """A backup that is on disk."""

    path: str
    rows: int
    store: str


class Restored(NamedTuple):
    """A store that goes on from a backup; what happened between the two instants is lost."""

    store: str
    rows: int
    floor: int
    lost_from: datetime
    lost_until: datetime
    tenant: str | None  # whose content it was; None: all tenants'


class Compacted(NamedTuple):
    """How much of the history got its narrow form."""

    entries: int  # of the audit
    runs: int


def quietly(_rows: int) -> None:
    """Say nothing about progress."""


def unheard(_done: int, _of: int) -> None:
    """Say nothing about progress."""


def backup(
    store: LeaseStore, path: str, *, tenant: str | None = None, progress: Callable[[int], None] = quietly
) -> BackedUp:
    """Write one state of the store, or of one tenant, to a file."""
    care = _care(store)
    if tenant is not None and care.is_empty(tenant):
        raise Unknown(f'{store.facts().url} holds nothing of a tenant "{tenant}". Nothing was written.')
    rows = care.export(lambda snapshot: backups.write(path, snapshot, progress), tenant)
    return BackedUp(path, rows, store.facts().id)


def send_away(
    store: LeaseStore, path: str, *, tenant: str, by: str, progress: Callable[[int], None] = quietly
) -> BackedUp:
    """Let a tenant leave this store, for the one where the file is restored; raise Busy while it runs something.

    After a kill in between, do it again: a tenant that has left can be written to a file as often as wanted.
    """
    backup_of = partial(backup, store, path, tenant=tenant, progress=progress)
    if _care(store).is_empty(tenant):
        return backup_of()  # which refuses
    _care(store).send_away(tenant, actor=by)
    return backup_of()


def restore(
    store: LeaseStore,
    path: str,
    *,
    confirm: Callable[[str], bool],
    by: str = "",
    progress: Callable[[int, int], None] = unheard,
) -> Restored:
    """Replace the store's content, or one tenant's, by a backup's; `confirm` is asked unless there is none.

    Every lease is void afterwards: a live holder finds out at its next renewal. No fence is ever given out twice.
    """
    care, facts = _care(store), store.facts()
    with backups.opened(path, newest_schema=facts.schema) as found:
        header = found.header
        if not care.is_empty(header.tenant) and not confirm(facts.url):
            what = "is not empty" if header.tenant is None else f"holds something of tenant {header.tenant}"
            raise Invalid(f"{facts.url} {what}; to replace what it holds, say so with --yes. Nothing was changed.")
        rows = partial(_told, found, progress)
        if header.tenant is None:
            floor = care.replace(rows, store_id=header.store_id, above=header.highest_fence)
        else:
            floor = care.take_in(rows, tenant=header.tenant, above=header.highest_fence, actor=by)
        lost_until = backups.instant(care.clock_us())
        store_id = header.store_id if header.tenant is None else facts.id
        return Restored(store_id, found.count, floor, header.taken_at, lost_until, header.tenant)


def bump(store: LeaseStore, *, to: int | None = None) -> int:
    """Lift the fence floor above every fence so far, and to a number that a gate has seen; return the floor."""
    if to is not None and not 0 <= to <= FLOOR_MAX:
        raise Invalid(f"a fence floor lies between 0 and {FLOOR_MAX}, not at {to}.")
    if isinstance(store, SqlLeases):
        return store.bump(max(to or 0, store.care().highest()))
    if to is None:
        raise Invalid("this kind of store does not count its fences; say above which one they go on: --to N.")
    return store.bump(to)


def prune(
    store: "RuntimeStore",
    *,
    tenant: str,
    kept_for: timedelta,
    dry: bool = False,
    progress: Callable[[int], None] = quietly,
) -> dict[str, int]:
    """Let go of a tenant's old records, page by page; return how many of each kind. With `dry`, only count.

    Without the runs being gone, their ticks are not: a dry pass counts those that could go at once.
    """
    pruner = Pruner(store, tenant, check_retention(kept_for), dry=dry)
    gone = dict.fromkeys(ORDER, 0)
    place: PrunePlace | None = PrunePlace()
    while place is not None:
        page = pruner.step(place)
        gone[place.what] += page.gone
        place = page.next
        progress(sum(gone.values()))
    return gone


def compact(store: "RuntimeStore", *, dry: bool = False, progress: Callable[[int, int], None] = unheard) -> Compacted:
    """Give every tenant's old history its narrow form: pack what is sealed of the audit, move past runs. With `dry`, only count.

    It may be killed at any moment and begun again: each pack, and each page of runs, is one short transaction, and work
    goes on beside it.
    """
    audit, past = store.audit_chain(), store.past_runs()
    entries, runs = audit.packable(), past.movable()
    if dry:
        return Compacted(sum(entries.values()), sum(runs.values()))
    for tenant in runs:
        while store.metering().fold(tenant):
            past.give_way()
    of, packed, moved = sum(entries.values()) + sum(past.movable().values()), 0, 0
    for tenant in entries:
        while (number := audit.pack(tenant)) is not None:
            packed += number
            progress(packed, of)
            audit.give_way()
    place: PastPlace | None = PastPlace()
    while place is not None:
        page = past.move(place)
        moved += page.moved
        place = page.next
        progress(packed + moved, of)
        past.give_way()
    return Compacted(packed, moved)


def _told(found: backups.Backup, progress: Callable[[int, int], None]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Hand the rows of a backup on, and say now and then how many there were."""
    for count, row in enumerate(found.rows(), 1):
        yield row
        if count % TOLD_EVERY == 0:
            progress(count, found.count)


def _care(store: LeaseStore) -> "SqlCare":
    assert isinstance(store, SqlLeases), "other stores are refused when they are opened"
    return store.care()
