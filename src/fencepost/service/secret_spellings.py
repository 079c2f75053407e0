"""The ways in which programs print a secret: as it is, in JSON, in an address, in base64."""

import base64
import json
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

BASE64_MIN = 8  # what is left of a short secret is too likely to be something else
LONG = 256  # of a longer secret, such as a private key, no program writes each letter as a number
SLASHES = ("/", r"\/", r"\u002f")
# What JSON may hold as it is, and some libraries write as a number all the same: for HTML, or for text that might be code.
FOR_HTML, FOR_ANYTHING = "<>&", "<>&'\"`+"
# What stays as it is in an address: nothing, a path, a part of one in JavaScript, and a whole address there.
ADDRESSES = ("", "/", "!*'()", ";,/?:@&=+$!*'()#")


def spellings(secret: str) -> list[bytes]:
    """Return a secret in every spelling that gives it away, each once."""
    once = list(_in_json(secret))
    nested = [json.dumps(text, ensure_ascii=False)[1:-1] for text in once]  # a JSON text in a JSON text
    texts = [secret, *once, *nested, *_in_addresses(secret)]
    found = [text.encode("utf-8", "replace") for text in texts]
    return list(dict.fromkeys([*found, *_in_base64(found[0])]))


def _in_json(secret: str) -> Iterator[str]:
    """Yield a secret as the JSON libraries write it: they differ in what they write as a number, and how."""
    foreign = {one for one in secret if not one.isascii()}
    letters = set(secret) if len(secret) <= LONG else set()
    for numbered in (set(), foreign, {*FOR_HTML}, foreign | {*FOR_HTML}, foreign | {*FOR_ANYTHING}, letters):
        for slash in SLASHES:
            yield "".join(slash if one == "/" else _letter(one, numbered, upper=False) for one in secret)
            yield "".join(
                slash.replace("f", "F") if one == "/" else _letter(one, numbered, upper=True) for one in secret
            )


def _letter(one: str, numbered: set[str], *, upper: bool) -> str:
    if one not in numbered:
        return json.dumps(one, ensure_ascii=False)[1:-1]
    units = one.encode("utf-16-be", "surrogatepass")
    digits = "04X" if upper else "04x"
    return "".join(f"\\u{int.from_bytes(units[at : at + 2]):{digits}}" for at in range(0, len(units), 2))


def _in_addresses(secret: str) -> Iterator[str]:
    for kept in ADDRESSES:
        yield from _both_cases(quote(secret, safe=kept, errors="replace"))
    yield from _both_cases(quote_plus(secret, errors="replace"))


def _both_cases(text: str) -> Iterator[str]:
    """Yield a percent-encoded text with great and small digits."""
    yield text
    first, *rest = text.split("%")
    yield "%".join([first, *(part[:2].lower() + part[2:] for part in rest)])


def _in_base64(secret: bytes) -> Iterator[bytes]:
    """Yield what base64 makes of a secret in the middle of something: it depends on where the secret begins."""
    for before in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            whole = encode(bytes(before) + secret)
            own = whole[-(-before * 8 // 6) : (before + len(secret)) * 8 // 6]  # the rest depends on the neighbours
            if len(own) >= BASE64_MIN:
                yield own
