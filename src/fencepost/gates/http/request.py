"""Reads the head of an HTTP/1.1 request strictly: what two servers could read in two ways is refused."""

import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from fencepost.model.errors import Invalid

HEAD_MAX = 32_768
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
TARGET = re.compile(r"/[\x21-\x7e]*")
OVERLONG = re.compile(rb"[\xc0\xc1\xf5-\xff]|\xe0[\x80-\x9f]|\xf0[\x80-\x8f]")
# Some services take these for the method: a GET that needs no fence would write.
OVERRIDES = ("x-http-method", "x-method-override")
ONLY_ONCE = ("host", "content-length", "transfer-encoding", "content-type", "authorization")
# About one connection, not about the request: never handed on (RFC 9110, 7.6.1).
HOP_BY_HOP = frozenset(
    [
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "expect",
        "content-length",
        "host",
    ]
)


class Head(NamedTuple):
    """What a request says before its body."""

    method: str
    target: str  # path and query
    headers: tuple[tuple[str, str], ...]  # names in lower case
    length: int | None  # None: the body comes in chunks

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def by_name(self) -> dict[str, str]:
        """The headers by name; those of the fence come once, which was looked at."""
        return dict(self.headers)


def parse_head(raw: bytes) -> Head:
    """Read a head, from the request line to the empty line, or raise Invalid."""
    text = raw.decode("latin-1")
    if (
        not text.endswith("\r\n\r\n")
        or "\0" in text
        or "\n" in text.replace("\r\n", "")
        or "\r" in text.replace("\r\n", "")
    ):
        raise Invalid("lines of a request end with CR LF, and nothing else.")
    line, *lines = text[:-4].split("\r\n")
    words = line.split(" ")
    if len(words) != 3 or not TOKEN.fullmatch(words[0]) or words[2] != "HTTP/1.1":  # noqa: PLR2004  # as RFC 9112 says
        raise Invalid("the first line is: METHOD /path HTTP/1.1")
    if not TARGET.fullmatch(words[1]) or _climbs(words[1].partition("?")[0]):
        raise Invalid("the target is a plain path from / on, without .. or //, and no address of another host.")
    headers = tuple(_header(one) for one in lines)
    return Head(words[0], words[1], headers, _length(headers))


def passed_on(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the headers that belong to the message itself."""
    kept = list(headers)
    named = {one.strip().lower() for name, value in kept if name.lower() == "connection" for one in value.split(",")}
    return [(name, value) for name, value in kept if name.lower() not in HOP_BY_HOP | named]


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    # A line that begins with a blank goes on with the one before (obs-fold), and a blank before the colon hides a name.
    if not colon or not TOKEN.fullmatch(name) or not VALUE.fullmatch(value):
        raise Invalid(f"{line[:40]!r} is no header.")
    if "_" in name and _matters(name.lower().replace("_", "-")):
        raise Invalid(f"{name[:40]!r} is read by some services as if it had a hyphen.")
    return name.lower(), value.strip(" \t")


def _matters(name: str) -> bool:
    """Tell whether a header decides about the fence, the method, or where a request ends."""
    return name in HOP_BY_HOP or name in ONLY_ONCE or name.startswith(("fencepost-", *OVERRIDES))


def _length(headers: tuple[tuple[str, str], ...]) -> int | None:
    found: dict[str, str] = {}
    for name, value in headers:
        if name in found and (name in ONLY_ONCE or name.startswith("fencepost-")):
            raise Invalid(f"{name} comes twice.")
        found[name] = value
    if "host" not in found:
        raise Invalid("the Host header is missing.")
    coding, length = found.get("transfer-encoding"), found.get("content-length")
    if coding is not None:
        if length is not None or coding.lower() != "chunked":
            raise Invalid("a request has Content-Length, or Transfer-Encoding: chunked, and nothing else.")
        return None
    if length is None:
        return 0
    if not (length.isascii() and length.isdigit() and len(length) < 16):  # noqa: PLR2004  # as RFC 9112 says
        raise Invalid("Content-Length is a number.")
    return int(length)


def _climbs(path: str) -> bool:
    """Tell whether a path means another one than it says, decoded once or twice, with or without what follows a `;`."""
    decoded = unquote_to_bytes(unquote_to_bytes(path))
    if OVERLONG.search(decoded):
        return True  # a dot or slash in too many bytes, which lax servers read as one
    plain = unicodedata.normalize("NFKC", decoded.decode("utf-8", "replace"))
    parts = [part.partition(";")[0] for part in plain.split("/")]
    return "" in parts[1:-1] or "\\" in plain or "\0" in plain or any(part in (".", "..") for part in parts)
