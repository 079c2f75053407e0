"""What people and programs are told: which events there are, what they are about, and how often a message is tried."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import quote

from fencepost.model.repeatable_random import spread
from fencepost.model.run_page import fate

EVENTS = (
    "dead",
    "missed",
    "stalled",
    "fence_regress",
    "budget",
    "gate",
    "failed",
    "queued",
    "started",
    "succeeded",
    "audit_head",
)
BY_DEFAULT = ("dead", "missed", "stalled", "fence_regress", "budget", "gate")
PINGED = ("started", "succeeded", "dead")
KINDS = ("apprise", "webhook", "ping")
STYLES = ("healthchecks", "cronitor")
SUMMARY_MAX = 500
LOG_LINES_MAX, LOG_MAX = 12, 1_500

# After each failure, in seconds; the first try is at once. A ping that comes an hour late tells a monitor nothing.
PAUSES: Mapping[str, Sequence[int]] = {
    "apprise": (5, 60, 300, 1800, 7200, 18_000, 36_000),
    "webhook": (5, 60, 300, 1800, 7200, 18_000, 36_000),
    "ping": (2, 10, 30, 120, 300),
}
PING_PATHS = {"started": "/start", "succeeded": "", "dead": "/fail"}
PING_STATES = {"started": "run", "succeeded": "complete", "dead": "fail"}

# By the reason for which a run ended: the event that says more than that it is dead.
SPECIAL = {"stall_timeout": "stalled", "fence_regress": "fence_regress", "budget": "budget"}
SECOND_TRIES = frozenset({"retry", "resume", "restart"})

TITLES = {
    "dead": "{what} needs a person: {reason}",
    "missed": "{what} missed {count} of its ticks",
    "stalled": "{what} stood still and was ended",
    "fence_regress": "{what} was not started: the store went back in time",
    "budget": "{what} is over its budget",
    "gate": "{what} waits before a gate that cannot be reached",
    "failed": "{what} failed: {reason}",
    "queued": "{what} waits in line: position {position}, behind {behind_what}",
    "started": "{what} has started",
    "succeeded": "{what} has succeeded",
    "audit_head": "the audit of {tenant} is sealed up to {last_place}",
    "test": "this is a test",
}


# What became of a run that waited in line.
LEFT_LINE = {
    "running": "{what} waited in line, and has started",
    "succeeded": "{what} waited in line, and has run",
    "cancelled": "{what} waited in line, and was cancelled",
}


class Wish(NamedTuple):
    """Who wants to hear of what; an empty schedule means all of them, and what has none."""

    name: str
    event: str
    schedule: str = ""


class Notice(NamedTuple):
    """Something to tell, to be written down with what it tells of. Its key makes it the same notice if it comes again."""

    tenant: str
    key: str
    events: Sequence[str]  # all that it is; a target that wants one of them gets it once, under the first name
    subject: str  # what it is about: a target hears of one subject in the order in which things happened
    schedule: str
    body: Mapping[str, object]


class Delivery(NamedTuple):
    """A notice on its way to one target. The attempt is its fence: only the newest may say how it went."""

    id: str
    name: str
    event: str
    subject: str
    body: str
    at_us: int
    attempt: int


def settled_events(state: str, reason: str | None, *, alarm: bool = False, stalled: bool = False) -> tuple[str, ...]:
    """Return what the end of an attempt is to those who listen, the most telling word first; empty: nothing."""
    if state == "succeeded":
        return ("succeeded",)
    if state == "dead":
        special = SPECIAL.get(reason or "")
        return (special, "dead", "failed") if special else ("dead", "failed")
    if state == "cancelled":
        return ("budget",) if reason == "budget" else ()
    if alarm:
        return ("gate",)
    if reason not in SECOND_TRIES:
        return ()
    return ("stalled", "failed") if stalled else ("failed",)


def pause_after(kind: str, attempt: int, delivery_id: str) -> float | None:
    """Return in how many seconds a failed message is tried again, spread a little; None: it is given up."""
    pauses = PAUSES[kind]
    if attempt > len(pauses):
        return None
    return pauses[attempt - 1] * (1 + spread(delivery_id, attempt) / 4)


def message_id(delivery_id: str) -> str:
    """Return the name under which a receiver knows a message, the same at each try."""
    return f"msg_{sha256(delivery_id.encode(errors='surrogatepass')).hexdigest()[:32]}"


def envelope(event: str, at: str, body: Mapping[str, Any]) -> dict[str, object]:
    """Return what a webhook is sent: the kind of event, when it happened, and its facts."""
    kind = {"missed": "schedule.missed", "audit_head": "audit.head", "test": "test"}.get(event, f"run.{event}")
    return {"type": kind, "timestamp": at, "data": {"event": event, **body}}


def title_of(event: str, body: Mapping[str, Any]) -> str:
    """Say in one line what happened."""
    reason = fate(body.get("reason"), body.get("exit_code")) or "unknown"
    said = {"what": body.get("schedule") or body.get("agent") or "a run", "reason": reason}
    facts = {"count": 1, "tenant": "", "last_place": 0, **body, **said}
    if event == "queued" and not body.get("position"):
        return LEFT_LINE.get(str(body.get("state")), "{what} no longer waits in line").format_map(facts)
    return TITLES[event].format_map(facts)


def text_of(event: str, at: str, body: Mapping[str, Any]) -> str:
    """Say what a person needs to look further."""
    lines = [title_of(event, body), f"at {at}, tenant {body.get('tenant', '')}"]
    if link := body.get("link"):
        lines.append(f"look at it: {link}")
    elif run_id := body.get("run_id"):
        lines.append(f"look at it: fencepost show {run_id}")
    elif schedule := body.get("schedule"):
        lines.append(f"look at it: fencepost why {schedule}")
    if summary := body.get("summary"):
        lines.append(str(summary))
    if last_log := body.get("last_log"):
        lines += ["its last lines:", str(last_log)]
    return "\n".join(lines)


def last_lines(log: str | None) -> str:
    """Return the end of a log as a message carries it: a few lines, without characters that steer a terminal or a chat."""
    lines = ["".join(one if one.isprintable() else "�" for one in line) for line in (log or "").splitlines()]
    return "\n".join(lines[-LOG_LINES_MAX:])[-LOG_MAX:]


def link_to(web_url: str, body: Mapping[str, Any]) -> str:
    """Return where a browser sees what a notice is about; empty where the address of the web door is not configured."""
    if not web_url:
        return ""
    if run_id := body.get("run_id"):
        return f"{web_url.rstrip('/')}/runs/{quote(str(run_id), safe='')}"
    schedule = body.get("schedule")
    return f"{web_url.rstrip('/')}/schedules/{quote(str(schedule), safe='')}" if schedule else ""


def ping_url(url: str, event: str, style: str, run_id: str) -> str:
    """Return where a monitor hears of an event; the run's own id lets it tell two runs apart."""
    base, mark, query = url.partition("?")
    more = [query] if mark else []
    if style == "cronitor":
        more += [f"state={PING_STATES[event]}", f"series={run_id}"]
        return f"{base}?{'&'.join(more)}"
    digest = sha256(run_id.encode()).hexdigest()
    more.append(f"rid={digest[:8]}-{digest[8:12]}-4{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}")
    return f"{base.rstrip('/')}{PING_PATHS[event]}?{'&'.join(more)}"
