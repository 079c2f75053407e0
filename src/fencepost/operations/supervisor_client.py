"""Asks the supervisor of the run that we are inside of. No answer means refused, never allowed."""

from __future__ import annotations

import os

from fencepost.model import fast_json as json
from fencepost.model.errors import (
    Busy,
    FencepostError,
    FenceRefused,
    InDoubt,
    Invalid,
    Misconfigured,
    RunDiverged,
    StoreUnavailable,
    SupervisorSilent,
)
from fencepost.model.fast_typing import TYPE_CHECKING
from fencepost.model.run_key import key_in

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Any, Mapping

ANSWER_SECONDS = 5.0
ANSWER_MAX = 1_048_576

ERRORS: dict[str, type[FencepostError]] = {
    "invalid": Invalid,
    "undeclared": Misconfigured,
    "busy": Busy,
    "ambiguous": InDoubt,
    "diverged": RunDiverged,
    "store_unavailable": StoreUnavailable,
}


def is_inside() -> bool:
    """Tell whether this process was started by a run that answers on a socket."""
    return bool(os.environ.get("FENCEPOST_SOCKET"))


def ask(verb: str, **fields: str) -> dict[str, Any]:
    """Ask and return the answer, or raise what it says."""
    return ask_in(os.environ, verb, **fields)


def ask_outside(_: str, **__: str) -> dict[str, Any]:
    """Refuse where there is no run to ask: who starts us may have left its variables out."""
    raise FenceRefused(
        "this gateway sees no run (FENCEPOST_SOCKET is not set), so that no lease can be checked: refused. Hand the "
        "FENCEPOST_ variables of the run on to it; for people's own sessions, start it with --allow-outside."
    )


def ask_in(environ: Mapping[str, str], verb: str, **fields: str) -> dict[str, Any]:
    """Ask the supervisor that this environment names."""
    request = {"key": key_in(environ), "verb": verb, **fields}
    answer = _call(environ.get("FENCEPOST_SOCKET", ""), json.dumps(request).encode() + b"\n")
    if answer.get("ok") is True:
        return answer
    raise refusal(answer)


def refusal(answer: Mapping[str, Any]) -> FencepostError:
    """Return what an answer says that is no yes."""
    return ERRORS.get(str(answer.get("code")), FenceRefused)(str(answer.get("message") or "refused."))


def _call(path: str, request: bytes) -> dict[str, Any]:
    from _socket import AF_UNIX, SOCK_STREAM, socket  # the module `socket` would cost more than all the rest

    try:
        connection = socket(AF_UNIX, SOCK_STREAM)
        try:
            connection.settimeout(ANSWER_SECONDS)
            connection.connect(path)
            connection.sendall(request)
            data = b""
            while not data.endswith(b"\n") and len(data) < ANSWER_MAX:
                more = connection.recv(65_536)
                if not more:
                    break
                data += more
        finally:
            connection.close()
        answer = json.loads(data)
    except (OSError, ValueError, RecursionError):
        raise SupervisorSilent(
            "the supervisor of this run does not answer, so its lease may be lost: refused. Nothing was written; stop."
        ) from None
    return answer if isinstance(answer, dict) else {}
