"""Deliveries of one hook: those that wait together are taken in one transaction, and each has its own answer.

Each is known by its id, so that the same one again finds its run. With a debounce, all of one window share a run.
"""

import json
from collections.abc import Mapping, Sequence

from fencepost.model.errors import FencepostError
from fencepost.model.new_run import NewRun
from fencepost.model.webhook import held_until_us
from fencepost.ports.requests import Ask, Grounds, Placement
from fencepost.ports.webhooks import DecideDeliveries, Delivered, DeliveryAnswer, HookParcels, Parcel
from fencepost.stores.audit_writing import audit_entry, write_entries
from fencepost.stores.past_runs import touch
from fencepost.stores.requests import LookAhead, detail_of, grounds_of, target_to_run
from fencepost.stores.ticks import make_room, send_runs
from fencepost.stores.transaction import Dialect, Transaction


class SqlDeliveries:
    """Deliveries of webhooks."""

    def __init__(self, dialect: Dialect, limits: dict[tuple[str, str], int]) -> None:
        """Speak to a store through its dialect; `limits` is how many may wait for each agent, as far as is known."""
        self._dialect = dialect
        self._limits = limits

    def deliver(self, ask: Ask, parcels: HookParcels, decide: DecideDeliveries) -> list[DeliveryAnswer]:
        """Make the runs of deliveries, or let them join the one that their hook gathers for; return an answer for each.

        A delivery that is known, or that stands here twice, finds the run that it made first. One that is refused is
        refused alone.
        """

        def work(tx: Transaction) -> list[DeliveryAnswer]:
            ahead = LookAhead(self._limits)
            target = target_to_run(tx, ask, None, ahead)  # locked: deliveries of one hook come one after the other
            known = _known(tx, ask, parcels)
            news = parcels._replace(each=_first_ones(parcels.each, known))
            placed: Mapping[str, DeliveryAnswer] = {}
            if news.each:
                grounds = grounds_of(tx, ask, target, None, looked=ahead.answer(target))
                place = _gather if parcels.hold_us else _place
                placed = place(tx, ask, news, grounds, decide)
                _remember(tx, ask.tenant, news, placed, grounds.now_us)
            return _answers(parcels.each, known, placed)

        return self._dialect.write(work, often=True)


def _names(parcel: Parcel) -> list[str]:
    """Return by what a delivery may be known, the surest first."""
    return ([parcel.id] if parcel.id else []) + ([_label(parcel)] if parcel.label else [])


def _label(parcel: Parcel) -> str:
    return f"label:{parcel.label}"


def _known(tx: Transaction, ask: Ask, parcels: HookParcels) -> dict[str, Delivered]:
    """Find by their names what came before; a run of a single delivery is known by its own key.

    Writing makes the second answer as durable as the first: its commit waits for the same standbys.
    """
    names = sorted({name for one in parcels.each for name in _names(one) if parcels.hold_us or one.label})
    ids = {one.key: one.id for one in parcels.each if one.key}
    hook = {"tenant": ask.tenant, "hook": parcels.hook}
    remembered = tx.later("known_deliveries", **hook, ids=json.dumps(names)) if names else list
    asked = {"tenant": ask.tenant, "target": ask.target, "keys": json.dumps(sorted(ids))}
    runs = tx.later("asked_again_many", **asked) if ids else list
    found = {ids[key]: Delivered("duplicate", run_id, parcels.digest_in(told)) for key, run_id, told in runs()}
    for name, run_id, digest in remembered():
        touch(tx, run_id)
        found[name] = Delivered("duplicate", run_id, digest)
    return found


def _found(parcel: Parcel, known: Mapping[str, Delivered]) -> Delivered | None:
    return next((known[name] for name in _names(parcel) if name in known), None)


def _first_ones(parcels: Sequence[Parcel], known: Mapping[str, Delivered]) -> list[Parcel]:
    """Return the new deliveries; of several that are the same, the first."""
    seen: set[str] = set()
    news = []
    for parcel in parcels:
        if _found(parcel, known) is None and seen.isdisjoint(_names(parcel)):
            news.append(parcel)
            seen.update(_names(parcel))
    return news


def _answers(
    parcels: Sequence[Parcel], known: Mapping[str, Delivered], placed: Mapping[str, DeliveryAnswer]
) -> list[DeliveryAnswer]:
    """Return the answer to each; what stands here twice hears of its first, and shares its refusal."""
    first: dict[str, tuple[str, DeliveryAnswer]] = {}
    answers: list[DeliveryAnswer] = []
    for parcel in parcels:
        answer: DeliveryAnswer | None = _found(parcel, known)
        if answer is None and parcel.run_id in placed:
            answer = placed[parcel.run_id]
            first |= dict.fromkeys(_names(parcel), (parcel.digest, answer))
        elif answer is None:
            digest, answer = next(first[name] for name in _names(parcel) if name in first)
            if isinstance(answer, Delivered):
                answer = Delivered("duplicate", answer.run_id, digest)
        answers.append(answer)
    return answers


def _place(
    tx: Transaction, ask: Ask, news: HookParcels, grounds: Grounds, decide: DecideDeliveries
) -> dict[str, DeliveryAnswer]:
    """Make a run for each that is let in; of a schedule, each is decided with those before it in sight."""
    if grounds.target.schedule is None or len(news.each) == 1:
        return _put(tx, ask, news.each, decide(grounds, news.each))
    placed: dict[str, DeliveryAnswer] = {}
    for parcel in news.each:
        now = grounds_of(tx, ask, grounds.target, None)
        placed |= _put(tx, ask, [parcel], decide(now, [parcel]))
    return placed


def _put(
    tx: Transaction, ask: Ask, news: Sequence[Parcel], decided: Sequence[Placement | FencepostError]
) -> dict[str, DeliveryAnswer]:
    placed: dict[str, DeliveryAnswer] = {}
    runs, entries = [], []
    for parcel, one in zip(news, decided, strict=True):
        if isinstance(one, FencepostError):
            placed[parcel.run_id] = one
            continue
        run = one.run
        assert isinstance(run, NewRun), "what was known was not to be decided"
        runs.append(run)
        subject, detail = f"run:{run.id}", detail_of(run, one)
        entries.append(audit_entry(ask.tenant, actor=ask.by, verb=run.trigger, subject=subject, detail=detail))
        placed[parcel.run_id] = Delivered("accepted", run.id, parcel.digest)
    if runs:
        made = send_runs(tx, runs)()
        assert len(made) == len(runs), "only a known key keeps a run from being made, and known ones were found before"
        for one in decided:
            if isinstance(one, Placement):
                make_room(tx, one.displaces, one.stops)
        write_entries(tx, entries)
    return placed


def _gather(
    tx: Transaction, ask: Ask, news: HookParcels, grounds: Grounds, decide: DecideDeliveries
) -> dict[str, DeliveryAnswer]:
    """Let deliveries join the run that waits for more of them, or the first of them make one for all."""
    run_id, first_us, count = _join(tx, ask, news, grounds.now_us)
    placed: dict[str, DeliveryAnswer] = {}
    joining = news.each
    if not run_id:
        (decided,) = decide(grounds, joining[:1])
        if isinstance(decided, FencepostError):
            return {parcel.run_id: decided for parcel in joining}
        assert isinstance(decided.run, NewRun), "what was known was not to be decided"
        told = decided.run._replace(payload=joining[-1].payload(len(joining)))
        placed = _put(tx, ask, joining[:1], [decided._replace(run=told)])
        run_id, first_us, count, joining = told.id, grounds.now_us, 1, joining[1:]
    entries = []
    for count, parcel in enumerate(joining, count + 1):  # noqa: B020 - goes on where it was
        placed[parcel.run_id] = Delivered("coalesced", run_id, parcel.digest)
        detail = {"hook": news.hook, "delivery": parcel.id, "count": count}
        subject = f"run:{run_id}"
        entries.append(audit_entry(ask.tenant, actor=ask.by, verb="coalesce", subject=subject, detail=detail))
    if entries:
        write_entries(tx, entries)
    tx.later("put_gathering", tenant=ask.tenant, hook=news.hook, run_id=run_id, first_us=first_us, count=count)
    return placed


def _join(tx: Transaction, ask: Ask, news: HookParcels, now_us: int) -> tuple[str, int, int]:
    """Tell the run that the hook gathers for of the newest; return it, since when, and of how many it knew. Or none."""
    for run_id, first_us, count in tx.rows("gathering", tenant=ask.tenant, hook=news.hook):
        ready_us = held_until_us(now_us, first_us, news.hold_us)
        payload = news.each[-1].payload(count + len(news.each))
        named = {"tenant": ask.tenant, "run_id": run_id}
        if tx.rows("join_gathering", **named, payload=payload, ready_us=ready_us, now_us=now_us):
            return run_id, first_us, count
    return "", 0, 0


def _remember(
    tx: Transaction, tenant: str, news: HookParcels, placed: Mapping[str, DeliveryAnswer], at_us: int
) -> None:
    """Record by what deliveries are known; a run of a single delivery has that id as its own key."""
    rows = []
    for parcel in news.each:
        answer = placed[parcel.run_id]
        names = _names(parcel) if news.hold_us else [_label(parcel)] if parcel.label else []
        if isinstance(answer, Delivered):
            rows += [[name, answer.run_id, parcel.digest] for name in names]
    if rows:
        hook = {"tenant": tenant, "hook": news.hook}
        tx.later("put_deliveries", **hook, deliveries=json.dumps(rows), at_us=at_us)
