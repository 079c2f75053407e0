"""The headers in which a request shows its fence, and the answer to one that is refused."""

import json
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote

from fencepost.model.errors import FencepostError, FenceRefused, GateUnreachable, Invalid, Misconfigured
from fencepost.model.gate import FENCE_MAX, Mark, Proof, RefusedByMark

PREFIX = "fencepost-"
FENCE, RESOURCE, TENANT = "Fencepost-Fence", "Fencepost-Resource", "Fencepost-Tenant"
STORE, RUN, HOST = "Fencepost-Store-Id", "Fencepost-Run-Id", "Fencepost-Host"
REFUSED = "Fencepost-Refused"
NEEDS_NO_FENCE = ("GET", "HEAD", "OPTIONS", "TRACE")
VALUE_MAX = 8192
SAFE = ":/@!$&'()*+,;=-._~"  # what a resource shows as it is; the rest is percent-encoded, so that any name is ASCII

OK, BAD, FORBIDDEN, MISSING, STALE, NO_FENCE, AWAY = 200, 400, 403, 404, 409, 428, 503
STATUS: dict[type[FencepostError], int] = {
    Invalid: BAD,
    FenceRefused: STALE,
    GateUnreachable: AWAY,
    Misconfigured: AWAY,
}


class GateAnswer(NamedTuple):
    """An answer to a request that is not the service's own."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


def proof_headers(proof: Proof) -> dict[str, str]:
    """Return the headers that show a proof."""
    shown = {
        FENCE: str(proof.fence),
        RESOURCE: " ".join(quote(name, safe=SAFE) for name in proof.resources),
        TENANT: quote(proof.tenant, safe=SAFE),
        STORE: quote(proof.store or "", safe=SAFE),
        RUN: quote(proof.run_id, safe=SAFE),
        HOST: quote(proof.host, safe=SAFE),
    }
    return {name: value for name, value in shown.items() if value}


def proof_from(headers: Mapping[str, str]) -> Proof | None:
    """Return what a request shows, with names in lower case, None if it shows nothing; raise Invalid if it is broken."""
    if "content-length" in headers and "transfer-encoding" in headers:
        raise Invalid("a request has a Content-Length or a Transfer-Encoding, not both.")
    fence, resources = headers.get(FENCE.lower(), ""), headers.get(RESOURCE.lower(), "")
    if not fence and not resources:
        return None
    if not (fence.isascii() and fence.isdigit() and len(fence) < 20 and 0 < int(fence) <= FENCE_MAX):  # noqa: PLR2004  # digits of the largest fence
        raise Invalid(f"{FENCE} is one whole number from 1 to {FENCE_MAX}, and comes with {RESOURCE}.")
    if len(resources) > VALUE_MAX:
        raise Invalid(f"{RESOURCE} is too long.")
    return Proof(
        tenant=_text(headers, TENANT) or "default",
        resources=tuple(unquote(name) for name in resources.split()),
        fence=int(fence),
        store=_text(headers, STORE) or None,
        host=_text(headers, HOST),
        run_id=_text(headers, RUN),
    )


def refusal(error: FencepostError) -> GateAnswer:
    """Return the answer for an error, from which the other side can make the error again."""
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), AWAY)
    document: dict[str, object] = {"code": error.code, "message": str(error)}
    if isinstance(error, RefusedByMark):
        document.update(key=error.key, mark=error.mark._asdict())
    again = (("Retry-After", "1"),) if status == AWAY else ()
    return GateAnswer(status, _json(document), ((REFUSED, error.code), *again))


def no_fence() -> GateAnswer:
    """Return the answer to a writing request that shows no fence."""
    message = f"this service lets only requests write that show their fence: {FENCE} and {RESOURCE}. Nothing was done."
    return GateAnswer(NO_FENCE, _json({"code": "invalid", "message": message}), ((REFUSED, "no_fence"),))


def answered(document: object, status: int = OK) -> GateAnswer:
    """Return an answer with a document."""
    return GateAnswer(status, _json(document))


def error_in(code: str, body: bytes) -> FencepostError:
    """Make the error again that the other side has refused with."""
    try:
        document = json.loads(body)
        message = str(document["message"])
        if "mark" in document:
            return RefusedByMark(message, key=str(document["key"]), mark=Mark(**document["mark"]))
    except (ValueError, KeyError, TypeError):
        message = f"the service refused: {body[:200].decode(errors='replace')}"
    kinds = {kind.code: kind for kind in (FenceRefused, GateUnreachable, Invalid)}
    return kinds.get(code, Misconfigured)(message)


def _text(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name.lower(), "")
    if len(value) > VALUE_MAX:
        raise Invalid(f"{name} is too long.")
    return unquote(value)


def _json(document: object) -> bytes:
    return json.dumps(document).encode() + b"\n"
