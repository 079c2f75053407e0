"""Cells in etcd, by its JSON gateway: one key each, and a transaction on the key's last revision."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

from fencepost.cells.http_requests import NoReply, NotSent, Reply, Server
from fencepost.model.errors import Misconfigured, StoreUnavailable
from fencepost.ports.cells import Answer, CellFacts, Read, SwapOutcome

if TYPE_CHECKING:
    from collections.abc import Collection

TTL_SECONDS, POLL_SECONDS = 30.0, 1.0
OK = 200
REFUSED = (400, 401, 403, 404)
CONFLICT = SwapOutcome(None, Answer.CONFLICT)
STRANGE = (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError)  # how a wrong shape shows


class EtcdCells:
    """Keys below a prefix."""

    def __init__(self, server: Server, prefix: str, *, login: tuple[str, str] | None, shown: str) -> None:
        self._server = server
        self._prefix = f"{prefix.strip('/') or 'fencepost'}/cells/"
        self._login = login
        self._key = ""
        self.facts = CellFacts("etcd", shown, TTL_SECONDS, POLL_SECONDS)

    def read(self, names: Collection[str], *, seconds: float) -> dict[str, Read]:
        """Get each key as the cluster has agreed on it."""
        return {name: self._read(name, seconds) for name in names}

    def swap(self, name: str, tag: str | None, document: bytes | None, *, seconds: float) -> SwapOutcome:
        """Put, or delete, a key whose last revision is this one; a key that is not there has revision 0."""
        key = self._spelled(name)
        compare = {"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": tag or "0"}
        then = (
            {"requestPut": {"key": key, "value": b64encode(document).decode()}}
            if document is not None
            else {"requestDeleteRange": {"key": key}}
        )
        try:
            reply = self._post("/v3/kv/txn", {"compare": [compare], "success": [then]}, seconds)
        except NotSent as error:
            raise self._server.unreachable(error) from None
        except NoReply as error:
            return SwapOutcome(None, Answer.UNKNOWN, str(error))
        if reply.status in REFUSED:
            raise Misconfigured(f"{self.facts.url} refuses: {_words(reply)}.")
        if reply.status != OK:
            return SwapOutcome(None, Answer.UNKNOWN, _words(reply))
        try:
            answer = json.loads(reply.body)
            return SwapOutcome(str(answer["header"]["revision"])) if answer.get("succeeded") else CONFLICT
        except STRANGE:
            return SwapOutcome(None, Answer.UNKNOWN, _words(reply))

    def list(self, prefix: str, *, seconds: float) -> list[str]:
        """Return the names of the keys."""
        first = f"{self._prefix}{prefix}".encode()
        after = first[:-1] + bytes([first[-1] + 1])
        wanted = {"key": b64encode(first).decode(), "range_end": b64encode(after).decode(), "keys_only": True}
        found = self._asked(wanted, seconds).get("kvs", [])
        try:
            return sorted(b64decode(one["key"]).decode().removeprefix(self._prefix) for one in found)
        except STRANGE:
            raise _strange(self.facts.url) from None

    def weaknesses(self, *, seconds: float) -> tuple[str, ...]:
        """Return nothing: etcd answers after a majority has written."""
        del seconds
        return ()

    def close(self) -> None:
        """Keep nothing open."""

    def _read(self, name: str, seconds: float) -> Read:
        found = self._asked({"key": self._spelled(name)}, seconds).get("kvs", [])
        try:
            return Read(b64decode(found[0]["value"]), str(found[0]["mod_revision"])) if found else Read(None, None)
        except STRANGE:
            raise _strange(self.facts.url) from None

    def _asked(self, wanted: dict[str, Any], seconds: float) -> dict[str, Any]:
        try:
            reply = self._post("/v3/kv/range", wanted, seconds)
        except (NotSent, NoReply) as error:
            raise self._server.unreachable(error) from None
        if reply.status in REFUSED:
            raise Misconfigured(f"{self.facts.url} refuses: {_words(reply)}.")
        if reply.status != OK:
            raise StoreUnavailable(f"{self.facts.url}: {_words(reply)}.")
        return _fields(reply, self.facts.url)

    def _post(self, path: str, fields: dict[str, Any], seconds: float) -> Reply:
        headers = {"Content-Type": "application/json"}
        if self._login and not self._key:
            name, password = self._login
            said = json.dumps({"name": name, "password": password}).encode()
            reply = self._server.read("POST", "/v3/auth/authenticate", headers=headers, body=said, seconds=seconds)
            if reply.status != OK:
                raise Misconfigured(f"{self.facts.url} refuses the login: {_words(reply)}.")
            self._key = str(_fields(reply, self.facts.url)["token"])
        if self._key:
            headers["Authorization"] = self._key
        return self._server.ask("POST", path, headers=headers, body=json.dumps(fields).encode(), seconds=seconds)

    def _spelled(self, name: str) -> str:
        return b64encode(f"{self._prefix}{name}".encode()).decode()


def _fields(reply: Reply, url: str) -> dict[str, Any]:
    try:
        fields = json.loads(reply.body)
    except (ValueError, RecursionError):
        raise _strange(url) from None
    if not isinstance(fields, dict):
        raise _strange(url)
    return fields


def _strange(url: str) -> StoreUnavailable:
    return StoreUnavailable(f"{url} does not speak as etcd's JSON gateway does.")


def _words(reply: Reply) -> str:
    try:
        fields = json.loads(reply.body)
        return str(fields.get("message") or fields.get("error") or f"HTTP {reply.status}")
    except STRANGE:
        return f"HTTP {reply.status}"
