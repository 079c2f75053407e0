"""The model of the tests speaks each protocol as its users expect: text in pieces, a tool call, and every fault."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.agents.model.script import ANSWER
from tests.agents.model.server import Model, model_server

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
TOOL = {"name": "shell", "parameters": SCHEMA}


def anthropic(prompt: str) -> tuple[str, dict[str, Any]]:
    tools = [{"name": "shell", "input_schema": SCHEMA}]
    message = {"role": "user", "content": prompt}
    return "/v1/messages", {"model": "m", "stream": True, "messages": [message], "tools": tools}


def chat(prompt: str) -> tuple[str, dict[str, Any]]:
    tools = [{"type": "function", "function": TOOL}]
    message = {"role": "user", "content": prompt}
    return "/v1/chat/completions", {"model": "m", "stream": True, "messages": [message], "tools": tools}


def responses(prompt: str) -> tuple[str, dict[str, Any]]:
    return "/v1/responses", {"model": "m", "stream": True, "input": prompt, "tools": [{"type": "function", **TOOL}]}


def gemini(prompt: str) -> tuple[str, dict[str, Any]]:
    contents = [{"role": "user", "parts": [{"text": prompt}]}]
    body = {"contents": contents, "tools": [{"functionDeclarations": [TOOL]}]}
    return "/v1beta/models/m:streamGenerateContent?alt=sse", body


PROTOCOLS = pytest.mark.parametrize("protocol", [anthropic, chat, responses, gemini])


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with model_server() as found:
        yield found


def ask(model: Model, asked: tuple[str, dict[str, Any]]) -> httpx.Response:
    path, body = asked
    return httpx.post(f"{model.url}{path}", json=body, timeout=10)


@PROTOCOLS
def test_it_answers_in_pieces(model: Model, protocol: Any) -> None:  # noqa: ANN401  # one of the four
    answer = ask(model, protocol("hello"))

    assert answer.headers["content-type"] == "text/event-stream"
    assert all(json.dumps(piece) in answer.text for piece in ANSWER)


@PROTOCOLS
def test_it_calls_the_tool_that_a_prompt_asks_for(model: Model, protocol: Any) -> None:  # noqa: ANN401  # likewise
    answer = ask(model, protocol("please STRAY"))

    assert "echo stray > stray" in answer.text
    assert not any(json.dumps(piece) in answer.text for piece in ANSWER)


@pytest.mark.parametrize("status", [401, 429, 500])
@PROTOCOLS
def test_it_refuses_and_breaks_when_asked_to(model: Model, protocol: Any, status: int) -> None:  # noqa: ANN401  # likewise
    assert ask(model, protocol(f"please FAULT-{status}")).status_code == status


@PROTOCOLS
def test_it_breaks_off_in_the_middle_of_an_answer(model: Model, protocol: Any) -> None:  # noqa: ANN401  # likewise
    with pytest.raises(httpx.RemoteProtocolError):
        ask(model, protocol("please FAULT-CUT"))


@PROTOCOLS
def test_a_fault_may_pass(model: Model, protocol: Any) -> None:  # noqa: ANN401  # likewise
    prompt = f"please FAULT-500-ONCE {protocol.__name__}"

    assert [ask(model, protocol(prompt)).status_code for _ in range(2)] == [500, 200]
