"""For WSGI services (Flask, Django …): only requests with the newest fence may write.

    app = FenceMiddleware(app, marks="/var/lib/shop/fences", key=os.environ["GATE_KEY"])

As in `fencepost.integrations.asgi`; a request counts as under way until its answer was sent and closed.
"""

from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from io import BytesIO
from typing import Any

from fencepost.gates.http.door import BODY_MAX, PATH, ServiceDoor
from fencepost.gates.http.headers import NEEDS_NO_FENCE, GateAnswer, no_fence, proof_from, refusal
from fencepost.gates.http.marks import WAIT_SECONDS, RequestPassage
from fencepost.host.clock import SystemClock
from fencepost.model.errors import FencepostError

Environ = dict[str, Any]
Start = Callable[..., Any]
App = Callable[[Environ, Start], Iterable[bytes]]

BUFFER_BYTES = 1_048_576


class FenceMiddleware:
    """Compares the fence of every request that may write."""

    def __init__(
        self,
        app: App,
        *,
        marks: str,
        key: str,
        name: str = "this service",
        free: tuple[str, ...] = NEEDS_NO_FENCE,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._app = app
        self._free = free
        self._door = ServiceDoor(marks, key, clock=SystemClock(), name=name, wait_seconds=wait_seconds)

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        """Serve one request."""
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")
        if path.startswith(PATH):
            body = environ["wsgi.input"].read(min(_length(environ), BODY_MAX))
            return _reply(self._door.answer(method, path, _headers(environ), body), start)
        if method in self._free:
            return self._app(environ, start)
        try:
            proof = proof_from(_headers(environ))
            if proof is None:
                return _reply(no_fence(), start)
            _buffer(environ)
            passage = self._door.enter(proof)
        except FencepostError as error:
            return _reply(refusal(error), start)
        try:
            return Inside(self._app(environ, start), passage)
        except BaseException:
            passage.close()
            raise


class Inside:
    """An answer on its way: when it is closed, the request is no longer inside."""

    def __init__(self, answer: Iterable[bytes], passage: RequestPassage) -> None:
        self._answer = answer
        self._passage = passage

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._answer)

    def close(self) -> None:
        """Close the answer and let the next raise pass; servers call this however a request ends."""
        try:
            close = getattr(self._answer, "close", None)
            if close is not None:
                close()
        finally:
            self._passage.close()


def _buffer(environ: Environ) -> None:
    """Take in a small body before the gate, so that a sender that was frozen meanwhile holds up no other request."""
    length = _length(environ)
    if 0 < length <= BUFFER_BYTES:
        environ["wsgi.input"] = BytesIO(environ["wsgi.input"].read(length))


def _length(environ: Environ) -> int:
    text = environ.get("CONTENT_LENGTH") or "0"
    return int(text) if text.isascii() and text.isdigit() else 0


def _headers(environ: Environ) -> dict[str, str]:
    found = {
        name.removeprefix("HTTP_").replace("_", "-").lower(): value
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    length = environ.get("CONTENT_LENGTH")
    return {**found, "content-length": length} if length else found


def _reply(answer: GateAnswer, start: Start) -> list[bytes]:
    phrase = HTTPStatus(answer.status).phrase
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(answer.body))), *answer.headers]
    start(f"{answer.status} {phrase}", headers)
    return [answer.body]
