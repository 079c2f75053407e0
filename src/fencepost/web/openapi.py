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
    "409": "somebody is in the way, or the key stands for another request",
    "413": "the body is too large",
    "415": "the body is packed",
    "421": "the server does not answer to that name",
    "422": "a field is missing, unknown or of another kind",
    "429": "as many wait as may; come back later",
    "503": "the store is away; come back later",
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
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for status, words in STATUSES.items():
        operation["responses"][status] = {"description": words, "content": content}
