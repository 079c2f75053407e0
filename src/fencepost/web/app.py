"""Builds the application: the routes, how errors are told, and the gatekeeper before all of it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from fencepost.model.errors import FencepostError, Unverifiable
from fencepost.web import completions, health, login, metrics, webhooks
from fencepost.web.api import cells, definitions, keys, notices, records, runs, schedules, single, tenants
from fencepost.web.dashboard import routes as dashboard
from fencepost.web.door import Door
from fencepost.web.openapi import describe
from fencepost.web.problems import ProblemResponse, problem_of
from fencepost.web.security import Gatekeeper, Tell
from fencepost.web.webhooks import NAME_MAX

TITLE = "Fencepost"
TOLD_SECONDS, TOLD_MAX = 60, 1_000
DESCRIPTION = "Runs scheduled AI agents: no tick twice, no overlap where it must not be, no zombie writes."


def create_app(door: Door, *, hosts: frozenset[str], tell: Tell = lambda _: None) -> Gatekeeper:
    """Return the whole door, for a server that answers to these names (`name:port`)."""
    app = _bare(door, document="/api/v1/openapi.json")
    app.state.meter = metrics.MetricsReader(door.desk, door.now_us)
    rooms = (
        *(health, login, metrics, webhooks, completions, runs, schedules, single, definitions, records, keys, notices),
        cells,
        tenants,
    )
    for module in (*rooms, *dashboard.ROOMS):
        app.router.routes.extend(module.router.routes)  # one flat list, which the gatekeeper goes through
    if find_spec("mcp") is not None:
        from fencepost.web.mcp import mcp_route

        app.router.routes.append(mcp_route(door))
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]  # as FastAPI says to extend it
    direct: dict[object, ASGIApp] = {webhooks.deliver: Direct(app, webhooks.deliver)}
    return Gatekeeper(app, routes=app.routes, desk=door.desk, hosts=hosts, tell=tell, direct=direct)


def create_mcp_app(door: Door, *, hosts: frozenset[str], tell: Tell = lambda _: None, acts: bool = True) -> Gatekeeper:
    """Return the MCP door and nothing else, behind the same gatekeeper."""
    from fencepost.web.mcp import mcp_route

    app = _bare(door, document=None)
    app.router.routes.extend([*health.router.routes, mcp_route(door, acts=acts)])
    return Gatekeeper(app, routes=app.routes, desk=door.desk, hosts=hosts, tell=tell)


class Direct:
    """Calls a route's endpoint with the request and its path, without what FastAPI does around it.

    Deliveries come in crowds, and the layers of FastAPI cost several times what the rest of one does.
    """

    def __init__(self, app: FastAPI, endpoint: Callable[..., Awaitable[Response]]) -> None:
        self._app = app
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and tell errors as the application does."""
        names = scope["path_params"]
        if any(len(name) > NAME_MAX for name in names.values()):
            await self._app(scope, receive, send)  # which says what is wrong with it
            return
        scope["app"] = self._app
        request = Request(scope, receive)
        try:
            answer = await self._endpoint(request, **names)
        except FencepostError as error:
            answer = _told(request, error)
        except Exception as error:
            await _our_fault(request, error)(scope, receive, send)
            raise  # for the log
        await answer(scope, receive, send)


def _bare(door: Door, *, document: str | None) -> FastAPI:
    """Return an application without rooms, which tells errors as all of them do."""
    app = FastAPI(
        title=TITLE,
        description=DESCRIPTION,
        version="1",
        openapi_url=document,
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_closing(door),
    )
    app.state.door = door
    app.state.doubts = Doubts(door)
    app.add_exception_handler(FencepostError, _told)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _no_route)
    app.add_exception_handler(Exception, _our_fault)
    return app


def _closing(door: Door):  # type: ignore[no-untyped-def]  # noqa: ANN202  # what FastAPI takes for a lifespan
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        door.desk.close()

    return lifespan


def _told(request: Request, error: Exception) -> Response:
    assert isinstance(error, FencepostError)
    if isinstance(error, Unverifiable):
        request.app.state.doubts.tell(error.why)
    return problem_of(error)


class Doubts:
    """Tells the operator which signatures cannot be checked here, each of them once in a while."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._told_at: dict[str, int] = {}

    def tell(self, why: str) -> None:
        """Tell of one, unless it was told lately."""
        now = self._door.now_seconds()
        if now - self._told_at.get(why, 0) >= TOLD_SECONDS:
            if len(self._told_at) >= TOLD_MAX:
                self._told_at.clear()
            self._told_at[why] = now
            self._door.tell(f"warning: web: {why}")


def _malformed(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    wrong = [{"where": [str(part) for part in one["loc"]], "what": str(one["msg"])} for one in error.errors()[:20]]
    detail = "; ".join(f"{'.'.join(one['where'])}: {one['what']}" for one in wrong)
    return ProblemResponse(422, "invalid", detail, errors=wrong)


def _no_route(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "unknown", 405: "wrong_method"}.get(error.status_code, "error")
    return ProblemResponse(error.status_code, code, f"{error.detail}; see /api/v1/openapi.json.", error.headers)


def _our_fault(_: Request, __: Exception) -> Response:
    return ProblemResponse(500, "internal", "this is a bug of Fencepost; its log says more.")
