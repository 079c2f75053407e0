"""The one place that lets requests in: a request without a known key gets no further, whatever it asks for.

A route is open only if it says so itself (`OPEN`: /healthz, /hooks/*, signed completions); a new one that says nothing
needs a key, and one that changes something needs the role `admin` unless it names a lesser one.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from hmac import compare_digest
from http import HTTPStatus
from types import MappingProxyType
from typing import NamedTuple

from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fencepost.model.access import Role, Secret, csrf_of, read_secret
from fencepost.model.errors import FencepostError, Unauthorised
from fencepost.operations.run_queries import Store
from fencepost.operations.tenants import check_tenant
from fencepost.operations.web_keys import Caller, caller_of
from fencepost.web.problems import ProblemResponse, problem_of, unauthorised
from fencepost.web.requests import (
    BODY_MAX,
    KNOWN,
    STRANGERS,
    Carried,
    Load,
    RequestRefused,
    form_field,
    header,
    read_body,
    replayed,
)
from fencepost.web.store_threads import StoreThreads

Tell = Callable[[str], None]
COOKIE = "fencepost_session"
TENANT_HEADER = "x-fencepost-tenant"
API = "/api/v1"
MCP_PATH = "/mcp"
OPEN = "open"  # a route's own word that it checks its callers itself
REQUEST_SECONDS = 30.0  # until an answer begins
ANSWER_SECONDS = 60.0  # from then on until it has been taken; a live stream may take as long as it likes
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
SLOW_STEP_SECONDS, SLOW_MAX_SECONDS = 0.02, 2.0
FORGIVEN_SECONDS = 10.0
FORM = "application/x-www-form-urlencoded"
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    b"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class RequestCaller(NamedTuple):
    """What a handler knows about the caller."""

    caller: Caller
    csrf: str  # for the pages of a session; empty for a program's key


def access(role: str, *, body_max: int = BODY_MAX) -> dict[str, object]:
    """Say in a route's `openapi_extra` what it takes: a role, or OPEN; and how large a body."""
    return {"x-fencepost-access": role, **({"x-fencepost-body-max": body_max} if body_max != BODY_MAX else {})}


def wanted_role(route: BaseRoute | None, method: str) -> str:
    """Return what a route takes: what it says, else `read` for looking and `admin` for everything else."""
    said = (getattr(route, "openapi_extra", None) or {}).get("x-fencepost-access")
    if said is not None:
        return str(said)
    return Role.READ.value if method in SAFE_METHODS else Role.ADMIN.value


def body_limit(route: BaseRoute | None) -> int:
    """Return how large a body a route takes."""
    said = (getattr(route, "openapi_extra", None) or {}).get("x-fencepost-body-max")
    return said if isinstance(said, int) else BODY_MAX


class Gatekeeper:
    """Stands before the whole application."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        routes: Sequence[BaseRoute],
        desk: StoreThreads,
        hosts: frozenset[str],
        tell: Tell,
        direct: Mapping[object, ASGIApp] = MappingProxyType({}),
    ) -> None:
        self.app = app
        self._direct = direct  # by its endpoint: what answers for a route in the application's place
        self._tell = tell
        self._tell_at = 0.0
        self.routes = routes
        self._by_room: dict[str, list[Route]] = {}
        for route in routes:
            if isinstance(route, Route):
                assert "{" not in _room_of(route.path), "it would be found nowhere"
                self._by_room.setdefault(_room_of(route.path), []).append(route)
        self._desk = desk
        self._hosts = hosts
        self._failures = 0  # within the last seconds
        self._known_load, self._strangers_load = Load(KNOWN), Load(STRANGERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        with Carried(self._strangers_load, (scope.get("client") or ("somewhere",))[0]) as carried:
            await self._serve(scope, receive, _with_headers(send), carried)

    async def _serve(self, scope: Scope, receive: Receive, guarded: Send, carried: Carried) -> None:
        try:
            app, receive = await self._admit(scope, receive, carried)
        except RequestRefused as refused:
            close = (
                {"Connection": "close"} if refused.status == HTTPStatus.BAD_REQUEST else None
            )  # what follows is not trusted
            await ProblemResponse(refused.status, refused.code, refused.detail, close)(scope, receive, guarded)
            return
        except Unauthorised:
            await self._slow_down(scope)
            await unauthorised()(scope, receive, guarded)
            return
        except FencepostError as error:
            await problem_of(error)(scope, receive, guarded)
            return
        await self._answer(app, scope, receive, guarded)

    async def _admit(self, scope: Scope, receive: Receive, carried: Carried) -> tuple[ASGIApp, Receive]:
        """Check everything that can be checked before a handler runs, cheapest first; return what is to answer."""
        _check_framing(scope)
        self._check_host(scope)
        if "\0" in scope["path"] or b"%00" in scope.get("query_string", b""):
            raise RequestRefused(400, "bad_request", "the address contains a NUL character.")
        route = self._route(scope)
        role = wanted_role(route, scope["method"])
        is_open = route is not None and role == OPEN
        session: Secret | None = None
        if not is_open:
            caller, session = await self._known(scope)
            caller = await self._as_named(scope, caller)
            carried.charge(self._known_load, caller.tenant)
            scope.setdefault("state", {})["admission"] = RequestCaller(caller, csrf_of(session) if session else "")
            if not caller.role.covers(Role(role)):
                raise RequestRefused(
                    403, "forbidden", f"this takes a key with the role {role}; yours is {caller.role}."
                )
        changes = scope["method"] not in SAFE_METHODS
        if changes:
            self._check_origin(scope)
        body = await read_body(scope, receive, carried, limit=body_limit(route)) if changes else b""
        if changes and session is not None:
            _check_csrf(scope, body, session)
        return self._direct.get(scope.get("endpoint"), self.app), replayed(body, receive) if changes else receive

    def _check_host(self, scope: Scope) -> None:
        host = header(scope, "host")
        if host is None or host.lower() not in self._hosts:
            raise RequestRefused(
                421, "wrong_host", "this server does not answer to that name; start it with --allow-host."
            )

    def _check_origin(self, scope: Scope) -> None:
        """Refuse what another site's page sends, also with a good key or cookie."""
        origin, site = header(scope, "origin"), header(scope, "sec-fetch-site")
        if origin == "null" and site == "same-origin":
            return  # our own page, which under `no-referrer` does not name itself; no page can make up Sec-Fetch-Site
        if origin is not None:
            scheme, _, host = origin.partition("://")
            if scheme not in ("http", "https") or host.lower() not in self._hosts:
                raise RequestRefused(403, "wrong_origin", "requests from other sites' pages are refused.")
        if site is not None and site not in ("same-origin", "none"):
            raise RequestRefused(403, "wrong_origin", "requests from other sites' pages are refused.")

    def _route(self, scope: Scope) -> BaseRoute | None:
        for route in self._by_room.get(_room_of(scope["path"]), ()):
            match, found = route.matches(scope)
            if match is Match.FULL:
                scope.update(found)
                return route
        return None

    async def _known(self, scope: Scope) -> tuple[Caller, Secret | None]:
        """Return who asks: a program by its key, or a browser by its session."""
        said = header(scope, "authorization")
        if said is not None:
            scheme, _, text = said.partition(" ")
            if scheme.lower() != "bearer" or read_secret(text, "key") is None:
                raise Unauthorised("no key")
            return await self._desk.ask(_caller, text, "key"), None
        session = read_secret(session_of(scope), "session")
        if session is None:
            raise Unauthorised("no key")
        return await self._desk.ask(_caller, session.text, "session"), session

    async def _as_named(self, scope: Scope, caller: Caller) -> Caller:
        """Return the caller as of the tenant that the request names, which only an operator's key may choose."""
        named = header(scope, TENANT_HEADER)
        if not caller.operator:
            if named not in (None, caller.tenant):
                raise RequestRefused(403, "forbidden", "this key is for its own tenant alone.")
            return caller
        if scope["path"] == MCP_PATH:
            raise RequestRefused(403, "forbidden", "an operator's key is not for MCP; make a key of the tenant.")
        if named is None:
            if scope["method"] not in SAFE_METHODS:
                raise RequestRefused(
                    400, "no_tenant", "say whose it is: X-Fencepost-Tenant: NAME; see GET /api/v1/tenants."
                )
            return caller
        await self._desk.ask(check_tenant, named)
        return caller._replace(tenant=named)

    async def _slow_down(self, scope: Scope) -> None:
        """Answer the next wrong key later than this one; right keys are never made to wait."""
        self._failures += 1
        loop = asyncio.get_running_loop()
        loop.call_later(FORGIVEN_SECONDS, self._forgive)
        if loop.time() >= self._tell_at:
            self._tell_at = loop.time() + FORGIVEN_SECONDS
            where = (scope.get("client") or ("somewhere",))[0]
            self._tell(f"warning: web: a request from {where} had no good key or signature; {self._failures} lately.")
        await asyncio.sleep(min(self._failures * SLOW_STEP_SECONDS, SLOW_MAX_SECONDS))

    def _forgive(self) -> None:
        self._failures -= 1

    async def _answer(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer, and answer for it when it has not begun to in time."""
        begun = False
        clock = asyncio.get_running_loop().time

        async def noted(message: Message) -> None:
            nonlocal begun
            if not begun:
                begun = True
                if message.get("status") == HTTPStatus.UNAUTHORIZED:  # a link, or a signature, that was not good
                    await self._slow_down(scope)
                limit.reschedule(None if _is_stream(message) else clock() + ANSWER_SECONDS)
            await send(message)

        try:
            async with asyncio.timeout(REQUEST_SECONDS) as limit:
                await app(scope, receive, noted)
        except TimeoutError:  # what has begun is cut off by the server, which sees that it was not finished
            if not begun:
                detail = f"there was no answer within {REQUEST_SECONDS:g} seconds; try again later."
                await ProblemResponse(503, "too_slow", detail)(scope, receive, send)


def _room_of(path: str) -> str:
    """Return the first word of a path, behind the API's own beginning: routes of other rooms need not be looked at."""
    return path.removeprefix(API).lstrip("/").partition("/")[0]


def _check_framing(scope: Scope) -> None:
    """Refuse a body whose length is said in two ways: a proxy in front of us may have gone by the other one."""
    if header(scope, "content-length") is not None and header(scope, "transfer-encoding") is not None:
        raise RequestRefused(
            400, "bad_request", "Content-Length and Transfer-Encoding came together; send one of them."
        )


def cookie_name(host: str) -> str:
    """Name the session's cookie by the port: browsers share cookies between all ports of a host, and would mix servers up."""
    port = host.rpartition("]")[2].partition(":")[2]
    return f"{COOKIE}_{port}" if port else COOKIE


def session_of(scope: Scope) -> str:
    """Return the session that a browser shows; two of them are none."""
    cookie, wanted = header(scope, "cookie") or "", cookie_name(header(scope, "host") or "")
    found = [value for name, _, value in (part.strip().partition("=") for part in cookie.split(";")) if name == wanted]
    return found[0] if len(found) == 1 else ""


def _is_stream(message: Message) -> bool:
    """Tell whether an answer goes on for as long as the client listens, such as a live log."""
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream")
        for name, value in message.get("headers", ())
    )


def _caller(store: Store, text: str, kind: str) -> Caller:
    return caller_of(store.keys(), text, kind=kind)


def _check_csrf(scope: Scope, body: bytes, session: Secret) -> None:
    shown = header(scope, "x-csrf-token") or ""
    if not shown and (header(scope, "content-type") or "").partition(";")[0].strip().lower() == FORM:
        shown = form_field(body, "csrf")
    if not compare_digest(shown.encode(), csrf_of(session).encode()):
        raise RequestRefused(
            403, "csrf", "send the session's token: the header X-CSRF-Token, or the form's field csrf."
        )


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name for name, _ in message.get("headers", ())}
            added = [(name, value) for name, value in HEADERS if name not in own]
            message["headers"] = [*message.get("headers", ()), *added]
        await send(message)

    return sending
