"""The OpenAPI document is complete, and whatever it allows to be sent is answered, never with a server error."""

from collections.abc import Mapping
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.core.result import Ok

from fencepost.model.definition import AgentDefinition
from tests.support.webdoor import HOST, WebDoor

EXAMPLES = 5


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


def test_whatever_is_sent_is_never_a_server_error(web_on_both: WebDoor, monkeypatch: pytest.MonkeyPatch) -> None:
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
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def sent(case: Any) -> None:  # noqa: ANN401  # schemathesis.Case
            nonlocal tried
            tried += 1
            status = send(web, case.as_transport_kwargs(base_url=f"http://{HOST}"), shown)
            assert status < 500, case

        sent()

    assert tried > 100


def send(web: WebDoor, request: Mapping[str, Any], shown: Mapping[str, str]) -> int:
    """Send what was made up, with a good key."""
    kept = {name: value for name, value in (request.get("headers") or {}).items() if _is_header(name, value)}
    kept.pop("Authorization", None)
    more = {name: request[name] for name in ("params", "json", "data") if request.get(name) is not None}
    if isinstance(more.get("data"), bytes | str):
        more["content"] = more.pop("data")
    headers = {name: value for name, value in kept.items() if name.lower() not in ("host", "content-length")}
    return web.ask(request["method"], request["url"], headers={**headers, **shown}, **more).status_code


def _is_header(name: str, value: object) -> bool:
    """Tell whether a client could send it at all."""
    text = f"{name}{value}"
    return text.isascii() and text.isprintable() and str(value).strip() == value
