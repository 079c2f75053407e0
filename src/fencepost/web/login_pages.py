"""Pages for people who are not in: to log in, and to be told what is wrong.

They stand alone, style and all, because the dashboard's own files take a session, and a session takes the store,
which may be what is away. Their policy allows that one style, by its hash, and nothing else.
"""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup
from starlette.responses import HTMLResponse
from starlette.types import Scope

FOLDER = Path(__file__).parent / "dashboard"
TITLES = {
    401: "Log in",
    403: "Not with this key",
    404: "There is nothing here",
    405: "That cannot be done here",
    409: "Something is in the way",
    421: "Not by this name",
    429: "Too much at once",
    500: "A bug of ours",
    503: "The store is away",
}
HELP = {
    401: "Open the link that fencepost up has printed, or make another: fencepost key link",
    403: "A person with the role that it takes can do it, or make you a key: fencepost key create NAME --role trigger",
    404: "It may have been pruned, renamed or retired, or it belongs to another tenant.",
    503: "Nothing is lost: what was accepted is kept. Look with: fencepost doctor",
}


def wants_page(scope: Scope) -> bool:
    """Tell whether a person's browser asks, and not a program."""
    if scope["type"] != "http" or scope["path"].startswith("/api/"):
        return False
    return any(b"text/html" in value for name, value in scope["headers"] if name == b"accept")


def threshold(
    status: int, detail: str = "", *, title: str = "", secret: str = "", log_in: bool = False
) -> HTMLResponse:
    """Make a page; `log_in` offers a field for a key, `secret` a button for a link that is good."""
    content = _template().render(
        title=title or TITLES.get(status, "That did not work"),
        status=status,
        detail=detail,
        help=HELP.get(status, ""),
        secret=secret,
        log_in=log_in,
        style=Markup(_style()),  # noqa: S704  # our own file
    )
    return HTMLResponse(content, status, {"Content-Security-Policy": _policy()})


@cache
def _template() -> Template:
    made = Environment(loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, undefined=StrictUndefined)
    return made.get_template("threshold.html")


@cache
def _style() -> str:
    return (FOLDER / "static" / "threshold.css").read_text("utf-8")


@cache
def _policy() -> str:
    digest = b64encode(sha256(_style().encode()).digest()).decode()
    allowed = f"style-src 'sha256-{digest}'; form-action 'self'"
    return f"default-src 'none'; {allowed}; frame-ancestors 'none'; base-uri 'none'"
