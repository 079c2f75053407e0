"""Runs on demand: run now, run a tick again, replay a dead letter, cancel, discard; all through the one queue."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from fencepost.model.budget import BudgetDenied, Reservation, reserve, spend_of
from fencepost.model.definition import ScheduleDefinition, schedule_from_json, trigger_of
from fencepost.model.errors import Busy, Invalid, KeyReused, Unknown
from fencepost.model.instants import format_instant, from_us, to_us
from fencepost.model.missed import INSTANT
from fencepost.model.new_run import RunRecipe, Stretch, make_run, own_key
from fencepost.model.occurrence import Occurrence, idempotency_key
from fencepost.model.overlap import (
    Admission,
    Admitted,
    OverlapPolicy,
    Request,
    TurnedAway,
    admit,
    admit_to_line,
    parse_overlap,
)
from fencepost.model.request_key import callers_key, replay_key
from fencepost.model.run import RunState, TriggerKind
from fencepost.model.trigger import EveryTrigger
from fencepost.ports.requests import Ask, Grounds, Placement, VersionFact
from fencepost.ports.runs import RunRow

if TYPE_CHECKING:
    from fencepost.stores.requests import SqlRequests

KEY_MAX = 512
PAYLOAD_MAX = 1_000_000
PRIORITY_MAX = 1_000_000


def check_same(requested: "Requested", payload: Mapping[str, object] | None, *, tick: datetime | None = None) -> None:
    """Refuse a key that was used for something else: its sender would take another run for its own."""
    run = requested.run
    usual: Mapping[str, object] | None = {} if run.schedule is None else None
    wanted = usual if payload is None else payload
    if requested.earlier and wanted is not None and json.loads(run.payload) != wanted:
        raise KeyReused(f"the key was used for run {run.id} with another payload; use a new one.")
    if requested.earlier and run.tick_us != (None if tick is None else to_us(tick)):
        raise KeyReused(f"the key was used for run {run.id} with another tick; use a new one.")


@dataclass(frozen=True, slots=True)
class Requested:
    """The run that answers a request. `earlier`: it was there already. `said`: what a person should be told."""

    run: RunRow
    earlier: bool
    said: str = ""


def request_run(
    store: "SqlRequests",
    *,
    tenant: str,
    target: str,
    payload: Mapping[str, object] | None = None,
    key: str | None = None,
    tick: datetime | None = None,
    again: bool = False,
    overlap: str | None = None,
    priority: int | None = None,
    new_run_id: Callable[[], str],
    by: str,
) -> Requested:
    """Run a schedule or an agent now, or one tick of a schedule again.

    A schedule's overlap policy is obeyed by refusing up front (Busy); an agent's runs wait in line. The same `key`
    returns the same run, also if it has ended. A tick that succeeded is not run again, unless `again` is said.
    """
    check_request(key=key, payload=payload, priority=priority)
    if again and tick is None:
        raise Invalid("--again is about a tick; name it with --tick, or leave --again out: every run is a new one.")
    policy = parse_overlap(overlap) if overlap is not None else None
    run_id = new_run_id()
    kept_key = callers_key(key) if key is not None else None

    def decide(grounds: Grounds) -> Placement:
        recipe = _recipe(grounds, policy, overlap)
        stretch, idempotency = Stretch(), own_key(tenant, target, key) if key else run_id
        if tick is not None:
            done = None if again else _done_before(grounds, tick)
            if done is not None:
                return Placement(done)
            if not again:
                _check_kept(grounds, tick)
            stretch, tick_key = _stretch(recipe, grounds, tenant, tick)
            idempotency = run_id if again else tick_key
        room = admitted(TriggerKind.MANUAL, recipe, grounds)
        run = make_run(
            recipe,
            run_id=run_id,
            tenant=tenant,
            trigger=TriggerKind.MANUAL,
            ready_us=grounds.now_us,
            idempotency_key=idempotency,
            reservation=afford(recipe, grounds),
            stretch=stretch,
            payload=payload,
            priority=priority,
            request_key=kept_key,
        )
        return Placement(run, room.displaces, room.stops)

    ask = Ask(tenant, target, by, key=kept_key, tick_us=None if tick is None else to_us(tick))
    asked = store.ask(ask, decide)
    return Requested(asked.run, not asked.is_new, _said(asked.run, key=key, tick=tick, again=again, new=asked.is_new))


def replay(
    store: "SqlRequests",
    run_id: str,
    *,
    tenant: str,
    new_run_id: Callable[[], str],
    by: str,
    again: bool = False,
    as_then: bool = False,
    key: str | None = None,
) -> Requested:
    """Make a new run of a dead letter, or of a run that was cancelled: the same tick and payload, a key of its own.

    It runs what is defined now, because that is where the repair is; `as_then` takes the version of that day. The same
    `key` returns the same run, although `again` was said.
    """
    check_request(key=key)
    new_id = new_run_id()
    request_key = replay_key(run_id, key) if key is not None else None

    def decide(grounds: Grounds) -> Placement:
        origin = grounds.origin
        assert origin is not None, "the store has looked"
        _check_origin(origin)
        earlier = _replayed(grounds.replays, again=again)
        if earlier is not None:
            return Placement(earlier)
        recipe = _recipe(grounds, None, None)
        if as_then:
            recipe = _as_then(recipe, origin)
        admitted(TriggerKind.REPLAY, recipe, grounds)
        stretch = Stretch(origin.tick_us, origin.occurrence, origin.period_start_us, origin.period_end_us)
        run = make_run(
            recipe,
            run_id=new_id,
            tenant=tenant,
            trigger=TriggerKind.REPLAY,
            ready_us=grounds.now_us,
            idempotency_key=own_key(tenant, "replay", origin.id, new_id),
            reservation=afford(recipe, grounds),
            stretch=stretch,
            payload=origin.payload,
            request_key=request_key,
            origin=origin.id,
        )
        return Placement(run)

    asked = store.ask(Ask(tenant, "", by, key=request_key, origin=run_id), decide)
    said = "" if asked.is_new else f"run {run_id} was replayed before, as this run; --again makes another."
    return Requested(asked.run, not asked.is_new, said)


def cancel(store: "SqlRequests", run_id: str, *, tenant: str, by: str) -> RunRow:
    """Take a queued run out, or ask a running one to stop; return it as it is then. One that has ended stays so."""
    if store.cancel(run_id, tenant=tenant, by=by) is None:
        raise Unknown(f"there is no run {run_id!r}; see: fencepost runs")
    now = store.run(run_id, tenant=tenant)
    if now is None:
        raise Invalid(f"run {run_id!r} ended long ago and was pruned just now.")
    return now


def discard(store: "SqlRequests", run_id: str, *, tenant: str, by: str, note: str = "") -> RunRow:
    """Take a dead letter off the desk; the run stays in the records, and the note in the audit."""
    done = store.discard(run_id, tenant=tenant, by=by, note=note)
    run = store.run(run_id, tenant=tenant)
    if run is None:
        raise Unknown(f"there is no run {run_id!r}; see: fencepost dead list")
    if not done and run.discarded_us is None:
        raise Invalid(f"run {run_id} is {run.state}, not dead; only dead letters can be discarded.")
    return run


def check_request(
    *, key: str | None = None, payload: Mapping[str, object] | None = None, priority: int | None = None
) -> None:
    """Refuse what no run can be made of."""
    if key is not None and not (1 <= len(key) <= KEY_MAX and key.isprintable()):
        raise Invalid(f"--key takes 1 to {KEY_MAX} printable characters, not {key[:40]!r} with {len(key)}.")
    if payload is not None:
        spell_payload(payload)
    if priority is not None and not -PRIORITY_MAX <= priority <= PRIORITY_MAX:
        raise Invalid(f"a priority is between -{PRIORITY_MAX:,} and {PRIORITY_MAX:,}, not {priority}.")


def spell_payload(payload: Mapping[str, object]) -> str:
    """Spell what a run is told, as its row keeps it."""
    try:
        text = json.dumps(payload, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"the payload is no JSON: {error}; it takes texts, finite numbers, lists and objects.") from None
    if len(text) > PAYLOAD_MAX:
        raise Invalid(f"the payload is larger than {PAYLOAD_MAX:,} bytes; put it into a file and hand over its path.")
    return text


def _recipe(grounds: Grounds, policy: OverlapPolicy | None, overlap: str | None) -> RunRecipe:
    recipe = RunRecipe.of(grounds.target)
    if recipe.schedule is None:
        if overlap is not None:
            raise Invalid(
                f"--overlap is about schedules, and {grounds.target.agent!r} is an agent, whose runs line up."
            )
        return recipe
    if not recipe.schedule.enabled:
        raise Invalid(f"schedule {recipe.schedule.name!r} is switched off (enabled = false); switch it on and apply.")
    return recipe if policy is None else replace(recipe, policies=replace(recipe.policies, overlap=policy))


def admitted(trigger: TriggerKind, recipe: RunRecipe, grounds: Grounds) -> Admitted:
    """Let it in, or refuse before anything is acknowledged."""
    if recipe.schedule is None:
        answer: Admission = admit_to_line(grounds.waiting, more=1, line_max=recipe.agent.waiting_max)
    else:
        answer = admit(Request(trigger), policy=recipe.policies.overlap, live=grounds.live)
    if isinstance(answer, TurnedAway):
        raise answer.error()
    assert isinstance(answer, Admitted), "only ticks are skipped"
    return answer


def _done_before(grounds: Grounds, tick: datetime) -> RunRow | None:
    """Return the run that has done this tick, if one has; one that is still at it is in the way."""
    for run in reversed(grounds.of_tick):
        if run.state == RunState.SUCCEEDED:
            return run
    for run in reversed(grounds.of_tick):
        if not RunState(run.state).terminal:
            raise Busy(f"run {run.id} for the tick {format_instant(tick)} is {run.state}; wait for it, or cancel it.")
    return None


def _check_kept(grounds: Grounds, tick: datetime) -> None:
    """Refuse to run a tick whose record was pruned: it may have run."""
    if grounds.pruned_us is not None and to_us(tick) <= grounds.pruned_us:
        until = format_instant(from_us(grounds.pruned_us))
        raise Invalid(
            f"records of {grounds.target.schedule} up to {until} were pruned, so it is not known any more whether the "
            f"tick {format_instant(tick)} was done; --again runs it with a new key."
        )


def _stretch(recipe: RunRecipe, grounds: Grounds, tenant: str, tick: datetime) -> tuple[Stretch, str]:
    """Return what the tick covers, and the key that its run has or would have had."""
    schedule = recipe.schedule
    if schedule is None:
        raise Invalid(f"--tick is about schedules, and {grounds.target.agent!r} is an agent.")
    if to_us(tick) > grounds.target.cursor_us:
        raise Invalid(f"the tick {format_instant(tick)} of {schedule.name} is still to come, or about to be decided.")
    key = idempotency_key(tenant, schedule.name, _version_then(grounds, schedule, tick), tick)
    if grounds.of_tick:
        run = grounds.of_tick[0]
        return Stretch(run.tick_us, run.occurrence, run.period_start_us, run.period_end_us), key
    then = _definition_then(grounds, schedule, tick)
    occurrence = _occurrence(then, tick, known=grounds.recorded is not None)
    start, end = period_of(then, tick)
    return Stretch(to_us(tick), occurrence.key, to_us(start), to_us(end)), key


def _version_then(grounds: Grounds, schedule: ScheduleDefinition, tick: datetime) -> int:
    if grounds.recorded is not None:
        return grounds.recorded.version
    version = _in_force(grounds.versions, tick)
    if version is None:
        raise Invalid(
            f"{schedule.name} did not exist at {format_instant(tick)}; to make up for earlier ticks: "
            f"fencepost schedule backfill {schedule.name} --current"
        )
    return version.version


def _definition_then(grounds: Grounds, schedule: ScheduleDefinition, tick: datetime) -> ScheduleDefinition:
    version = _in_force(grounds.versions, tick)
    return schedule_from_json(version.definition) if version else schedule


def _in_force(versions: Sequence[VersionFact], tick: datetime) -> VersionFact | None:
    """Return the version that decided an instant."""
    at_us = to_us(tick)
    found = [one for one in versions if one.after_us < at_us and (one.until_us is None or at_us <= one.until_us)]
    return found[-1] if found else None


def _occurrence(schedule: ScheduleDefinition, tick: datetime, *, known: bool) -> Occurrence:
    """Return which occurrence an instant is, or say which ones are near."""
    trigger = trigger_of(schedule)
    if isinstance(trigger, EveryTrigger):
        raise Invalid(f"{schedule.name} had no run at {format_instant(tick)}; see: fencepost runs {schedule.name}")
    found = trigger.next_after(tick - INSTANT)
    if found is not None and found.tick_at == tick:
        return found
    assert not known or found is None or found.tick_at > tick
    near = [one.tick_at for one in (trigger.last_before(tick), trigger.next_after(tick)) if one]
    hint = " or ".join(format_instant(one) for one in near) or "none"
    raise Invalid(f"{schedule.name} has no tick at {format_instant(tick)}; the nearest: {hint}.")


def _check_origin(origin: RunRow) -> None:
    state = RunState(origin.state)
    if not state.terminal:
        raise Busy(f"run {origin.id} is {origin.state}, not dead; wait for it, or cancel it.")
    if state is RunState.SUCCEEDED:
        again = f"fencepost run {origin.schedule or origin.agent}"
        raise Invalid(f"run {origin.id} succeeded, so there is nothing to replay; for another one: {again}")


def _replayed(replays: Sequence[RunRow], *, again: bool) -> RunRow | None:
    """Return the replay that makes another one needless."""
    for run in reversed(replays):
        if not RunState(run.state).terminal or (run.state == RunState.SUCCEEDED and not again):
            return run
    return None


def _as_then(recipe: RunRecipe, origin: RunRow) -> RunRecipe:
    target = recipe.target._replace(
        manifest=origin.manifest, manifest_hash=origin.manifest_hash, version=origin.version, agent=origin.agent
    )
    return RunRecipe.of(target)


def _said(run: RunRow, *, key: str | None, tick: datetime | None, again: bool, new: bool) -> str:
    if not new and key is not None and run.request_key == callers_key(key):
        return f"the key {key!r} made this run before; it is {run.state}."
    if not new and tick is not None:
        return f"the tick {format_instant(tick)} was done by this run; --again runs it once more, with a new key."
    if again and tick is not None:
        return f"running the tick {format_instant(tick)} again with a new idempotency key: effects may happen twice."
    return ""


def afford(recipe: RunRecipe, grounds: Grounds, *, counted_at: datetime | None = None) -> Reservation:
    """Set the budget of one run aside, or refuse up front and say which limit is in the way."""
    at = counted_at or from_us(grounds.now_us)
    timezone = recipe.schedule.timezone if recipe.schedule else None
    reservation = reserve(recipe.policies.budget, spend_of(grounds.spending, timezone, at), at=at)
    if isinstance(reservation, BudgetDenied):
        name = recipe.target.schedule or recipe.target.agent
        raise Busy(f"{name} is over its budget: {reservation.message}")
    return reservation


def period_of(schedule: ScheduleDefinition, tick: datetime) -> tuple[datetime, datetime]:
    """Return what a tick covers; `every` knows only where its own ticks ended."""
    trigger = trigger_of(schedule)
    return (tick, tick) if isinstance(trigger, EveryTrigger) else trigger.period(tick)
