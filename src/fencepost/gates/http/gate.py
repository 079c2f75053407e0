"""The gate of a service, as the holder of a lease sees it: raised over HTTP before the run starts."""

import json
from collections.abc import Iterable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from fencepost.gates.http.door import PATH
from fencepost.gates.http.headers import OK, REFUSED, error_in, proof_headers
from fencepost.gates.target_secrets import resolved
from fencepost.model.errors import GateUnreachable, Invalid, Misconfigured
from fencepost.model.gate import Mark, Proof
from fencepost.model.target import Target
from fencepost.ports.gate import Fetch, GateStatus

WAIT_SECONDS = 30.0  # longer than the service waits for its requests
PROBE_SECONDS = 10.0
BODY_MAX = 4_194_304
ASKED = {"raise": "raise", "check": "ask", "status": "ask"}  # what each verb is, in a sentence


class HttpGate:
    """A service with the middleware, or with the proxy before it."""

    def __init__(self, target: Target, *, fetch: Fetch) -> None:
        self._fetch = fetch
        url = resolved(target.where, fetch)
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise Invalid("an HTTP gate's url is http://host:port or https://host, with no query.")
        self._base = parts
        self._key = target.option("key")
        self._seconds = WAIT_SECONDS
        self._target = Target("http", target.where.rstrip("/"), target.options)

    @property
    def target(self) -> str:
        """Return `http:` and the service's address."""
        return self._target.text

    def raise_fence(self, proof: Proof, *, adopt: bool = False) -> None:
        """Lift the marks, or raise FenceRefused; the service waits for requests in flight before it answers."""
        self._ask("raise", target=self.target, proof=proof._asdict(), adopt=adopt)

    def check(self, proof: Proof) -> None:
        """Raise FenceRefused if a request would be refused now; it may be refused later all the same."""
        self._ask("check", target=self.target, proof=proof._asdict())

    def probe(self) -> None:
        """Raise Misconfigured unless the service answers as a gate does and takes our key; nothing is changed there."""
        self._seconds = PROBE_SECONDS
        try:
            self.status()
        finally:
            self._seconds = WAIT_SECONDS

    def status(self) -> GateStatus:
        """Return the marks of the service."""
        document = self._ask("status")
        try:
            marks = {str(key): Mark(**fields) for key, fields in document["marks"].items()}
        except (KeyError, TypeError, AttributeError):
            raise Misconfigured(f"{self.target} is no gate: its answer names no marks.") from None
        return GateStatus(self.target, marks, ())

    def send(self, proof: Proof, method: str, path: str, body: bytes | Iterable[bytes] = b"") -> tuple[int, bytes]:
        """Send a request with the proof, and return status and body, or raise what the gate refused it with."""
        headers = proof_headers(proof)
        if isinstance(body, bytes):
            headers["Content-Length"] = str(len(body))
        status, answer = self._request(method, path, body, headers, doing="send to")
        return status, answer

    def _ask(self, verb: str, **fields: Any) -> Any:  # noqa: ANN401  # JSON
        if not self._key:
            raise Misconfigured(f'{self.target} needs the gate\'s key: key = "env:NAME", or #key=env:NAME.')
        headers = {"Authorization": f"Bearer {resolved(self._key, self._fetch)}", "Content-Type": "application/json"}
        body = json.dumps(fields).encode()
        headers["Content-Length"] = str(len(body))
        status, answer = self._request("POST", PATH + verb, body, headers, doing=ASKED[verb])
        if status != OK:
            raise Misconfigured(
                f"cannot {ASKED[verb]} {self.target}: it answered {status}: {answer[:200].decode(errors='replace').strip()} "
                "Is the middleware or the proxy there, and is the key right?"
            )
        try:
            return json.loads(answer)
        except ValueError:
            raise Misconfigured(f"{self.target} is no gate: it answered no JSON.") from None

    def _request(
        self, method: str, path: str, body: bytes | Iterable[bytes], headers: Mapping[str, str], *, doing: str
    ) -> tuple[int, bytes]:
        kind = HTTPSConnection if self._base.scheme == "https" else HTTPConnection
        connection = kind(self._base.hostname or "", self._base.port, timeout=self._seconds)
        try:
            connection.request(method, self._base.path.rstrip("/") + path, body, dict(headers))
            response = connection.getresponse()
            answer = response.read(BODY_MAX)
        except (OSError, HTTPException) as error:
            raise GateUnreachable(f"cannot {doing} {self.target}: {str(error) or type(error).__name__}.") from None
        finally:
            connection.close()
        code = response.getheader(REFUSED)
        if code:
            raise error_in(code, answer)
        return response.status, answer


def open_http_gate(target: Target, *, fetch: Fetch) -> HttpGate:
    """Open the gate of a service."""
    return HttpGate(target, fetch=fetch)
