"""Cells behind the web door of another Fencepost: one small machine serves the others."""

from __future__ import annotations

import json
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from fencepost.cells.http_requests import NoReply, NotSent, Reply, Server
from fencepost.model.errors import Misconfigured, StoreUnavailable
from fencepost.ports.cells import Answer, CellFacts, Read, SwapOutcome

if TYPE_CHECKING:
    from collections.abc import Collection

TTL_SECONDS, POLL_SECONDS = 30.0, 1.0
PATH = "/api/v1/cells"
OK, GONE, NOT_FOUND, CONFLICT = (200, 201), 204, 404, 412
REFUSED = (400, 401, 403, 405, 413, 421, 422)


class HttpCells:
    """Cells of the tenant that the key is of."""

    def __init__(self, server: Server, path: str, *, key: str, shown: str) -> None:
        if not key:
            raise Misconfigured(
                f"{shown} takes a key in FENCEPOST_STORE_KEY; make one there: fencepost key create NAME --role lease"
            )
        self._server = server
        self._path = f"{path.rstrip('/')}{PATH}"
        self._headers = {"Authorization": f"Bearer {key}", "Accept": "application/json"}
        self.facts = CellFacts("http", shown, TTL_SECONDS, POLL_SECONDS)

    def read(self, names: Collection[str], *, seconds: float) -> dict[str, Read]:
        """Get each cell."""
        return {name: self._read(name, seconds) for name in names}

    def swap(self, name: str, tag: str | None, document: bytes | None, *, seconds: float) -> SwapOutcome:
        """Put, or delete, a cell in the place of the one with this tag, or of none."""
        condition = {"If-Match": f'"{tag}"'} if tag else {"If-None-Match": "*"}
        headers = {**self._headers, **condition, "Content-Type": "application/json"}
        method = "PUT" if document is not None else "DELETE"
        try:
            reply = self._server.ask(method, self._at(name), headers=headers, body=document or b"", seconds=seconds)
        except NotSent as error:
            raise self._server.unreachable(error) from None
        except NoReply as error:
            return SwapOutcome(None, Answer.UNKNOWN, str(error))
        if reply.status in OK or reply.status == GONE:
            return SwapOutcome(_tag(reply) or "")
        if reply.status in (CONFLICT, NOT_FOUND):
            return SwapOutcome(None, Answer.CONFLICT)
        if reply.status in REFUSED:
            raise self._refused(reply)
        return SwapOutcome(None, Answer.UNKNOWN, _words(reply))

    def list(self, prefix: str, *, seconds: float) -> list[str]:
        """Return the names of the cells."""
        reply = self._asked(f"{self._path}?prefix={quote(prefix)}", seconds)
        try:
            return sorted(str(name) for name in json.loads(reply.body)["names"])
        except (ValueError, TypeError, KeyError, RecursionError):
            raise StoreUnavailable(f"{self.facts.url} does not speak as Fencepost's web door does.") from None

    def weaknesses(self, *, seconds: float) -> tuple[str, ...]:
        """Return nothing: the store behind the door refuses to be weak by itself."""
        del seconds
        return ()

    def close(self) -> None:
        """Keep nothing open."""

    def _read(self, name: str, seconds: float) -> Read:
        reply = self._asked(self._at(name), seconds, missing=True)
        if reply.status == NOT_FOUND:
            return Read(None, None, _date(reply))
        return Read(reply.body, _tag(reply), _date(reply))

    def _asked(self, path: str, seconds: float, *, missing: bool = False) -> Reply:
        reply = self._server.read("GET", path, headers=self._headers, seconds=seconds)
        if reply.status in OK or (missing and reply.status == NOT_FOUND and _is_our_404(reply)):
            return reply
        if reply.status in (*REFUSED, NOT_FOUND):
            raise self._refused(reply)
        raise StoreUnavailable(f"{self.facts.url}: {_words(reply)}")

    def _refused(self, reply: Reply) -> Misconfigured:
        return Misconfigured(f"{self.facts.url} refuses: {_words(reply)} It takes a key with the role lease.")

    def _at(self, name: str) -> str:
        return f"{self._path}/{quote(name)}"


def _is_our_404(reply: Reply) -> bool:
    """Tell a cell that is not there from a server that knows nothing of cells."""
    try:
        return bool(json.loads(reply.body).get("code") == "no_cell")
    except (ValueError, AttributeError, RecursionError):
        return False


def _tag(reply: Reply) -> str | None:
    return reply.headers.get("etag", "").strip('"') or None


def _date(reply: Reply) -> int | None:
    said = reply.headers.get("date")
    try:
        return round(parsedate_to_datetime(said).timestamp()) * 1_000_000 if said else None
    except ValueError:
        return None


def _words(reply: Reply) -> str:
    try:
        return str(json.loads(reply.body).get("detail") or f"HTTP {reply.status}")
    except (ValueError, AttributeError, RecursionError):
        return f"HTTP {reply.status}."
