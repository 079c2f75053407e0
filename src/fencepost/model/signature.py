"""Signs and verifies requests the way of Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from hashlib import sha256
from hmac import compare_digest
from hmac import new as hmac

from fencepost.model.errors import Invalid

TOLERANCE_SECONDS = 300
PREFIX = "whsec_"
SECRET_MIN = 16


def sign(secret: str, *, message_id: str, at_seconds: int, body: bytes) -> dict[str, str]:
    """Return the headers that prove who sent a body, and when."""
    signature = base64.b64encode(_mac(secret, message_id, str(at_seconds), body)).decode()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at_seconds),
        "webhook-signature": f"v1,{signature}",
    }


def is_signed(secrets: Sequence[str], headers: Mapping[str, str], body: bytes, *, now_seconds: int) -> bool:
    """Tell whether one of the secrets has signed this body within the last minutes; header names are in lower case."""
    message_id, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not message_id or not (at.isascii() and at.isdigit() and len(at) <= len(str(2**63))):
        return False
    if abs(now_seconds - int(at)) > TOLERANCE_SECONDS:
        return False
    given = [one.removeprefix("v1,").encode() for one in headers.get("webhook-signature", "").split()[:8]]
    wanted = [base64.b64encode(_mac(secret, message_id, at, body)) for secret in secrets]
    return (
        sum(compare_digest(one, other) for one in given for other in wanted) > 0
    )  # all: how long it takes tells nothing


def _mac(secret: str, message_id: str, at: str, body: bytes) -> bytes:
    return hmac(_key(secret), f"{message_id}.{at}.".encode() + body, sha256).digest()


def _key(secret: str) -> bytes:
    """Return the key's bytes: base64 after `whsec_`, else the text itself."""
    if not secret.startswith(PREFIX):
        key = secret.encode()
    else:
        try:
            key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        except binascii.Error:
            raise Invalid("the signing secret begins with whsec_ and is no base64.") from None
    if len(key) < SECRET_MIN:
        raise Invalid(f"the signing secret has less than {SECRET_MIN} bytes; make a longer one.")
    return key
