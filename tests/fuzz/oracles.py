"""Other ways to the same answers, which share no code with the product: what a fuzzer compares it with."""

import base64
import hashlib
import hmac
import re
import string
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cache

from cronsim import CronSim, CronSimError

from tests.model.brute_force import Walk, zoneinfo_of

# cronsim knows no nW and no range that ends in SUN, and reads 5-5/2 as 5/2; what it means by blanks and case is its own.
READ_ALIKE = re.compile(r"[0-9*/,L#]+( [0-9*/,L#]+){4}|[0-9*,]+( [0-9*,-]+){4}")
ODD_STEP = re.compile(r"\b(\d+)-\1/")
DURATION = re.compile(
    r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?"
)
UNITS = (Fraction(86_400), Fraction(3_600), Fraction(60), Fraction(1), Fraction(1, 1000))
MARGIN = timedelta(days=2)


@cache
def walk(zone: str, start: datetime, end: datetime) -> Walk:
    return Walk.over(zoneinfo_of(zone), start, end, MARGIN)


def instants(text: str, zone: str, start: datetime, end: datetime, *, gap: str, fold: str) -> list[datetime] | None:
    """Return when an expression of minutes fires, from cronsim's walls and a walk over every minute; None: cannot tell."""
    if not READ_ALIKE.fullmatch(text) or ODD_STEP.search(text):
        return None
    try:
        walls = set(_walls(text, start - MARGIN, end + MARGIN))
    except CronSimError:
        return None
    if fold == "auto":
        fold = "both" if text.split()[1].startswith("*") else "first"
    return walk(zone, start, end).fired(walls, gap, fold)


def _walls(text: str, start: datetime, end: datetime) -> Iterator[datetime]:
    """Yield the wall times of an expression; it is asked as if there were no zones."""
    for wall in CronSim(text, start.replace(tzinfo=None) - timedelta(minutes=1)):
        if wall >= end.replace(tzinfo=None):
            return
        yield wall


def seconds(text: str) -> Fraction | None:
    """Return what a duration means, or None if it is none."""
    found = DURATION.fullmatch(text.strip(" \t"))
    if found is None or not any(found.groups()) or not text.isascii():
        return None
    return sum(
        (Fraction(number) * unit for number, unit in zip(found.groups(), UNITS, strict=True) if number), Fraction(0)
    )


def signed(scheme: str, secret: str, body: bytes, at: int) -> dict[str, str]:
    """Sign a body as the senders of a scheme do, from their own description of it."""

    def mac(content: bytes) -> "hmac.HMAC":
        return hmac.new(secret.encode(), content, hashlib.sha256)

    match scheme:
        case "standard":
            proof = base64.b64encode(mac(b"m1.%d." % at + body).digest()).decode()
            return {"webhook-id": "m1", "webhook-timestamp": str(at), "webhook-signature": f"v1,{proof}"}
        case "github":
            return {"x-hub-signature-256": f"sha256={mac(body).hexdigest()}"}
        case "slack":
            proof = "v0=" + mac(b"v0:%d:" % at + body).hexdigest()
            return {"x-slack-request-timestamp": str(at), "x-slack-signature": proof}
        case "stripe":
            return {"stripe-signature": f"t={at},v1={mac(b'%d.' % at + body).hexdigest()}"}
        case _:
            return {"authorization": f"Bearer {secret}"}


def blotted(text: bytes, secrets: list[bytes], mark: bytes) -> bytes:
    """Blot secrets out of a whole text, byte by byte; those that overlap are one blot."""
    covered_until, blots = 0, []
    for at in range(len(text)):
        ends = [at + len(secret) for secret in secrets if text.startswith(secret, at)]
        if ends and at >= covered_until:
            blots.append([at, max(ends)])
        elif ends:
            blots[-1][1] = max(blots[-1][1], *ends)
        covered_until = max([covered_until, *ends])
    shown, at = [], 0
    for start, end in blots:
        shown += [text[at:start], mark]
        at = end
    return b"".join([*shown, text[at:]])


def spelt(secret: str, style: int) -> bytes:
    """Spell a secret as some library does, from what its output looks like."""
    text = secret.encode("utf-8", "replace").decode()
    escaped = re.sub(r'["\\\\]', lambda found: "\\\\" + found[0], text)
    match style % 6:
        case 0:
            spelled = escaped.replace("/", r"\/")
        case 1:
            spelled = escaped.replace("/", r"\u002f")
        case 2:
            spelled = re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", escaped)
        case 3:
            kept = string.ascii_letters + string.digits + "-_.!~*'()"
            spelled = "".join(one if one in kept else "".join(f"%{byte:02x}" for byte in one.encode()) for one in text)
        case 4:
            spelled = "".join(f"\\u{ord(one):04X}" for one in text)
        case _:
            spelled = text
    return spelled.encode()


def letters(value: object) -> str:
    """Return the letters of a name as the laxest of readers compares it: without case, marks and other signs."""
    if not isinstance(value, str):
        return ""
    upper = "".join(one.upper() for one in unicodedata.normalize("NFKD", value))
    return re.sub(r"[^a-z0-9]", "", upper.replace("\u0130", "I").lower())


WINDOWS = (  # two days in which clocks go ahead, and two in which they go back
    (datetime(2027, 3, 27, tzinfo=UTC), datetime(2027, 3, 29, tzinfo=UTC)),
    (datetime(2027, 10, 30, tzinfo=UTC), datetime(2027, 11, 1, tzinfo=UTC)),
)
