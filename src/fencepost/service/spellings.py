"""The ways in which programs print a secret: as it is, in JSON, in an address, in base64."""

import base64
import json
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

BASE64_MIN = 8  # what is left of a short secret is too likely to be something else


def spellings(secret: str) -> list[bytes]:
    """Return a secret in every spelling that gives it away, each once."""
    texts = [secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]
    texts += [
        quote(secret, safe="", errors="replace"),
        quote(secret, errors="replace"),
        quote_plus(secret, errors="replace"),
    ]
    found = [text.encode("utf-8", "replace") for text in texts]
    return list(dict.fromkeys([*found, *_in_base64(found[0])]))


def _in_base64(secret: bytes) -> Iterator[bytes]:
    """Yield what base64 makes of a secret in the middle of something: it depends on where the secret begins."""
    for before in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            whole = encode(bytes(before) + secret)
            own = whole[-(-before * 8 // 6) : (before + len(secret)) * 8 // 6]  # the rest depends on the neighbours
            if len(own) >= BASE64_MIN:
                yield own
