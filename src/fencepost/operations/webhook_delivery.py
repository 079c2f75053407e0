"""Signed requests from outside become runs, durably, once for each delivery; those that wait together share a commit."""

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost.model.duration import parse_duration
from fencepost.model.errors import (
    Busy,
    FencepostError,
    Invalid,
    KeyReused,
    Misconfigured,
    Unauthorised,
    Unverifiable,
)
from fencepost.model.new_run import RunRecipe, make_run, own_keys
from fencepost.model.request_key import delivery_key
from fencepost.model.run import TriggerKind
from fencepost.model.webhook import (
    Hook,
    delivery_of,
    event_of,
    hook_from_json,
    is_genuine,
    is_wanted,
    label_of,
    payload_of,
    read_content,
)
from fencepost.operations.run_requests import admitted, afford
from fencepost.ports.requests import Ask, Grounds, Placement
from fencepost.ports.webhooks import DeliveryAnswer, HookParcels, Parcel
from fencepost.stores.transaction import RowRefused

if TYPE_CHECKING:
    from fencepost.stores.runtime import RuntimeStore

SECRET_MIN = 16
STRANGE = "there is no such hook, or the signature is not right."


class HookRequest(NamedTuple):
    """A request as it came: the raw body, and the headers in lower case."""

    headers: Mapping[str, str]
    body: bytes


class Received(NamedTuple):
    """What became of a delivery: accepted, coalesced, duplicate, filtered, or a handshake that wants its own text back."""

    status: str
    run_id: str | None = None
    challenge: str | None = None


class CheckedHook(NamedTuple):
    """A hook, by the name that it is called by, and the secrets that its deliveries may be signed with."""

    tenant: str
    name: str
    hook: Hook
    secrets: Sequence[str]


def receive(
    store: "RuntimeStore",
    deliveries: Sequence[HookRequest],
    *,
    tenant: str,
    name: str,
    now_seconds: int,
    fetch_secret: Callable[[str, str], str],
    new_run_ids: Callable[[int], list[str]],
    admit: Callable[[Hook], None] = lambda _: None,
) -> list[Received | FencepostError]:
    """Make the runs of the genuine ones among deliveries to one hook; they are durable when this returns.

    Each has its own answer, and one that is refused is refused alone. The same delivery again finds its run.
    `admit` is asked about each that is genuine, and may refuse it.
    """
    checked = _checked_hook(store, tenant, name, fetch_secret)
    answers: dict[int, Received | FencepostError] = {}
    parcels: dict[int, Parcel] = {}
    for number, (delivery, run_id) in enumerate(zip(deliveries, sorted(new_run_ids(len(deliveries))), strict=True)):
        try:
            _check_signed(checked, delivery, now_seconds)
            admit(checked.hook)
            found = _read(checked, delivery, run_id)
        except FencepostError as error:
            answers[number] = error
            continue
        if isinstance(found, Parcel):
            parcels[number] = found
        else:
            answers[number] = found
    delivered = _deliver(store, checked, list(parcels.values())) if parcels else []
    for (number, parcel), answer in zip(parcels.items(), delivered, strict=True):
        answers[number] = _received(parcel, answer)
    return [answers[number] for number in range(len(deliveries))]


def _checked_hook(
    store: "RuntimeStore", tenant: str, name: str, fetch_secret: Callable[[str, str], str]
) -> CheckedHook:
    """Return a hook with its secrets, or raise Unauthorised: a stranger does not learn which hooks there are."""
    row = store.hooks().hook(tenant, name)
    if row is None:
        raise Unauthorised(STRANGE)
    hook = hook_from_json(row.definition)
    try:
        secrets = [_secret(fetch_secret, one, tenant) for one in (hook.secret, hook.previous_secret) if one]
    except (Misconfigured, Invalid) as error:
        raise _unverifiable(tenant, name, error) from None
    return CheckedHook(tenant, name, hook, secrets)


def _check_signed(checked: CheckedHook, delivery: HookRequest, now_seconds: int) -> None:
    """Raise Unauthorised unless the delivery is signed for the hook."""
    scheme = checked.hook.scheme
    try:
        genuine = is_genuine(scheme, checked.secrets, delivery.headers, delivery.body, now_seconds=now_seconds)
    except (Misconfigured, Invalid) as error:
        raise _unverifiable(checked.tenant, checked.name, error) from None
    if not genuine:
        raise Unauthorised(STRANGE)


def _unverifiable(tenant: str, name: str, error: FencepostError) -> Unverifiable:
    """Say to the operator alone which secret it is, and that there is such a hook."""
    return Unverifiable(
        STRANGE, why=f"deliveries to the hook {name} of tenant {tenant} cannot be checked here: {error}"
    )


def _read(checked: CheckedHook, delivery: HookRequest, run_id: str) -> Received | Parcel:
    """Read a genuine delivery: it is answered at once, or is to become a run."""
    hook, name = checked.hook, checked.name
    content = read_content(delivery.body)
    challenge = content.get("challenge")
    if hook.scheme == "slack" and content.get("type") == "url_verification" and isinstance(challenge, str):
        return Received("challenge", challenge=challenge)
    event = event_of(hook.scheme, delivery.headers, content)
    if (hook.scheme == "github" and event == "ping") or not is_wanted(hook, event, content):
        return Received("filtered")
    identity = delivery_of(hook.scheme, delivery.headers, delivery.body, content)
    digest = sha256(delivery.body).hexdigest()
    about = {"hook": name, "delivery": identity, "event": event, "sha256": digest}
    told: dict[str, Any] = {**payload_of(hook, content), "webhook": about}
    alone = json.dumps(told)
    key = delivery_key(name, identity) if identity else None
    label = label_of(hook.scheme, delivery.headers)
    return Parcel(run_id, identity, key, digest, lambda count: _counted(told, count) if hook.debounce else alone, label)


def _deliver(store: "RuntimeStore", checked: CheckedHook, parcels: Sequence[Parcel]) -> list[DeliveryAnswer]:
    """Have deliveries taken together; if the database does not take the rows of one, each is taken apart."""
    hook, tenant, name = checked.hook, checked.tenant, checked.name
    hold_us = round(parse_duration(hook.debounce) * 1e6) if hook.debounce else 0
    key_of = own_keys(tenant, "hook", name)

    def decide(grounds: Grounds, news: Sequence[Parcel]) -> list[Placement | FencepostError]:
        recipe = RunRecipe.of(grounds.target)
        decided: list[Placement | FencepostError] = []
        waiting = grounds.waiting
        for parcel in news:
            try:
                room = admitted(TriggerKind.WEBHOOK, recipe, grounds._replace(waiting=waiting))
                run = make_run(
                    recipe,
                    run_id=parcel.run_id,
                    tenant=tenant,
                    trigger=TriggerKind.WEBHOOK,
                    ready_us=grounds.now_us + hold_us,
                    idempotency_key=key_of(parcel.id) if parcel.id else parcel.run_id,
                    reservation=afford(recipe, grounds),
                    payload=parcel.payload(1),
                    request_key=parcel.key,
                )
            except Busy as error:
                decided.append(error)
            else:
                waiting += 1
                decided.append(Placement(run, room.displaces, room.stops))
        return decided

    def taken(some: Sequence[Parcel]) -> list[DeliveryAnswer]:
        try:
            return store.deliveries().deliver(
                Ask(tenant, hook.agent, f"hook:{name}"), HookParcels(name, hold_us, _digest_in, some), decide
            )
        except RowRefused as error:
            return [error] if len(some) == 1 else [taken([one])[0] for one in some]

    return taken(parcels)


def _received(parcel: Parcel, answer: DeliveryAnswer) -> Received | FencepostError:
    if isinstance(answer, FencepostError):
        return answer
    if answer.status == "duplicate" and answer.digest != parcel.digest:
        which = parcel.label or parcel.id
        return KeyReused(f"delivery {which} came before with another body, as run {answer.run_id}.")
    return Received(answer.status, answer.run_id)


def _counted(payload: Mapping[str, Any], count: int) -> str:
    """Spell what a run is told that stands for so many deliveries."""
    return json.dumps({**payload, "webhook": {**payload["webhook"], "deliveries": count}})


def _digest_in(payload: str) -> str:
    return str(json.loads(payload).get("webhook", {}).get("sha256", ""))


def _secret(fetch_secret: Callable[[str, str], str], reference: str, tenant: str) -> str:
    secret = fetch_secret(reference, tenant)
    if len(secret) < SECRET_MIN:
        raise Misconfigured(f"the hook's secret {reference} has less than {SECRET_MIN} characters; make a longer one.")
    return secret
