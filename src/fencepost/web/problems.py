"""Errors as the door tells them: problem+json (RFC 9457) with a stable code and a sentence that helps."""

import json
from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from fencepost.model import errors
from fencepost.operations.hosted_cells import Moved
from fencepost.web.login_pages import threshold, wants_page

STATUSES: Mapping[type[errors.FencepostError], int] = {
    errors.Unknown: 404,
    errors.Invalid: 400,
    errors.Unauthorised: 401,
    errors.QueueFull: 429,
    errors.Outdated: 412,
    Moved: 412,
    errors.Busy: 409,
    errors.StoreUnavailable: 503,
    errors.FenceRefused: 409,
    errors.LeaseLost: 409,
    errors.InDoubt: 409,
    errors.RunDiverged: 409,
    errors.Misconfigured: 503,
    errors.FenceRegress: 503,
}
RETRY_SECONDS = "5"
LATER = (429, 503)
UNKNOWN_KEY = "A key is needed: 'Authorization: Bearer fpk_…'. Make one with: fencepost key create NAME --role read"
REALM = {"WWW-Authenticate": 'Bearer realm="fencepost"'}


class ProblemResponse(Response):
    """One thing that is wrong."""

    media_type = "application/problem+json"

    def __init__(
        self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None, **more: object
    ) -> None:
        content = {
            "type": f"urn:fencepost:{code}",
            "title": HTTPStatus(status).phrase,
            "status": status,
            "code": code,
            "detail": detail,
            **more,
        }
        later = {"Retry-After": RETRY_SECONDS} if status in LATER else {}
        self.code, self.detail = code, detail
        super().__init__(json.dumps(content), status, {**later, **(headers or {})})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell a person on a page, and a program in JSON."""
        if not wants_page(scope):
            await super().__call__(scope, receive, send)
            return
        log_in = self.status_code == HTTPStatus.UNAUTHORIZED
        detail = "" if log_in and self.detail == UNKNOWN_KEY else self.detail
        page = threshold(self.status_code, detail, log_in=log_in)
        for name in ("retry-after", "www-authenticate", "allow"):
            if name in self.headers:
                page.headers[name] = self.headers[name]
        await page(scope, receive, send)


def problem_of(error: errors.FencepostError) -> ProblemResponse:
    """Return what the door says about an error."""
    status = next((STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES), 500)
    return ProblemResponse(status, error.code, str(error), REALM if status == HTTPStatus.UNAUTHORIZED else None)


def unauthorised() -> ProblemResponse:
    """Return the one answer to every request without a key."""
    return ProblemResponse(401, "unauthorised", UNKNOWN_KEY, REALM)
