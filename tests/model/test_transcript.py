"""What an agent's output tells, by rules."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.config.presets import shipped, shipped_names
from fencepost.model.agent_verdict import judge
from fencepost.model.cli_definition import command_line, definition_from
from fencepost.model.errors import Invalid
from fencepost.model.json_path import find
from fencepost.model.outcome import Failed, Outcome, OverBudget, Succeeded
from fencepost.model.output_rules import FORMATS, rules_from
from fencepost.model.transcript import Transcript
from fencepost.model.usage_figures import SoFar

CLAUDE = definition_from(shipped("claude")).output


def heard(*events: object, name: str = "claude", resumes: str | None = None) -> Transcript:
    transcript = Transcript(definition_from(shipped(name)).output, resumes=resumes)
    for event in events:
        transcript.hear(event if isinstance(event, bytes) else json.dumps(event).encode())
    return transcript


MESSAGE = {"id": "m1", "content": [], "usage": {"input_tokens": 10, "output_tokens": 1}}
WHOLE = {"big": {"inputTokens": 30, "outputTokens": 21, "cacheReadInputTokens": 0, "cacheCreationInputTokens": 0}}


def test_a_message_counts_once_however_many_parts_it_has_and_the_result_has_the_last_word() -> None:
    part = {"type": "assistant", "message": MESSAGE}
    another = {"type": "assistant", "message": {**MESSAGE, "id": "m2"}}

    assert heard(part, part, another).usage == {"input": 20, "output": 2}
    assert heard(part, part, another).cost is None
    told = heard(part, another, result(total_cost_usd=0.5, modelUsage=WHOLE))
    assert (told.usage["input"], told.usage["output"], told.cost) == (30, 21, 500_000)


@pytest.mark.parametrize(
    ("earlier", "cost", "tokens"),
    [(SoFar(), 540, 30), (SoFar(180, (("input", 10),)), 360, 20), (SoFar(900, (("input", 50),)), 540, 30)],
    ids=["not resumed", "of the whole session", "each for itself"],
)
def test_what_earlier_attempts_told_of_a_session_is_not_counted_again(earlier: SoFar, cost: int, tokens: int) -> None:
    transcript = Transcript(CLAUDE, so_far=earlier)
    transcript.hear(b'{"type": "system", "subtype": "init", "claude_code_version": "2.1.325"}')

    transcript.hear(json.dumps(result(total_cost_usd=0.0005399999999999999, modelUsage=WHOLE)).encode())

    assert (transcript.cost, transcript.usage["input"]) == (cost, tokens)


def result(**more: object) -> dict[str, object]:
    return {"type": "result", "subtype": "success", "is_error": False, "num_turns": 2, "result": "done", **more}


def verdict(transcript: Transcript, exit_code: int, *, ended_by_us: bool = False) -> Outcome | None:
    return judge(transcript, exit_code, tells_success=True, exit_codes={41: 78}, ended_by_us=ended_by_us)


CALL = {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "a"}, {"type": "text", "text": "x"}]}}
BACK = {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "a"}]}}


def test_a_tool_call_is_open_until_it_comes_back() -> None:
    assert list(heard(CALL).open_calls) == ["a"]
    assert list(heard(CALL, BACK).open_calls) == []
    assert heard(CALL, BACK).work == 2


def test_keep_alives_torn_lines_and_nonsense_are_no_work() -> None:
    noise = [b'{"type": "assist', b"\xff\x00", b"[" * 100_000, b"{}", b"null", {"type": "tool_progress"}, {"type": []}]

    assert heard(*noise).work == 0
    assert not heard(*noise).is_over


def test_the_result_is_believed_and_not_the_exit_code() -> None:
    assert verdict(heard(result()), 1) == Succeeded()
    assert verdict(heard(result(is_error=True)), 0) == Failed(1, said=True)
    assert verdict(heard(result(num_turns=0)), 0) == Failed(1, said=True)
    assert verdict(heard(result(result="")), 0) == Failed(1, said=True)
    assert verdict(heard(result(result="", structured_output={"a": 1})), 0) == Succeeded()
    assert verdict(heard(result(subtype="error_max_budget_usd", is_error=True)), 1) == OverBudget()
    assert verdict(heard(CALL), 0) == Failed(1, said=True)
    assert verdict(heard(CALL), 137) == Failed(137)


def test_what_we_ended_is_ours_to_explain_unless_it_was_done() -> None:
    assert verdict(heard(CALL), 143, ended_by_us=True) is None
    assert verdict(heard(result(is_error=True, terminal_reason="aborted_tools")), 1, ended_by_us=True) is None
    assert verdict(heard(result()), 143, ended_by_us=True) == Succeeded()
    assert judge(heard(result()), 0, tells_success=True, exit_codes={}, ended_by_us=True, was_done=False) is None


def test_work_after_a_result_takes_the_end_back() -> None:
    assert heard(result()).is_over
    assert not heard(result(), CALL).is_over
    assert heard(result(is_error=True), CALL, BACK, result()).succeeded


def test_another_session_than_the_one_asked_for_is_noticed() -> None:
    init = {"type": "system", "subtype": "init", "session_id": "B"}

    assert heard(init).session == "B"
    assert not heard(init, resumes="B").lost_session
    assert heard(init, resumes="A").lost_session
    assert verdict(heard(init, result(), resumes="A"), 0) == Failed(1, ambiguous=True, said=True)


@pytest.mark.parametrize("cost", [-1, "NaN", 1e400, None, True, [], "x", -0.5])
def test_a_cost_that_is_none_is_not_counted(cost: object) -> None:
    assert heard(json.dumps(result(total_cost_usd=cost)).encode()).cost is None


def test_steps_that_tell_their_own_cost_are_added_up() -> None:
    step = {"type": "step_finish", "sessionID": "s", "part": {"cost": 0.25, "tokens": {"input": 3}}}
    told = heard(step, step, name="opencode")

    assert (told.cost, told.usage["input"], told.turns, told.session) == (500_000, 6, 2, "s")


def test_text_is_read_by_patterns() -> None:
    told = heard(b"Tokens: 2.1k sent, 15 received. Cost: $0.01 message, $0.03 session.", name="aider")

    assert told.cost == 30_000
    assert told.work == 1
    assert judge(told, 0, tells_success=False, exit_codes={}, ended_by_us=False) == Succeeded()


def test_output_that_comes_as_one_object_is_read_at_the_end() -> None:
    rules = rules_from({"format": "json", "succeeded": [{"when": {"ok": True}}], "summary": [{"take": "response"}]})
    told = Transcript(rules)
    for line in (b"{", b'"ok": true,', b'"response": "hi"}'):
        told.hear(line)
    assert not told.is_over
    told.finish()

    assert (told.succeeded, told.summary) == (True, "hi")


@given(st.lists(st.binary(max_size=200) | st.dictionaries(st.text(max_size=5), st.integers()).map(json.dumps)))
def test_no_output_whatever_breaks_the_reader(lines: list[bytes | str]) -> None:
    for name in shipped_names():
        heard(*(line.encode() if isinstance(line, str) else line for line in lines), name=name)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "message", "content", "id"]), inner),
    max_leaves=10,
)  # fmt: skip


@given(JSON, st.sampled_from(["assistant", "user", "result", "system"]))
def test_no_event_whatever_its_shape_breaks_the_reader(value: object, kind: str) -> None:
    event = {"type": kind, "subtype": "init", "message": value, "session_id": value, "result": value, "errors": value}

    heard(event, {**event, "modelUsage": value, "total_cost_usd": value, "num_turns": value, "is_error": value})


def test_paths_go_through_lists_objects_and_filters() -> None:
    value = {"a": [{"t": "x", "n": 1}, {"t": "y", "n": 2}, 3], "m": {"p": {"c": 1}, "q": {"c": 2}}}

    assert find(value, "a[t=y].n") == [2]
    assert find(value, "a.0.n") == [1]
    assert find(value, "m.*.c") == [1, 2]
    assert find(value, "a.b.c") == []


@pytest.mark.parametrize("path", ["", "a..b", ".a", "a.", "a[b]", "a b"])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(Invalid):
        find({}, path)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"formt": "json"}, "there is no formt"),
        ({"format": "xml"}, "none of jsonl, json, text"),
        ({"work": {"when": {}}}, "expected a list of rules"),
        ({"work": [{"wen": {}}]}, "output.work.0: there is no wen"),
        ({"work": [{"match": "("}]}, "output.work.0"),
        ({"work": [{"match": "x", "take": "y"}]}, "keep one of the two"),
        ({"usage": {"input": [{"take": "a..b"}]}}, "output.usage.input.0"),
    ],
)
def test_rules_that_cannot_work_are_refused_with_their_place(table: dict[str, object], said: str) -> None:
    with pytest.raises(Invalid, match=said.replace("(", r"\(")):
        rules_from(table)


@pytest.mark.parametrize("name", shipped_names())
def test_every_definition_that_is_shipped_is_in_order(name: str) -> None:
    definition = definition_from(shipped(name))

    assert definition.argv[0] == {"continue": "cn"}.get(name, name)
    assert definition.output.format in FORMATS


def test_a_value_stays_within_its_word() -> None:
    words = command_line(
        ["cli", "{model_args}", "--ask={prompt}", "{args}"],
        args=["--flag"],
        model_args=["-m", "{model}"],
        values={"prompt": "a b; {session} --evil", "model": "", "session": "S"},
    )

    assert words == ("cli", "--ask=a b; {session} --evil", "--flag")
