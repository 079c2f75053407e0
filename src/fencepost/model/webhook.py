"""Webhooks in: who has signed a body, which delivery it is, and what of it an agent gets. Nothing is built from strings."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from hmac import new as hmac
from math import isfinite
from typing import Any, NoReturn

from fencepost.model.errors import Invalid
from fencepost.model.json_path import find, spelled
from fencepost.model.signature import TOLERANCE_SECONDS, is_signed

DEPTH_MAX = 64
ID_MAX = 400
RATE_DEFAULT = 600
HELD_FOR = 10  # times the debounce, at most: deliveries without an end must not keep their run from starting
SIGNATURES_MAX = 8
Headers = Mapping[str, str]  # names in lower case; what came twice is not there


@dataclass(frozen=True, slots=True)
class Hook:
    """A webhook."""

    agent: str
    scheme: str
    secret: str
    previous_secret: str = ""
    events: tuple[str, ...] = ()
    filter: Mapping[str, str] = field(default_factory=dict)
    payload: Mapping[str, str] = field(default_factory=dict)
    rate_per_minute: int = RATE_DEFAULT
    debounce: str = ""


def hook_from_json(text: str) -> Hook:
    """Read a webhook as the registry keeps it."""
    fields = json.loads(text)
    return Hook(**{**fields, "events": tuple(fields.get("events", ()))})


def is_genuine(scheme: str, secrets: Sequence[str], headers: Headers, body: bytes, *, now_seconds: int) -> bool:
    """Tell whether one of the secrets has signed these very bytes, lately where the scheme has a time."""
    match scheme:
        case "standard":
            return is_signed(secrets, headers, body, now_seconds=now_seconds)
        case "github":
            given = headers.get("x-hub-signature-256", "").removeprefix("sha256=")
            return _is_any([given], [_hex(secret, body) for secret in secrets])
        case "slack":
            at = headers.get("x-slack-request-timestamp", "")
            given = headers.get("x-slack-signature", "").removeprefix("v0=")
            wanted = [_hex(secret, f"v0:{at}:".encode() + body) for secret in secrets]
            return _is_recent(at, now_seconds) and _is_any([given], wanted)
        case "stripe":
            pairs = [part.strip().partition("=") for part in headers.get("stripe-signature", "").split(",")]
            at = next((value for name, _, value in pairs if name == "t"), "")
            marks = [value for name, _, value in pairs if name == "v1"][:SIGNATURES_MAX]
            wanted = [_hex(secret, f"{at}.".encode() + body) for secret in secrets]
            return _is_recent(at, now_seconds) and _is_any(marks, wanted)
        case "bearer":
            word, _, key = headers.get("authorization", "").partition(" ")
            return word.lower() == "bearer" and _is_any([key], secrets)
        case _:
            return False


def delivery_of(scheme: str, headers: Headers, body: bytes, content: Mapping[str, Any]) -> str:
    """Return what makes two deliveries the same one; empty if nothing does.

    GitHub signs the body alone, so that a replayed request may have another id in its header: the body is the id.
    """
    match scheme:
        case "standard":
            found: object = headers.get("webhook-id", "")
        case "github":
            found = f"body:{sha256(body).hexdigest()}"
        case "slack":
            found = content.get("event_id") or f"body:{sha256(body).hexdigest()}"
        case "stripe":
            found = content.get("id") or f"body:{sha256(body).hexdigest()}"
        case _:
            found = headers.get("idempotency-key") or headers.get("webhook-id") or ""
    if not isinstance(found, str) or len(found) > ID_MAX or not found.isprintable():
        raise Invalid(f"the delivery's id is no text of at most {ID_MAX} printable characters.")
    return found


def label_of(scheme: str, headers: Headers) -> str:
    """Return the id that GitHub names and does not sign: it cannot tell two deliveries alike, but two apart."""
    return headers.get("x-github-delivery", "")[:ID_MAX] if scheme == "github" else ""


def event_of(scheme: str, headers: Headers, content: Mapping[str, Any]) -> str:
    """Return what happened, in the sender's word."""
    if scheme == "github":
        return headers.get("x-github-event", "")
    if scheme == "slack":
        inner = content.get("event")
        return str(inner.get("type", "")) if isinstance(inner, dict) else str(content.get("type", ""))
    return str(content.get("type", ""))


def is_wanted(hook: Hook, event: str, content: Mapping[str, Any]) -> bool:
    """Tell whether a delivery is one that the hook is for."""
    if hook.events and event not in hook.events:
        return False
    return all(value in map(spelled, find(content, path)) for path, value in hook.filter.items())


def payload_of(hook: Hook, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the agent gets: the body, or the values that the hook names, as values and never as text."""
    if not hook.payload:
        return {"body": content}
    found = {name: find(content, path) for name, path in hook.payload.items()}
    return {name: values[0] if len(values) == 1 else values or None for name, values in found.items()}


def held_until_us(now_us: int, first_us: int, hold_us: int) -> int:
    """Return until when a run waits for more deliveries: so long after the last, and not for ever after the first."""
    return min(now_us + hold_us, first_us + HELD_FOR * hold_us)


def read_content(body: bytes) -> dict[str, Any]:
    """Read a body, or say what is wrong with it."""
    try:
        content = json.loads(body.decode("utf-8"), parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the body is no JSON ({error}); have the sender use application/json.") from None
    if not isinstance(content, dict):
        raise Invalid("the body is no JSON object.")
    if _depth(content) > DEPTH_MAX:
        raise Invalid(f"the body is nested deeper than {DEPTH_MAX} levels.")
    return content


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no finite number")


def _finite(text: str) -> float:
    """Refuse 1e999: Python takes it for infinity, which cannot be read back."""
    found = float(text)
    if not isfinite(found):
        _no_number(text)
    return found


def _depth(content: object) -> int:
    depth, level = 0, [content]
    while level and depth <= DEPTH_MAX:
        level = [below for one in level for below in _children(one)]
        depth += 1
    return depth


def _children(value: object) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _is_recent(at: str, now_seconds: int) -> bool:
    return at.isascii() and at.isdigit() and len(at) <= 12 and abs(now_seconds - int(at)) <= TOLERANCE_SECONDS  # noqa: PLR2004  # digits of any time in seconds


def _is_any(given: Sequence[str], wanted: Sequence[str]) -> bool:
    found = False
    for one in given:
        for other in wanted:  # all of them: how long it takes tells nothing
            found |= compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))
    return found


def _hex(secret: str, content: bytes) -> str:
    return hmac(secret.encode(), content, sha256).hexdigest()
