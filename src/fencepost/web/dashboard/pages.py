"""Makes pages: templates that escape all values, with who looks and what they may do."""

from functools import cache
from hashlib import sha256
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from fencepost.model.access import Role
from fencepost.operations.phrases import plain, span
from fencepost.web.dashboard import filters
from fencepost.web.door import admission_of

HERE = Path(__file__).parent
NAVIGATION = (
    ("now", "/", "Now", "read"),
    ("timeline", "/timeline", "Timeline", "read"),
    ("schedules", "/schedules", "Schedules", "read"),
    ("calendar", "/calendar", "Calendar", "read"),
    ("runs", "/runs", "Runs", "read"),
    ("queues", "/queues", "Queues", "read"),
    ("dead", "/dead", "Dead letters", "read"),
    ("leases", "/leases", "Leases", "read"),
    ("notices", "/notices", "Notices", "read"),
    ("audit", "/audit", "Audit", "read"),
    ("doctor", "/doctor", "Doctor", "admin"),
    ("keys", "/keys", "Keys", "admin"),
)
DONE = {
    "paused": "Paused. Its ticks are recorded as paused until it is resumed.",
    "resumed": "Resumed.",
    "skipped": "Its next ticks will be left out.",
    "unskipped": "Nothing will be left out any more.",
    "asked": "The run is in the queue.",
    "earlier": "There was such a run already; this is it.",
    "cancelled": "Cancelled, or asked to stop.",
    "replayed": "This is the new run, made of the dead letter.",
    "discarded": "Discarded. It stays on record.",
    "broken": "The lease was taken away; its holder's tree ends.",
    "halted": "Everything is halted.",
    "unhalted": "Going on.",
    "revoked": "Revoked, with the sessions that came from it.",
    "resolved": "Resolved.",
    "backfilled": "The runs of the backfill are in the queue.",
    "backfilled-before": "This backfill had made all of these runs before; none was added.",
    "revived": "What was given up will be tried once more.",
}


def page(request: Request, template: str, *, status: int = 200, **values: object) -> Response:
    """Make a page for the caller."""
    admission = admission_of(request)
    role = admission.caller.role
    shared = {
        "caller": admission.caller,
        "csrf": admission.csrf,
        "may": {one.value for one in Role if role.covers(one)},
        "navigation": [one for one in NAVIGATION if role.covers(Role(one[3]))],
        "done": DONE.get(request.query_params.get("done", "")),
        "path": request.url.path,
    }
    return HTMLResponse(environment().get_template(template).render({**shared, **values}), status)


def back_to(address: str, done: str) -> Response:
    """Show a page again, with a word on what was done."""
    return RedirectResponse(f"{address}{'&' if '?' in address else '?'}done={done}", status_code=303)


@cache
def environment() -> Environment:
    """Return the templates, read once."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "when": filters.when,
        "absolute": filters.absolute,
        "mark": filters.mark,
        "segment": filters.segment,
        "money": filters.money,
        "short": filters.short,
        "pretty": filters.pretty,
        "count_of": filters.count,
        "dashed": filters.dashed,
        "plain": plain,
        "span": span,
    }
    made.globals |= {"asset": asset, "took": filters.took, "icon": filters.icon, "words": filters}
    return made


@cache
def asset(name: str) -> str:
    """Return the address of a file of ours, which changes when the file does."""
    return f"/static/{name}?v={sha256((HERE / 'static' / name).read_bytes()).hexdigest()[:12]}"
