"""The page of the HTTP API, written from the OpenAPI document that the web door itself serves."""

from collections.abc import Iterator
from typing import Any, cast

from fencepost.web.app import create_app
from fencepost.web.door import Door
from fencepost.web.security import OPEN, wanted_role

METHODS = ("get", "post", "put", "patch", "delete")


def page() -> str:
    """Write the page."""
    return "\n".join(_lines(document())) + "\n"


def document() -> dict[str, Any]:
    """Return the document; making it asks nothing of a store."""
    nothing = cast("Any", None)
    gate = create_app(Door(nothing, nothing, "", nothing, nothing, nothing), hosts=frozenset())
    found: dict[str, Any] = cast("Any", gate.app).openapi()
    return found


def _lines(api: dict[str, Any]) -> Iterator[str]:
    yield "# HTTP API"
    yield ""
    yield "Every operation, from the OpenAPI document that a server gives at `/api/v1/openapi.json`."
    yield "[How to use it](../how-to/use-the-http-api.md). A key goes into the header `Authorization: Bearer …`."
    yield "Errors are `application/problem+json` with a stable `code`."
    for path, operations in api["paths"].items():
        for method in METHODS:
            if method in operations:
                yield from _operation(api, path, method, operations[method])
    yield from ("", "## Errors", "", "| status | means |", "|---|---|")
    yield from (f"| {status} | {answer['description']} |" for status, answer in _errors(api))


def _operation(api: dict[str, Any], path: str, method: str, operation: dict[str, Any]) -> Iterator[str]:
    yield from ("", f"## {method.upper()} {path}", "", operation.get("description") or operation["summary"])
    access = operation.get("x-fencepost-access") or wanted_role(None, method.upper())
    yield from ("", "Takes no key." if access == OPEN else f"Takes a key with the role `{access}`.")
    rows = [
        (one["name"], one["in"], one.get("required"), one.get("description", ""))
        for one in operation.get("parameters", ())
    ]
    for schema in _bodies(operation.get("requestBody", {})):
        fields = _resolved(api, schema)
        needed = fields.get("required", ())
        rows += [
            (name, "body", name in needed, one.get("description", ""))
            for name, one in fields.get("properties", {}).items()
        ]
    if rows:
        yield from ("", "| name | in | needed | means |", "|---|---|---|---|")
        yield from (
            f"| `{name}` | {place} | {'yes' if needed else ''} | {_cell(words)} |"
            for name, place, needed, words in rows
        )
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            yield from ("", f"Answers {status}.")
            yield from _answer(api, answer)


def _answer(api: dict[str, Any], answer: dict[str, Any]) -> Iterator[str]:
    for schema in _bodies(answer):
        fields = _resolved(api, schema).get("properties", {})
        if fields:
            yield from ("", "| field | kind | means |", "|---|---|---|")
            yield from (
                f"| `{name}` | {_kind(one)} | {_cell(one.get('description', ''))} |" for name, one in fields.items()
            )


def _bodies(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for kind, content in part.get("content", {}).items():
        if kind == "application/json":
            yield content.get("schema", {})


def _resolved(api: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        found: dict[str, Any] = api["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return found
    return schema


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "JSON"))


def _errors(api: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    first = next(one for operations in api["paths"].values() for one in operations.values())
    return [(status, answer) for status, answer in sorted(first["responses"].items()) if status[0] in "45"]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
