"""What agents print is told as a conversation, whichever of the known ones it is, and nonsense is passed over."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.config.presets import shipped, shipped_names
from fencepost.model.cli_definition import command_line, definition_from
from fencepost.model.conversation import PLACES, Conversation, ConversationTurn, TurnKind, turns_of
from fencepost.model.json_path import parse_path
from fencepost.model.output_rules import OutputRules

STANDINS = Path(__file__).parents[1] / "engines" / "standins"
CLAUDE = definition_from(shipped("claude")).output


def claude(*events: dict[str, object]) -> list[ConversationTurn]:
    return turns_of((json.dumps(one) for one in events), CLAUDE) or []


def test_words_calls_answers_and_the_end_are_told_in_their_order() -> None:
    content = [{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"x": 1}}]
    back = [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "no"}], "is_error": True}]
    turns = claude(
        {"type": "system", "subtype": "init", "session_id": "s"},
        {"type": "assistant", "message": {"id": "m", "content": content, "usage": {"input_tokens": 7}}},
        {"type": "user", "message": {"content": back}},
        {"type": "result", "subtype": "success", "is_error": False, "result": "Done.", "total_cost_usd": 0.25},
    )
    assert [(one.part, one.text, one.name, one.id, one.bad) for one in turns] == [
        (TurnKind.SAID, "I look.", "", "", False),
        (TurnKind.CALL, '{"x": 1}', "Bash", "t1", False),
        (TurnKind.ANSWER, "no", "", "t1", True),
        (TurnKind.END, "Done.", "", "", False),
    ]
    assert [one.cost_micro for one in turns] == [None, None, None, 250_000]
    assert turns[0].llm_tokens == 7


@pytest.mark.parametrize(
    "name", [one for one in shipped_names() if definition_from(shipped(one)).output.format == "jsonl"]
)
def test_what_each_known_agent_prints_is_a_conversation(name: str, tmp_path: Path) -> None:
    """Let the stand-in of each agent speak, which cites what it imitates."""
    definition = definition_from(shipped(name))
    values = {"session": "00000000-0000-0000-0000-000000000001", "prompt": "go", "prompt_file": "p", "folder": "."}
    words = command_line(definition.argv[1:], args=(), model_args=(), values=values)
    environment = {**os.environ, **definition.env, "HOME": str(tmp_path), "FENCEPOST_FENCE": "7"}
    program = [sys.executable, str(STANDINS / f"{name}.py"), *words]
    said = subprocess.run(
        program, input="go", capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=60, check=True
    )
    turns = turns_of(said.stdout.splitlines(), definition.output)
    assert turns is not None, said
    assert TurnKind.SAID in {one.part for one in turns}, turns


def test_lines_that_are_no_events_stay_and_make_no_conversation_alone() -> None:
    assert turns_of(["hello", "world"], CLAUDE) is None
    assert turns_of(['{"type": "unheard of"}'], CLAUDE) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda one: (
            st.lists(one)
            | st.dictionaries(
                st.sampled_from(("type", "message", "content", "role", "text", "id", "item", "part", "subtype")), one
            )
        ),
    )
)
def test_no_event_is_too_strange(event: object) -> None:
    talk = Conversation(OutputRules(format="jsonl"))
    for line in (json.dumps(event), json.dumps({"type": "assistant", "message": {"content": event}}), "{" * 9):
        assert all(isinstance(one.text, str) for one in talk.hear(line))


def test_every_place_is_spelt_as_a_path() -> None:
    for place in PLACES:
        for path in (place.each, place.text, place.name, place.id, place.bad, *(path for path, _ in place.when)):
            assert not path or parse_path(path)
