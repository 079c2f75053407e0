"""A signed request from outside becomes a run, durably, once for each delivery."""

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost.model.duration import parse_duration
from fencepost.model.errors import Invalid, KeyReused, Misconfigured, Unauthorised, Unverifiable
from fencepost.model.new_run import RunRecipe, make_run, own_key
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
from fencepost.ports.webhooks import Delivered, Parcel

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


def genuine_hook(
    store: "RuntimeStore",
    delivery: HookRequest,
    *,
    tenant: str,
    name: str,
    now_seconds: int,
    fetch_secret: Callable[[str, str], str],
) -> Hook:
    """Return the hook that a delivery is signed for, or raise Unauthorised: a stranger does not learn which hooks there are."""
    row = store.hooks().hook(tenant, name)
    if row is None:
        raise Unauthorised(STRANGE)
    hook = hook_from_json(row.definition)
    try:
        secrets = [_secret(fetch_secret, one, tenant) for one in (hook.secret, hook.previous_secret) if one]
        genuine = is_genuine(hook.scheme, secrets, delivery.headers, delivery.body, now_seconds=now_seconds)
    except (
        Misconfigured,
        Invalid,
    ) as error:  # which secret it is, and that there is such a hook, is our business alone
        why = f"deliveries to the hook {name} of tenant {tenant} cannot be checked here: {error}"
        raise Unverifiable(STRANGE, why=why) from None
    if not genuine:
        raise Unauthorised(STRANGE)
    return hook


def receive(
    store: "RuntimeStore", hook: Hook, delivery: HookRequest, *, tenant: str, name: str, new_run_id: Callable[[], str]
) -> Received:
    """Make the run of a genuine delivery; it is durable when this returns. The same delivery again finds it."""
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
    payload: dict[str, Any] = {**payload_of(hook, content), "webhook": about}
    run_id = new_run_id()
    key = delivery_key(name, identity) if identity else None
    hold_us = round(parse_duration(hook.debounce) * 1e6) if hook.debounce else 0

    def decide(grounds: Grounds) -> Placement:
        recipe = RunRecipe.of(grounds.target)
        room = admitted(TriggerKind.WEBHOOK, recipe, grounds)
        run = make_run(
            recipe,
            run_id=run_id,
            tenant=tenant,
            trigger=TriggerKind.WEBHOOK,
            ready_us=grounds.now_us + hold_us,
            idempotency_key=own_key(tenant, "hook", name, identity or run_id),
            reservation=afford(recipe, grounds),
            payload=_counted(payload, 1) if hold_us else payload,
            request_key=key,
        )
        return Placement(run, room.displaces, room.stops)

    ask = Ask(tenant, hook.agent, f"hook:{name}", key=key)
    label = label_of(hook.scheme, delivery.headers)
    if hold_us or label:
        parcel = Parcel(name, identity, digest, hold_us, lambda count: _counted(payload, count), _digest_in, label)
        found = store.deliveries().deliver(ask, parcel, decide)
    else:
        asked = store.ask(ask, decide)
        found = Delivered("accepted" if asked.is_new else "duplicate", asked.run.id, _digest_in(asked.run.payload))
    if found.status == "duplicate" and found.digest != digest:
        raise KeyReused(f"delivery {label or identity} came before with another body, as run {found.run_id}.")
    return Received(found.status, found.run_id)


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
