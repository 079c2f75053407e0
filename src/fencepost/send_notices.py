"""Sends notices and tells how each went, one JSON object a line: `python -m fencepost.send_notices < JOBS`.

It is a process of its own, so that no receiver, however slow or hostile, can hold a scheduler up: it is ended when its
time is over. No library that sends can make a connection leave this process to an address that was not checked.
"""

import http.client
import json
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from ipaddress import ip_address
from typing import Any, NamedTuple

from fencepost.host.clock import SystemClock
from fencepost.host.outgoing_connection import connect
from fencepost.host.secrets import hand_over
from fencepost.host.unreadable_process import become_unreadable
from fencepost.model.allowed_addresses import Network, check_address, networks_of, target_of
from fencepost.model.errors import FencepostError, Invalid, Misconfigured
from fencepost.model.notice import envelope, message_id, ping_url, text_of, title_of
from fencepost.model.secret_rights import Rights, is_referred_place
from fencepost.model.signature import sign
from fencepost.ports.gate import Fetch

DEADLINE_SECONDS = 60
WAIT_SECONDS = 10.0
TOGETHER = 8
GONE = 410
SEPARATORS = re.compile(r"[/:@?&=,]+")
PART_MIN = 6


class DeliveryWay(NamedTuple):
    """How notices leave: to which private networks they may, and how references are read."""

    allow: Sequence[str]
    fetch: Fetch


class NotDelivered(Exception):
    """It did not arrive; `final`: and it never will."""

    def __init__(self, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


def main() -> int:
    """Send all jobs, several at a time, and tell of each as soon as it is known."""
    signal.alarm(DEADLINE_SECONDS)
    become_unreadable()
    batch = json.load(sys.stdin)
    guard(networks_of(batch["allow"]))
    with ThreadPoolExecutor(TOGETHER) as threads:
        started = [threads.submit(outcome, job, DeliveryWay(batch["allow"], fetcher(batch))) for job in batch["jobs"]]
        for done in as_completed(started):
            print(json.dumps(done.result()), flush=True)  # noqa: T201  # this is how the station hears of it
    return 0


def guard(allowed: Sequence[Network]) -> None:
    """Refuse connections to addresses that are neither public nor allowed, redirects too."""

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("socket.connect", "socket.sendto") and isinstance(arguments[-1], tuple):
            host = str(arguments[-1][0])
            try:
                ip_address(host.partition("%")[0])
            except ValueError:
                raise PermissionError(f"{host} is a name, and only an address can be checked") from None
            try:
                check_address(host, allowed)
            except Invalid as error:
                raise PermissionError(str(error)) from None

    sys.addaudithook(look)


def outcome(job: Mapping[str, Any], way: DeliveryWay) -> dict[str, object]:
    """Send one, and say how it went."""
    try:
        SENDERS[job["kind"]](job, way)
    except NotDelivered as error:
        return {"id": job["id"], "error": str(error), "final": error.final}
    except (FencepostError, OSError, http.client.HTTPException) as error:
        return {"id": job["id"], "error": str(error) or type(error).__name__, "final": False}
    return {"id": job["id"], "error": None, "final": False}


def send_webhook(job: Mapping[str, Any], way: DeliveryWay) -> None:
    """Post it, signed anew at each try, under the same id."""
    body = json.dumps(envelope(job["event"], job["at"], job["body"])).encode()
    now = SystemClock().wall_us() // 1_000_000
    signed = sign(way.fetch(job["secret"]), message_id=message_id(job["id"]), at_seconds=now, body=body)
    _request("POST", way.fetch(job["url"]), way.allow, body, {"Content-Type": "application/json", **signed})


def send_ping(job: Mapping[str, Any], way: DeliveryWay) -> None:
    """Give a monitor a sign of life, or of death."""
    url = ping_url(way.fetch(job["url"]), job["event"], job["style"], str(job["body"].get("run_id", "")))
    _request("POST", url, way.allow, b"", {})


def send_message(job: Mapping[str, Any], way: DeliveryWay) -> None:
    """Let apprise tell people, in the way that its address means."""
    try:
        import apprise
    except ImportError:
        raise NotDelivered("apprise is not installed here; add it with: pip install 'fencepost[notify]'") from None
    desk = apprise.Apprise()
    if not desk.add(way.fetch(job["url"])):
        raise NotDelivered("apprise does not understand this address; see its list of services")
    bad = job["event"] not in ("started", "succeeded", "audit_head", "test")
    with apprise.LogCapture(level=apprise.logging.WARNING) as said:  # type: ignore[no-untyped-call]
        sent = desk.notify(
            title=f"fencepost: {title_of(job['event'], job['body'])}",
            body=text_of(job["event"], job["at"], job["body"]),
            notify_type=apprise.NotifyType.FAILURE if bad else apprise.NotifyType.INFO,
            interpret_escapes=False,
        )
        if not sent:
            raise NotDelivered(_last_words(said.getvalue(), way.fetch(job["url"])))


def _last_words(said: str, url: str) -> str:
    """Return what apprise said at last, without the address or a part of it that may be a password."""
    lines = [line for line in said.strip().splitlines() if line.strip()]
    words = (lines[-1] if lines else "apprise could not send it").replace(url, "(the address)")
    for part in sorted(SEPARATORS.split(url.partition("://")[2]), key=len, reverse=True):
        if len(part) >= PART_MIN and "." not in part:  # what has a dot names a host
            words = words.replace(part, "(part of the address)")
    return words


def _request(method: str, url: str, allow: Sequence[str], body: bytes, headers: Mapping[str, str]) -> None:
    target = target_of(url)
    connection = connect(target, allow, WAIT_SECONDS)
    try:
        connection.request(method, target.path, body, {"User-Agent": "fencepost", **headers})
        status = connection.getresponse().status
    finally:
        connection.close()
    if not 200 <= status < 300:  # noqa: PLR2004  # what HTTP calls success; a redirect would lead elsewhere
        raise NotDelivered(f"the receiver answered {status}", final=status == GONE)


def fetcher(batch: Mapping[str, Any]) -> Fetch:
    """Return how references are read: now, and as far as they are the tenant's; a secret is neither written down nor handed around."""
    rights = Rights(tuple((name, tuple(secrets)) for name, secrets in batch["rights"]))

    def fetch(text: str) -> str:
        if not is_referred_place(text):
            return text
        value = hand_over(text, tenant=batch["tenant"], rights=rights, what="the notice's address or secret").strip()
        if not value:
            raise Misconfigured(f"{text} is empty here.")
        return value

    return fetch


SENDERS = {"webhook": send_webhook, "ping": send_ping, "apprise": send_message}

if __name__ == "__main__":
    sys.exit(main())
