"""Posts one run and tells what came of it, one JSON event a line: `python -m fencepost.http_call REQUEST`.

It is the agent of its run: killed with it, fenced like it. The host is looked up once, every address is checked, and the
connection goes to the address that was checked. Redirects are not followed, and no proxy of the environment is used.
"""

import http.client
import json
import os
import select
import sys
from typing import Any

from fencepost.host.clock import SystemClock
from fencepost.host.outgoing_connection import connect
from fencepost.model.allowed_addresses import target_of
from fencepost.model.errors import FencepostError, FenceRefused, Invalid, LeaseLost, Misconfigured
from fencepost.model.http_secrets import SECRET
from fencepost.model.signature import sign
from fencepost.operations import supervisor_client

ANSWER_MAX = 1_000_000
SHOWN_MAX = 2000
POLL_SECONDS = 1.0
ACCEPTED = 202
# A gateway that got no answer does not know what became of the request, and neither do we.
UNKNOWN = frozenset({502, 504})
PASSING = frozenset({408, 425, 429})  # worth another try, as is everything from 500 on
FAILED, MISCONFIGURED = 1, Misconfigured.exit_code


class NoAnswer(Exception):
    """The request may have arrived, and no answer came."""


def main(path: str) -> int:
    """Post, wait if asked to, and return the exit code."""
    with open(path, encoding="utf-8") as file:
        job = json.load(file)
    try:
        supervisor_client.ask("check")
        ended = _ended_elsewhere()
        return _tell_end(ended) if ended else _post(job)
    except FenceRefused as error:
        tell(type="refused", summary=str(error))
        return LeaseLost.exit_code
    except Invalid as error:
        return end(MISCONFIGURED, summary=f"not sent: {error}")


def _post(job: dict[str, Any]) -> int:
    try:
        status, kind, body = send(job)
    except NoAnswer as error:
        return end(FAILED, ambiguous=True, summary=f"sent, and no answer came: {error}")
    except OSError as error:
        return end(FAILED, summary=f"not sent: {error}")
    if status == ACCEPTED:
        return _wait(job)
    if 200 <= status < 300:  # noqa: PLR2004  # what HTTP calls success
        return end(0, **_words(kind, body))
    if 300 <= status < 400:  # noqa: PLR2004  # redirection
        return end(MISCONFIGURED, summary=f"answered {status}: redirects are not followed; write the final url.")
    code = FAILED if status >= 500 or status in PASSING else MISCONFIGURED  # noqa: PLR2004  # the server's own failures
    return end(code, ambiguous=status in UNKNOWN, summary=f"answered {status}: {_words(kind, body)['summary']}")


def send(job: dict[str, Any]) -> tuple[int, str, bytes]:
    """Send the request; what went wrong before it was sent is an OSError, afterwards NoAnswer."""
    target = target_of(job["url"] or os.environ[job["url_from"]])
    connection = connect(target, job["allow"], job["seconds"])
    body = json.dumps(job["body"]).encode()
    try:
        connection.request("POST", target.path, body, _headers(job, body))
        answer = connection.getresponse()
        return answer.status, answer.headers.get_content_type(), answer.read(ANSWER_MAX)
    except ValueError as error:  # found before anything is sent
        raise Invalid(f"a header cannot be sent: {error}.") from None
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswer(str(error) or type(error).__name__) from None
    finally:
        connection.close()


def _headers(job: dict[str, Any], body: bytes) -> dict[str, str]:
    run = job["body"]
    own = {
        "Content-Type": "application/json",
        "User-Agent": "fencepost",
        "Idempotency-Key": run["idempotency_key"],
        "Fencepost-Run-Id": run["run_id"],
        "Fencepost-Fence": str(run["fence"]),
        "Fencepost-Resource": os.environ.get("FENCEPOST_RESOURCE", ""),
        "Fencepost-Store-Id": os.environ.get("FENCEPOST_STORE_ID", ""),
        "traceparent": os.environ.get("TRACEPARENT", ""),
    }
    if secret := os.environ.get(SECRET):
        # One message per attempt: a receiver that drops what it has seen must still learn the new fence.
        message_id = f"{run['run_id']}.{run['fence']}"
        own.update(sign(secret, message_id=message_id, at_seconds=SystemClock().wall_us() // 1_000_000, body=body))
    users = {name: value or os.environ[source] for name, value, source in job["headers"]}
    return {**users, **own}


def _wait(job: dict[str, Any]) -> int:
    """Wait for the signed report of the service that took the run on; each heartbeat is a sign of work."""
    if not os.environ.get(SECRET):
        return end(
            MISCONFIGURED, ambiguous=True, summary="answered 202, and without a secret its end cannot be reported."
        )
    tell(type="accepted", session=job["body"]["idempotency_key"])
    beats = 0
    while True:
        heard = _completion()
        if heard.get("state") in ("succeeded", "failed"):
            return _tell_end(heard)
        if heard.get("beats", 0) != beats:
            beats = heard["beats"]
            tell(type="heartbeat", beats=beats)
        select.select([], [], [], POLL_SECONDS)


def _ended_elsewhere() -> dict[str, Any] | None:
    """Return the end of this run if it was reported before we were there to hear it."""
    heard = _completion()
    return heard if heard.get("state") in ("succeeded", "failed") else None


def _completion() -> dict[str, Any]:
    """Ask what was heard; a store that is away for a moment is no reason to give up, a lost lease is."""
    try:
        return supervisor_client.ask("completion")
    except FenceRefused:
        supervisor_client.ask("check")
        return {}


def _tell_end(heard: dict[str, Any]) -> int:
    told = json.loads(heard["content"])
    return end(0 if heard["state"] == "succeeded" else FAILED, **told)


def _words(kind: str, body: bytes) -> dict[str, Any]:
    """Return what an answer says: the fields we know of a JSON object, else its text."""
    text = body.decode("utf-8", "replace")
    if kind == "application/json":
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            known = {name: found[name] for name in ("summary", "cost_usd", "turns", "usage") if name in found}
            return {"summary": text[:SHOWN_MAX], **known}
    return {"summary": text[:SHOWN_MAX].strip()}


def end(code: int, *, ambiguous: bool = False, **told: object) -> int:
    """Tell how it ended, and return the exit code."""
    tell(type="result", ok=code == 0, ambiguous=ambiguous, **told)
    return code


def tell(**event: object) -> None:
    """Print one event."""
    print(json.dumps(event), flush=True)  # noqa: T201  # this is how the supervisor hears of it


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except FencepostError as error:
        sys.exit(end(error.exit_code, summary=str(error)))
