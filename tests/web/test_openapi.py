"""The OpenAPI document is complete, and whatever it allows to be sent is answered, never with a server error."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode

from fencepost.model.definition import AgentDefinition
from fencepost.web.api import request_models
from fencepost.web.openapi import STATUSES
from tests.support.webdoor import HOST, WebDoor

EXAMPLES = os.environ.get("FENCEPOST_TEST_EXAMPLES")
# A preview without an end, one report, and an export that goes on by its Link: what they show is bounded, not paged.
ONE_ANSWER = {"ticks", "prove", "export"}
# What is free by its nature: JSON of agents, of people and of engines.
FREE = {"payload", "answer", "old", "new", "options", "gate_definitions"}


def document(web: WebDoor) -> dict[str, Any]:
    found = web.ask("GET", "/api/v1/openapi.json", headers=web.bearer("read")).json()
    assert isinstance(found, dict)
    return found


def test_every_route_of_the_api_is_described(web: WebDoor) -> None:
    described = document(web)["paths"]
    routes = {route.path for route in web.gate.routes if getattr(route, "include_in_schema", False)}  # type: ignore[attr-defined]

    assert set(described) == routes
    for path, operations in described.items():
        for method, operation in operations.items():
            good = [operation["responses"][code] for code in operation["responses"] if code.startswith("2")]
            assert good, (method, path)
            assert operation["summary"], (method, path)
            assert "401" in operation["responses"]


def test_every_answer_is_described_field_by_field(web: WebDoor) -> None:
    found = document(web)
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            for status, answer in operation["responses"].items():
                for kind, content in answer.get("content", {}).items():
                    assert kind != "application/problem+json" or status[0] in "45", (method, path)
                    wide = set(open_parts(found, content.get("schema"), "answer")) if "json" in kind else set()
                    assert wide <= FREE, (method, path, status, wide)


def test_every_parameter_and_field_that_is_sent_says_what_it_means_and_every_body_has_an_example(web: WebDoor) -> None:
    found = document(web)
    operations = [one for path in found["paths"].values() for one in path.values()]
    silent = [
        (one["operationId"], parameter["name"])
        for one in operations
        for parameter in one.get("parameters", ())
        if not parameter.get("description")
    ]
    sent = [json.dumps(one["requestBody"]) for one in operations if "requestBody" in one]
    bodies = {name for one in sent for name in re.findall(r"schemas/(\w+)", one)}
    assert silent == []
    assert len(bodies) > 10
    for name in bodies:
        schema = found["components"]["schemas"][name]
        assert [field for field, one in schema["properties"].items() if not one.get("description")] == [], name
        (example,) = schema["examples"]
        getattr(request_models, name).model_validate(example)


def test_every_operation_tells_every_error_and_every_list_has_a_cursor(web: WebDoor) -> None:
    found = document(web)
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            told = {status for status in operation["responses"] if status[0] in "45"}
            assert told >= set(STATUSES), (method, path)
            names = {parameter["name"] for parameter in operation.get("parameters", ())}
            if "limit" in names and path.rpartition("/")[2] not in ONE_ANSWER:
                assert "cursor" in names, (method, path)


def open_parts(found: dict[str, Any], schema: Any, name: str, seen: frozenset[str] = frozenset()) -> Iterator[str]:  # noqa: ANN401
    """Yield the names of all fields of which the document does not say what they hold."""
    if schema is True or not schema:
        yield name
    elif reference := schema.get("$ref"):
        if reference not in seen:
            yield from open_parts(
                found, found["components"]["schemas"][reference.rpartition("/")[2]], name, seen | {reference}
            )
    elif several := [*schema.get("anyOf", ()), *schema.get("allOf", ())]:
        for one in several:
            yield from open_parts(found, one, name, seen)
    elif schema.get("type") == "array":
        yield from open_parts(found, schema.get("items"), name, seen)
    elif schema.get("type") == "object":
        for field, one in schema.get("properties", {}).items():
            yield from open_parts(found, one, field, seen)
        if "properties" not in schema:
            yield from open_parts(found, schema.get("additionalProperties"), name, seen)


@pytest.mark.parametrize(
    ("both", "mode"), [("sqlite", "positive"), ("postgresql", "negative")], indirect=["both"], ids=["good", "bad"]
)
def test_whatever_is_sent_is_answered_as_described_and_never_by_a_server_error(
    web_on_both: WebDoor, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = web_on_both
    monkeypatch.setattr("fencepost.web.security.SLOW_STEP_SECONDS", 0.0)
    web.runtime.apply(AgentDefinition("digest", command=("true",)))
    web.runtime.cron("nightly", "0 2 * * *")
    shown = web.bearer()
    schema = schemathesis.openapi.from_dict(document(web))
    tried = 0
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        if operation.path.endswith("/doctor"):
            continue  # it looks at the machine, takes nothing and takes long

        @settings(
            max_examples=int(EXAMPLES or (4 if mode == "positive" else 2)),  # bad ones take long to think of
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=GenerationMode(mode)))
        def sent(case: Any) -> None:  # noqa: ANN401  # schemathesis.Case
            nonlocal tried
            tried += 1
            answer = send(web, case.as_transport_kwargs(base_url=f"http://{HOST}"), shown)
            assert answer.status_code < 500, case
            assert str(answer.status_code) in case.operation.definition.raw["responses"], (case, answer.text)
            case.operation.validate_response(answer)

        try:
            sent()
        except Unsatisfiable:
            assert mode == "negative", operation.path  # whatever is sent there is good

    assert tried > 60


def send(web: WebDoor, request: Mapping[str, Any], shown: Mapping[str, str]) -> httpx.Response:
    """Send what was made up, with a good key."""
    kept = {name: value for name, value in (request.get("headers") or {}).items() if _is_header(name, value)}
    kept.pop("Authorization", None)
    more = {name: request[name] for name in ("params", "json", "data") if request.get(name) is not None}
    if isinstance(more.get("data"), bytes | str):
        more["content"] = more.pop("data")
    headers = {name: value for name, value in kept.items() if name.lower() not in ("host", "content-length")}
    return web.ask(request["method"], request["url"], headers={**headers, **shown}, **more)


def _is_header(name: str, value: object) -> bool:
    """Tell whether a client could send it at all."""
    text = f"{name}{value}"
    return text.isascii() and text.isprintable() and str(value).strip() == value
