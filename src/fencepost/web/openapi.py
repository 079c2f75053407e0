"""The OpenAPI document: what FastAPI knows of the routes, with the key that they take and how errors are told."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from fencepost.web.security import OPEN

PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "stable; for programs"},
        "detail": {"type": "string", "description": "what is wrong and what to do, for people"},
        "errors": {
            "type": "array",
            "description": "with status 422: each field that is wrong",
            "items": {
                "type": "object",
                "required": ["where", "what"],
                "properties": {
                    "where": {"type": "array", "items": {"type": "string"}},
                    "what": {"type": "string"},
                },
            },
        },
    },
}
STATUSES = {
    "400": "what was asked cannot work",
    "401": "a good key is needed",
    "403": "the key's role is not enough, or the request comes from another site's page",
    "404": "there is nothing of that name",
    "408": "the body did not come in time",
    "409": "something is in the way, or the key stands for another request",
    "413": "the body is too large",
    "415": "the body is packed",
    "421": "the server does not answer to that name",
    "422": "a field is missing, unknown or of another kind",
    "429": "as many wait as may; come back later",
    "500": "a bug of Fencepost; its log says more",
    "503": "the store is away; come back later",
}

# What parameters mean that several operations share, where they say nothing of their own; and one that could be sent.
MEANINGS: dict[str, tuple[str, str]] = {
    "run_id": ("the run's id; its beginning is enough, if no other begins so", "r01jd3x8k5w9v"),
    "schedule": ("a schedule's name", "nightly-digest"),
    "agent": ("only runs of this agent", "digest"),
    "tenant": ("whose hook or run it is", "default"),
    "name": ("the hook's name, as in [hooks.NAME]", "github-push"),
    "target": ("who is told, as in [notifications.NAME]", "chat"),
    "key": ("the key's id, as it is listed; never the key itself", "7f3a9c21b0de"),
    "idempotency-key": (
        "makes it idempotent: the same key again finds what it made; with another body it is a 409",
        "deploy-4711",
    ),
    "project": ("only what works in this project, by its name", "scout"),
    "resource": ("only leases on this resource", "project:scout"),
    "state": ("only those in this state", ""),
    "event": ("only notices of this event", "dead"),
    "kind": ("only these: key, link or session", "key"),
    "scope": ("`tenant`, or as it is listed", "tenant"),
    "verb": ("only entries of this verb", "pause"),
    "subject": ("only entries about this", "schedule:nightly-digest"),
    "since": ("only runs that were made since this instant", "2026-12-01T00:00:00Z"),
    "from": ("an instant, where it begins; it belongs to it", "2026-12-01T00:00:00Z"),
    "until": ("an instant, where it ends; it does not belong to it", "2026-12-08T00:00:00Z"),
    "at": ("an instant, or a wall time of the schedule's zone; without one, its last tick", "2026-12-01T02:00"),
    "disposition": ("only ticks that became this", "overlap"),
    "lines": ("how many of the last lines", "100"),
    "attempt": ("which attempt, from 1; without one, the last", "1"),
    "cron": ("a cron expression, with `timezone`, in place of a schedule", "0 2 * * 1-5"),
    "timezone": ("an IANA name", "Europe/Berlin"),
    "dst_gap": ("what a tick in a gap becomes: skip or shift", "skip"),
    "dst_fold": ("which of two equal wall times counts: auto, first, last or both", "auto"),
    "years": ("how many years to look ahead", "1"),
    "head": ("only the newest seal", "false"),
}


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the document, made once."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        parts = found.setdefault("components", {})
        parts.setdefault("schemas", {})["Problem"] = PROBLEM
        parts["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        for operations in found["paths"].values():
            for operation in operations.values():
                _complete(operation)
        app.openapi_schema = found
    return app.openapi_schema


def _complete(operation: dict[str, Any]) -> None:
    operation["security"] = [] if operation.get("x-fencepost-access") == OPEN else [{"key": []}]
    for parameter in operation.get("parameters", ()):
        meaning, example = MEANINGS.get(parameter["name"], ("", ""))
        parameter.setdefault("description", meaning)
        if example:
            parameter.setdefault("example", example)
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for status, words in STATUSES.items():
        operation["responses"][status] = {"description": words, "content": content}
