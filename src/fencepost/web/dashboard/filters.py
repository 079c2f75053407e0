"""What the pages say with: instants, spans, states and links, each escaped, none by colour alone."""

import json
from datetime import datetime
from urllib.parse import quote, urlencode

from markupsafe import Markup

from fencepost.model import budget
from fencepost.model.definition import schedule_from_json
from fencepost.model.instants import FOREVER_US, from_us, to_us
from fencepost.model.zone import Zone, find_zone
from fencepost.operations.phrases import ago, fate, last_line, plain, readable, rfc3339, span
from fencepost.operations.project_commands import Command
from fencepost.operations.queue_positions import QueuePosition
from fencepost.operations.records.run_record import project_of
from fencepost.operations.run_queries import SeenRun
from fencepost.operations.scheduler_health import next_tick_us as next_tick_us  # noqa: PLC0414  # for the templates

__all__ = ["fate", "from_us", "last_line", "readable", "rfc3339"]  # handed on to the templates

MICRO = 1_000_000
ID_SHOWN = 14
HASH_LENGTH = 64
SHAPES = {
    "running": "play",
    "ready": "wait",
    "succeeded": "tick",
    "dead": "cross",
    "failed": "cross",
    "lost": "warn",
    "cancelled": "stop",
    "run": "dot",
    "missed": "ring",
    "overlap": "overlap",
    "dst_gap": "gap",
    "coalesced": "join",
    "paused": "pause",
    "budget": "coin",
    "calendar": "day",
    "active": "tick",
    "halted": "pause",
    "disabled": "stop",
    "retired": "stop",
    "done": "tick",
    "ok": "tick",
    "warn": "warn",
    "fail": "cross",
    "ambiguous": "warn",
    "in_progress": "play",
    "completed": "tick",
    "revoked": "stop",
    "expired": "stop",
}
# What columns are filled with: a colour of the style sheet and a look; what shares a colour has another look.
FILLS = (
    ("run", "succeeded", "solid"),
    ("succeeded", "succeeded", "solid"),
    ("start", "succeeded", "solid"),
    ("cost", "running", "solid"),
    ("waiting", "cancelled", "solid"),
    ("range", "succeeded", "dotted"),
    ("takeover", "lost", "striped"),
    ("cancelled", "cancelled", "lined"),
    ("dead", "dead", "striped"),
    ("missed", "dead", "solid"),
    ("overlap", "failed", "solid"),
    ("budget", "failed", "striped"),
    ("dst_gap", "dead", "dotted"),
    ("coalesced", "running", "dotted"),
    ("paused", "running", "lined"),
    ("calendar", "lost", "solid"),
)
WORDS = {"ready": "waiting", "dst_gap": "clock gap", "warn": "weak", "fail": "wrong", "in_progress": "in progress"}


def when(us: int | None, now_us: int, zone: Zone | None = None) -> Markup:
    """Tell an instant twice: how far it is, and what the clock says, with its zone."""
    if us is None or us >= FOREVER_US:
        return Markup('<span class="none">never</span>')
    return Markup('<time datetime="{}" data-us="{}">{}</time> <span class="abs">{}</span>').format(
        rfc3339(us), us, ago(us, now_us), absolute(us, now_us, zone)
    )


def absolute(us: int, now_us: int, zone: Zone | None = None) -> str:
    """Spell an instant as its zone's clock shows it; the day where it is another one, the year where it matters."""
    then, now = (zone.local(from_us(one)) if zone else from_us(one) for one in (us, now_us))
    day = "" if then.date() == now.date() else f"{then:%a} {then.day} {then:%b} "
    year = f"{then.year} " if then.year != now.year else ""
    return f"{day}{year}{clock(then)} {zone.name if zone else 'UTC'}"


def clock(then: datetime) -> str:
    """Spell a time of day, with seconds only where there are some."""
    return f"{then:%H:%M:%S}" if then.second else f"{then:%H:%M}"


def took(start_us: int | None, end_us: int | None, now_us: int) -> str:
    """Say how long something took, or takes already."""
    if start_us is None:
        return ""
    if end_us is None and now_us - start_us < MICRO:
        return "0s"
    return span((end_us if end_us is not None else now_us) - start_us)


def mark(state: str, label: str = "") -> Markup:
    """Show a state as a word with a shape of its own."""
    shape, word = SHAPES.get(state, "dot"), label or WORDS.get(state, state)
    return Markup(
        '<span class="mark mark-{0}"><svg aria-hidden="true"><use href="#i-{1}"></use></svg>{2}</span>'
    ).format(state, shape, word)


def notice_mark(state: str) -> Markup:
    """Show the state of a notice; a dead one is no dead letter."""
    look, word = {"waiting": ("ready", "on the way"), "sent": ("ok", "sent"), "dead": ("dead", "given up")}[state]
    return mark(look, word)


def shape(state: str) -> Markup:
    """Draw the shape of a state alone, where its word stands elsewhere."""
    return icon(SHAPES.get(state, "dot"))


def icon(shape: str) -> Markup:
    """Draw one of the shapes, for eyes only."""
    return Markup('<svg class="icon" aria-hidden="true"><use href="#i-{}"></use></svg>').format(shape)


def segment(name: str) -> str:
    """Spell a name as one part of an address."""
    return quote(name, safe="")


def money(micro: int | None) -> str:
    """Spell an amount, if there is one."""
    return "" if micro is None else budget.money(micro)


def short(run_id: str) -> Markup:
    """Show an id so that its end, which tells runs apart, stays in sight."""
    shown = run_id if len(run_id) <= ID_SHOWN else f"{run_id[:4]}…{run_id[-6:]}"
    return Markup('<span class="id" title="{}">{}</span>').format(run_id, shown)


def pretty(text: str) -> str:
    """Lay out JSON for reading; what would turn the eye the other way is spelt out, and the JSON stays the same."""
    try:
        laid_out = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return readable(text)
    return "".join(one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in laid_out)


def count(number: int) -> str:
    """Spell a number with its thousands apart."""
    return f"{number:,}"


def dashed(text: str | None) -> str | Markup:
    """Show text of unknown origin on one line; a word where there is none."""
    return plain(text) if text else Markup('<span class="none">none</span>')


def zone_of(definition: str) -> Zone | None:
    """Return the zone in which a schedule's wall times are."""
    zone = schedule_from_json(definition).timezone
    return find_zone(zone) if zone else None


def waits_for(place: QueuePosition | None, now_us: int) -> Markup:
    """Say what has to happen first, with a link to the run that is in the way."""
    if place is None:
        return Markup("")
    if place.behind is None or place.behind.run_id is None:
        return Markup("{}").format(place.waits_for(now_us).partition("; see:")[0])
    behind = place.behind
    return Markup('behind <a href="/runs/{}">{}</a> <span class="soft">{}, {}</span>').format(
        segment(behind.run_id or ""), short(behind.run_id or ""), plain(behind.what), span(now_us - behind.since_us)
    )


def is_forever(us: int) -> bool:
    """Tell whether an instant never comes."""
    return us >= FOREVER_US


def us_of(at: datetime) -> int:
    """Return an instant as the store keeps it."""
    return to_us(at)


def value_of(value: object) -> str:
    """Spell a setting as the file would."""
    return readable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def query_of(**values: str) -> str:
    """Spell what is asked for as part of an address; what is empty is left out."""
    return urlencode({name: value for name, value in values.items() if value})


def local_clock(at: datetime, zone: str) -> str:
    """Spell the time of day that a zone's wall shows."""
    return clock(find_zone(zone).local(at))


def subject_link(subject: str) -> Markup:
    """Show what an entry is about, with a link where there is a page."""
    kind, _, name = subject.partition(":")
    if kind in ("run", "schedule") and name:
        return Markup('{}:<a href="/{}s/{}">{}</a>').format(kind, kind, segment(name), plain(name))
    return Markup("{}").format(plain(subject))


def detail_of(detail: str) -> str:
    """Tell what an entry adds, without the quotes of its JSON and with hashes cut short."""
    try:
        found = json.loads(detail)
    except (ValueError, RecursionError):
        return plain(detail)
    if not isinstance(found, dict):
        return plain(detail)
    return plain(", ".join(f"{key} {_said(value)}" for key, value in found.items() if value not in (None, [], {})))


def _said(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{text[:12]}…" if len(text) == HASH_LENGTH and text.isalnum() else text.strip("{}[]").replace('"', "")


def project_of_line(one: SeenRun | Command) -> str:
    """Return the project that a run or a command waits for, or nothing."""
    return (one.project if isinstance(one, Command) else project_of(one.run)) or ""
