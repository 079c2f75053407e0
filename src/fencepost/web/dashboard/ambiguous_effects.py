"""Effects in doubt: the ledger's entries whose end is not known, until a person says so."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fencepost.model.effect_ledger import Entry
from fencepost.operations.ledger_commands import find_entry, resolve
from fencepost.operations.run_queries import Store
from fencepost.web.dashboard.acts import Act, Field, Form, ask_about, carry_out
from fencepost.web.dashboard.filters import segment
from fencepost.web.door import caller_of, door_of
from fencepost.web.security import access

router = APIRouter(include_in_schema=False)
ADMIN = access("admin")
Name = Annotated[str, Query(max_length=1_000)]
TOOK_PLACE, FORGET = "done", "forget"
FIELDS = (
    Field(
        "became",
        "What became of it",
        "Look at the target first: the program cannot know.",
        kind="choice",
        value=TOOK_PLACE,
        choices=((TOOK_PLACE, "It took place: never do it again"), (FORGET, "It did not: do it again when asked")),
    ),
    Field("answer", "Its answer, as JSON", "A later call for it gets this. Empty: null."),
)


@router.get("/ledger/resolve", openapi_extra=ADMIN)
async def ask_resolve(request: Request, key: Name = "", scope: Name = "") -> Response:
    """Ask what became of an effect."""
    entry = await door_of(request).desk.ask(_find, caller_of(request).tenant, key, scope)
    return ask_about(request, resolving(entry))


@router.post("/ledger/resolve", openapi_extra=ADMIN)
async def do_resolve(request: Request, key: Name = "", scope: Name = "") -> Response:
    """Write down what became of it."""
    caller, desk = caller_of(request), door_of(request).desk
    entry = await desk.ask(_find, caller.tenant, key, scope)
    about = resolving(entry)

    async def doing(form: Form) -> tuple[str, str]:
        answer = None if form.get("became") == FORGET else form.get("answer") or "null"
        await desk.ask(_resolve, entry, answer, caller.actor)
        return about.back, "resolved"

    return await carry_out(request, about, doing)


def resolving(entry: Entry) -> Act:
    """Describe ending a doubt."""
    doubt = f" It said: {entry.doubt}" if entry.doubt else ""
    means = f"Run {entry.run_id} began it and it is not known whether it took place.{doubt}"
    back = f"/runs/{segment(entry.run_id)}"
    return Act(f"What became of {entry.key}?", means, "Write it down", back, FIELDS, grave=True, current="runs")


def _find(store: Store, tenant: str, key: str, scope: str) -> Entry:
    return find_entry(store.ledger(), tenant, key, scope)


def _resolve(store: Store, entry: Entry, answer: str | None, by: str) -> None:
    resolve(store.ledger(), entry, answer=answer, by=by)
