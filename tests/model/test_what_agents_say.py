"""What the words of the real agents mean: how they fail, complain and go on, as they were seen to."""

import json

import pytest

from fencepost.config.presets import shipped
from fencepost.model.agent_verdict import judge
from fencepost.model.cli_definition import command_line, definition_from
from fencepost.model.errors import Invalid
from fencepost.model.outcome import Failed, Outcome, Succeeded
from fencepost.model.output_rules import rules_from
from fencepost.model.transcript import Transcript
from fencepost.model.usage_figures import SoFar

NO_SUCCESS = Failed(1, said=True)
NO_USE = Failed(78, said=True)
BROKE = "Ran into this error: Server error: Server error (500 Internal Server Error)"
REFUSED = "Ran into this error: Authentication error: Status: 401 Unauthorized."
COMPLETE = {"type": "complete", "total_tokens": 120, "input_tokens": 100, "output_tokens": 20}
INIT = {"type": "system", "subtype": "init", "session_id": "s"}
RETRY = {"type": "system", "subtype": "api_retry", "attempt": 5, "error_status": 500, "error": "server_error"}
STOPPED = {"type": "user", "message": {"content": [{"type": "text", "text": "[Request interrupted by user]"}]}}
ABORTED = {"type": "result", "is_error": True, "num_turns": 2, "errors": ["[ede_diagnostic] result_type=user"]}
GEMINI_401 = '[API Error: {"error":{"code":401,"message":"no such key"}}]'
CODEX_401 = "unexpected status 401 Unauthorized: no such key, url: http://127.0.0.1/v1/responses"
AIDER_401 = (
    "litellm.AuthenticationError: AuthenticationError: OpenAIException - no such",
    "key",
    "Check your API key.",
)
AIDER_500 = (
    "litellm.InternalServerError: InternalServerError: OpenAIException - it",
    "broke",
    "Retrying in 0.2 seconds...",
)
AIDER_UNAPPLIED = ("The LLM did not conform to the edit format.", "# 1 SEARCH/REPLACE block failed to match!")
AIDER_WORKED = ("Tokens: 100 sent, 20 received.", "Applied edit to README.md", "Commit 1a2b3c4 docs: say more")


def said(words: str, number: str = "m1", **more: object) -> dict[str, object]:
    """Return a message of goose's."""
    content = [{"type": "text", "text": words}]
    return {"type": "message", "message": {"id": number, "role": "assistant", "content": content, **more}}


def delta(words: str) -> dict[str, object]:
    """Return a piece of what Gemini says."""
    return {"type": "message", "role": "assistant", "content": words, "delta": True}


def heard(name: str, *lines: object, so_far: SoFar | None = None) -> Transcript:
    """Let a ready definition read lines; text as it is, everything else as JSON."""
    rules = definition_from(shipped(name)).output
    told = Transcript(rules, resumes="s", so_far=so_far) if so_far else Transcript(rules)
    for line in lines:
        told.hear((line if isinstance(line, str) else json.dumps(line)).encode())
    return told


def verdict(name: str, told: Transcript, code: int) -> Outcome | None:
    """Judge an end as the engine does."""
    definition = definition_from(shipped(name))
    codes = {
        code: {"misconfigured": 78, "failed": 1, "succeeded": 0}[word] for code, word in definition.exit_codes.items()
    }
    return judge(told, code, tells_success=definition.output.tells_success, exit_codes=codes, ended_by_us=False)


@pytest.mark.parametrize(
    ("name", "lines", "code", "outcome", "words"),
    [
        ("goose", [said(BROKE), {**COMPLETE, "total_tokens": 0}], 0, NO_SUCCESS, None),
        ("goose", [said("half"), said("Network error: Stream decode error"), COMPLETE], 0, NO_SUCCESS, "Network error"),
        ("goose", [{"type": "error", "error": REFUSED}], 1, NO_USE, "401"),
        ("goose", [said(BROKE), said("went on", "m2"), COMPLETE], 0, Succeeded(), "went on"),
        ("aider", AIDER_401, 0, NO_USE, "litellm.AuthenticationError"),
        ("aider", AIDER_500, 0, NO_SUCCESS, "litellm.InternalServerError"),
        ("aider", (*AIDER_500, *AIDER_WORKED), 0, Succeeded(), "Commit 1a2b3c4"),
        ("aider", ("The LLM did not conform to the edit format.", "Use the right one."), 0, NO_SUCCESS, "conform"),
        ("aider", (*AIDER_UNAPPLIED, "Tokens: 100 sent, 20 received."), 0, NO_SUCCESS, "conform"),
        ("aider", (*AIDER_UNAPPLIED, *AIDER_WORKED), 0, Succeeded(), "Commit 1a2b3c4"),
        ("codex", [{"type": "turn.failed", "error": {"message": CODEX_401}}], 1, NO_USE, "401"),
        ("gemini", [{"type": "result", "status": "error", "error": {"message": GEMINI_401}}], 145, NO_USE, "no such key"),
        ("gemini", [], 145, NO_USE, ""),
        ("gemini", [], 244, Failed(1), ""),
        ("opencode", [{"type": "error", "error": {"data": {"message": "no", "statusCode": 401}}}], 1, NO_USE, "no"),
        ("claude", [{**ABORTED, "errors": [], "result": "no key", "api_error_status": 401}], 1, NO_USE, "no key"),
        ("claude", [{**ABORTED, "errors": [], "result": "broke", "api_error_status": 500}], 1, NO_SUCCESS, "broke"),
    ],
)  # fmt: skip
def test_what_the_model_failed_at_is_no_success_and_a_refused_key_not_worth_another_try(
    name: str, lines: list[object], code: int, outcome: Outcome, words: str | None
) -> None:
    told = heard(name, *lines)

    assert verdict(name, told, code) == outcome
    assert words is None or words in told.words(cut_off=False)


@pytest.mark.parametrize(
    ("name", "lines", "words"),
    [
        ("claude", [INIT, RETRY, STOPPED, ABORTED], "its last complaint: 500 server_error"),
        ("codex", [{"type": "error", "message": "Reconnecting... 1/5"}], "its last complaint: Reconnecting... 1/5"),
        ("gemini", ["Attempt 2 failed with status 500. Retrying"], "its last complaint: Attempt 2 failed with status 500"),
        ("gemini", ["Attempt 2 failed with status 500. Retrying", delta("went on")], "went on"),
        ("claude", [INIT, RETRY, {"type": "assistant", "message": {"content": []}}, ABORTED], "[ede_diagnostic]"),
    ],
)  # fmt: skip
def test_one_that_is_cut_off_tells_what_it_could_not_get_over(name: str, lines: list[object], words: str) -> None:
    assert heard(name, *lines).words(cut_off=True).startswith(words)


def test_pieces_of_a_text_are_joined_until_other_work_comes_between() -> None:
    call = {"type": "tool_use", "tool_id": "t"}
    told = heard("gemini", delta("I look"), delta(" around. "), call, delta("All "), delta("is done."))

    assert told.summary == "All is done."
    assert heard("goose", said("one, "), said("two"), said("three ", "m2"), said("four", "m2")).summary == "three four"


@pytest.mark.parametrize(
    ("version", "cost", "tokens"), [("2.1.276", 360, 30), ("2.1.277", 180, 20), ("2.2.0", 180, 20), (None, 360, 30)]
)
def test_a_resumed_session_is_counted_as_its_version_counts(version: str | None, cost: int, tokens: int) -> None:
    end = {"type": "result", "total_cost_usd": 0.00036, "modelUsage": {"m": {"inputTokens": 30}}}
    told = heard("claude", {**INIT, "claude_code_version": version}, end, so_far=SoFar(180, (("input", 10),)))

    assert (told.cost, told.usage["input"]) == (cost, tokens)


def test_goose_tells_its_cost_and_what_its_cache_saved() -> None:
    told = heard("goose", {**COMPLETE, "cost_usd": 0.0009, "cache_read_input_tokens": 5, "cache_write_input_tokens": 6})

    assert told.cost == 900
    assert told.usage == {"total": 120, "input": 100, "output": 20, "cache_read": 5, "cache_write": 6}


def test_options_of_codex_stand_before_the_word_that_resumes() -> None:
    definition = definition_from(shipped("codex"))
    argv = command_line(
        definition.resume_argv,
        args=["--sandbox", "workspace-write"],
        model_args=definition.model_args,
        values={"session": "s", "model": "m"},
    )

    assert argv.index("--sandbox") < argv.index("resume")
    assert argv[argv.index("resume") :] == ("resume", "s", "-")


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"failed": [{"take": "x", "join": True}]}, "join is for summary"),
        ({"summary": [{"take": "x", "by": "y"}]}, "by is for what is added or joined"),
        ({"progress": [{"match": "x", "until": "y"}]}, "until is for failed"),
        ({"cost_usd": [{"take": "x", "since": "new"}]}, "is no version"),
    ],
)
def test_a_rule_that_cannot_work_is_refused(table: dict[str, object], problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        rules_from(table)
