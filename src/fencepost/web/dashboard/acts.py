"""Acts: each is asked about on a page of its own, which works without a script, and done by the form that is there."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response

from fencepost.model.errors import FencepostError, StoreUnavailable
from fencepost.web.dashboard.pages import back_to, page
from fencepost.web.problems import problem_of

TEXT_MAX = 1_000
FIELDS_MAX = 20
Form = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Field:
    """Something to fill in."""

    name: str
    label: str
    hint: str = ""
    kind: str = "text"  # text, number, check, choice or hidden
    value: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    required: bool = False


@dataclass(frozen=True, slots=True)
class Act:
    """What is about to be done, and what that means."""

    title: str
    sentence: str
    button: str
    back: str  # where to go on, done or not
    fields: tuple[Field, ...] = ()
    grave: bool = False  # it ends something that runs, or cannot be taken back
    current: str = "now"


def ask_about(request: Request, act: Act, *, wrong: str = "", status: int = 200, form: Form | None = None) -> Response:
    """Show the question."""
    given = form or {}
    values = {one.name: given.get(one.name, one.value) for one in act.fields}
    address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return page(
        request, "act.html", status=status, act=act, values=values, wrong=wrong, address=address, current=act.current
    )


async def carry_out(request: Request, act: Act, doing: Callable[[Form], Awaitable[tuple[str, str]]]) -> Response:
    """Do it and show what came of it, or show the question again with what is wrong."""
    form = await read_form(request)
    try:
        address, done = await doing(form)
    except StoreUnavailable:
        raise
    except FencepostError as error:
        return ask_about(request, act, wrong=str(error), status=problem_of(error).status_code, form=form)
    return back_to(address, done)


async def read_form(request: Request) -> Form:
    """Read what was filled in, each field once and not too long."""
    body = (await request.body()).decode("utf-8", "replace")
    try:
        found = parse_qs(body, keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError:
        return {}
    return {name: values[0].replace("\0", "�").strip()[:TEXT_MAX] for name, values in found.items()}
