"""Logging in: a one-time link, or a key, becomes the session of a browser.

The link itself only shows a button: browsers and chat programs fetch links that were not clicked on.
"""

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from fencepost.model.errors import Unauthorised
from fencepost.operations.run_queries import Store
from fencepost.operations.web_keys import SESSION_FOR, Made, is_link, log_in, revoke_key
from fencepost.web.door import caller_of, door_of
from fencepost.web.login_pages import threshold, wants_page
from fencepost.web.requests import form_field
from fencepost.web.security import OPEN, access, cookie_name

router = APIRouter(include_in_schema=False)
FORM_MAX = 8_192  # a key and little else: a stranger gets no more room than that


@router.get("/login", openapi_extra=access(OPEN))
async def offer(request: Request, link: str = "") -> Response:
    """Show a button behind a link that is still good."""
    if not await door_of(request).desk.ask(_is_link, link):
        raise Unauthorised("the login link is not good: it was used, or its hour is over. Another: fencepost key link")
    return threshold(200, title="Log in to Fencepost", secret=link)


@router.post("/login", openapi_extra=access(OPEN, body_max=FORM_MAX))
async def enter(request: Request) -> Response:
    """Give a session for a link or a key."""
    door = door_of(request)
    made = await door.desk.ask(_log_in, form_field(await request.body(), "secret"))
    answer = RedirectResponse("/", status_code=303)
    answer.set_cookie(
        cookie_name(request.headers["host"]),
        made.secret.text,
        max_age=int(SESSION_FOR.total_seconds()),
        path="/",
        httponly=True,
        samesite="strict",
        secure=is_behind_tls(request),
    )
    return answer


@router.post("/logout", openapi_extra=access("read"))
async def leave(request: Request) -> Response:
    """End the session."""
    caller = caller_of(request)
    if caller.kind == "session":
        await door_of(request).desk.ask(_revoke, caller.key_id, caller.tenant)
    page = wants_page(request.scope)
    answer = threshold(200, "You are logged out.", title="Until next time") if page else Response(status_code=204)
    answer.delete_cookie(cookie_name(request.headers["host"]), path="/")
    return answer


def is_behind_tls(request: Request) -> bool:
    """Tell whether the browser came by https; who makes that up only keeps their own cookie from plain http."""
    said = request.headers.get("x-forwarded-proto", ""), request.headers.get("origin", "").partition(":")[0]
    return "https" in said


def _is_link(store: Store, link: str) -> bool:
    return is_link(store.keys(), link)


def _log_in(store: Store, text: str) -> Made:
    return log_in(store.keys(), text)


def _revoke(store: Store, key_id: str, tenant: str) -> None:
    revoke_key(store.keys(), key_id, tenant=tenant, by=f"session:{key_id}")
