"""The real agent CLIs under the real daemon; only the model behind them is ours."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.agents.clis import Cli, is_whole
from tests.agents.ground import HOOKED
from tests.agents.model.script import ANSWER, INPUT_TOKENS, NOTE_LINE, OUTPUT_TOKENS
from tests.agents.model.server import Model
from tests.agents.record import record
from tests.agents.stories import telling, those
from tests.agents.story import CAN_CALL, FAULTS, MAIN_FAULTS, MUTE, RESUMES, Story, asked_of, tell

DONE = "".join(ANSWER)
TELL_COST = ("claude", "opencode", "goose", "aider")
TELL_USAGE = ("claude", "codex", "gemini", "opencode", "qwen", "goose", "cline")
TELL_ALL_USAGE = ("claude", "qwen")  # also of a turn that was broken off; Gemini CLI only if it lives to its result

# What a CLI says of its model that has tried for as long as it wants: how long that is, depends on the machine.
GAVE_UP = {"429": "rate limit of the test", "500": "the model of", "cut": ""}  # aider breaks lines
# How a run ends whose model answers so, and what is told of it: the reason, None for a success, and words of the summary.
OUTCOMES: dict[str, dict[str, tuple[str | None, str]]] = {
    "claude": {
        "401": ("misconfigured", "Invalid API key"),
        "429": ("timeout", "its last complaint: 429"),
        "500": ("agent_error", "API Error: 500"),
        "cut": (None, DONE),  # asks again, without streaming
    },
    "codex": {
        "401": ("misconfigured", "unexpected status 401"),
        "429": ("agent_error", "429"),
        "500": ("agent_error", "experiencing high demand"),
        "cut": ("agent_error", "stream disconnected"),
    },
    "gemini": {
        "401": ("misconfigured", '"code":401'),
        "429": ("timeout", "its last complaint: Attempt"),
        "500": ("timeout", "its last complaint: Attempt"),
        "cut": ("agent_error", "terminated"),
    },
    "opencode": {  # tries again for minutes, and says nothing of it
        "401": ("misconfigured", "invalid x-api-key"),
        "429": ("timeout", ""),
        "500": ("timeout", ""),
        "cut": ("timeout", ""),
    },
    "qwen": {  # likewise
        "401": ("misconfigured", "API Error: 401"),
        "429": ("timeout", ""),
        "500": ("timeout", ""),
        "cut": ("agent_error", "[API Error: "),
    },
    "copilot": {
        "401": ("misconfigured", "Authentication failed"),
        "429": ("timeout", "its last complaint: 429"),
        "500": ("timeout", "its last complaint: 500"),
        "cut": ("agent_error", "Failed to get response"),
    },
    "goose": {
        "401": ("misconfigured", "Status: 401"),
        "429": ("agent_error", "Ran into this error"),
        "500": ("agent_error", "Ran into this error"),
        "cut": ("agent_error", "Network error"),
    },
    "cline": {  # tries again for a minute
        "401": ("misconfigured", "invalid x-api-key"),
        "429": ("agent_error", "rate limit of the test reached"),
        "500": ("agent_error", "the model of the test broke"),
        "cut": ("agent_error", "socket connection was closed"),
    },
    "continue": {  # tries again for minutes, and says nothing of it
        "401": ("misconfigured", "401 invalid x-api-key"),
        "429": ("timeout", ""),
        "500": ("timeout", ""),
        "cut": ("timeout", ""),
    },
    "aider": {
        "401": ("misconfigured", "litellm.AuthenticationError"),
        "429": ("timeout", "litellm.RateLimitError"),
        "500": ("timeout", "litellm.InternalServerError"),
        "cut": (None, ""),  # it does not stream
    },
}


every = pytest.mark.parametrize("story", those(), indirect=True)
callers = pytest.mark.parametrize("story", those(*CAN_CALL), indirect=True)


@pytest.fixture(scope="module")
def stories(request: pytest.FixtureRequest, model: Model) -> Iterator[dict[str, Future[Story]]]:
    with telling(request, model, "story", lambda ground: tell(ground, whole=is_whole())) as told:
        yield told


@pytest.fixture
def story(request: pytest.FixtureRequest, stories: dict[str, Future[Story]]) -> Story:
    cli: Cli = request.param
    found = stories[cli.name].result()
    if folder := os.environ.get("FENCEPOST_TEST_RECORD"):
        record(found, Path(folder) / cli.name)
    return found


@every
def test_a_run_works_and_its_end_is_told(story: Story) -> None:
    run, preset = story.runs["works"], story.ground.cli.preset

    assert (run["state"], run["exit_code"], run["partial"]) == ("succeeded", 0, False)
    assert (story.ground.folder / "works" / "written").read_text() == "written\n"
    assert run["summary"].startswith("Commit ") if preset == "aider" else run["summary"] == DONE
    assert (run["cost_usd"] or 0) > 0 if preset in TELL_COST else run["cost_usd"] is None


@pytest.mark.whole
@every
def test_doctor_knows_its_version_as_one_that_was_tried(story: Story) -> None:
    ground = story.ground
    told = [json.loads(line) for line in ground.fencepost("doctor", "--json", code=None).splitlines()]

    (found,) = [one for one in told if one["check"] == f"{ground.cli.preset} version"]
    assert (found["status"], ground.cli.version in found["message"]) == ("ok", True), found


@pytest.mark.parametrize("story", those(*TELL_USAGE), indirect=True)
def test_what_it_used_is_told(story: Story) -> None:
    usage = story.runs["works"]["usage"]

    assert (usage["input"], usage["output"]) == (2 * INPUT_TOKENS, 2 * OUTPUT_TOKENS)


@pytest.mark.parametrize(
    "fault", [pytest.param(one, marks=[] if one in MAIN_FAULTS else [pytest.mark.whole]) for one in FAULTS]
)
@every
def test_a_model_that_fails_is_no_success_and_its_words_are_kept(story: Story, fault: str) -> None:
    run = story.runs[f"fault-{fault}"]
    reason, words = OUTCOMES[story.ground.cli.preset][fault]
    tries = len(asked_of(story.ground, f"fault-{fault}"))
    assert tries > 1 or reason != "timeout", "its own retries are what our limit ends"
    if reason == "timeout" and run["reason"] == "agent_error":  # it gave up by itself, before our limit came
        reason, words = "agent_error", GAVE_UP[fault]

    assert run["state"] == ("dead" if reason else "succeeded")
    assert run["reason"] == reason
    assert words in (run["summary"] or "")
    assert len(run["attempts"]) == 1, "a refused key is not tried again"


@pytest.mark.whole
@pytest.mark.parametrize("story", those(*(one for one in OUTCOMES if one not in CAN_CALL)), indirect=True)
def test_an_edit_that_could_not_be_applied_is_no_success(story: Story) -> None:
    run = story.runs["botched"]

    assert (run["state"], run["reason"]) == ("dead", "agent_error")
    assert "did not conform to the edit format" in run["summary"]


@pytest.mark.whole
@pytest.mark.parametrize("story", those(*(one for one in OUTCOMES if one not in MUTE)), indirect=True)
def test_one_that_waits_for_its_model_for_too_long_stands_still(story: Story) -> None:
    assert (story.runs["slow"]["state"], story.runs["slow"]["reason"]) == ("dead", "stall_timeout")


@pytest.mark.whole
@callers
def test_a_cancelled_run_leaves_no_process_and_is_no_success(story: Story) -> None:
    assert (story.runs["cancelled"]["state"], story.runs["cancelled"]["reason"]) == ("cancelled", "cancelled")
    assert story.left == ()


@pytest.mark.parametrize("story", those(*RESUMES), indirect=True)
def test_a_nightly_run_goes_on_with_its_session_after_a_drain(story: Story) -> None:
    run = story.runs["drained"]
    assert (run["trigger"], run["schedule"]) == ("cron", "nightly-drained")
    first, second = run["attempts"]

    assert (story.drained["state"], story.drained["reason"]) == ("ready", "drained")
    assert (run["state"], run["summary"]) == ("succeeded", DONE)
    assert first["session"] == second["session"]
    assert second["fence"] > first["fence"]
    asked = [one for one in asked_of(story.ground, "drained") if "You were interrupted" in str(one.body)]
    assert "please STAY" in str(asked[-1].body), "the conversation goes on"


@pytest.mark.parametrize("story", those(*TELL_ALL_USAGE), indirect=True)
def test_what_a_resumed_session_used_and_cost_is_counted_once(story: Story) -> None:
    run, answers = story.runs["drained"], len(asked_of(story.ground, "drained"))

    assert run["usage"]["input"] == answers * INPUT_TOKENS
    if story.ground.cli.preset == "claude":
        assert run["cost_usd"] == pytest.approx(story.runs["works"]["cost_usd"] * answers / 2)


@pytest.mark.parametrize("story", those(*(one for one in TELL_USAGE if one in RESUMES)), indirect=True)
def test_a_resumed_session_is_never_counted_twice(story: Story) -> None:
    """Others tell what they used at the end of a turn: of the one that was broken off nothing is known."""
    used, answers = story.runs["drained"]["usage"]["input"], len(asked_of(story.ground, "drained"))

    assert INPUT_TOKENS <= used <= answers * INPUT_TOKENS


@pytest.mark.whole
@pytest.mark.parametrize("story", those(*(one for one in OUTCOMES if one not in RESUMES)), indirect=True)
def test_a_drain_lets_a_nightly_run_finish_that_cannot_be_resumed(story: Story) -> None:
    run = story.drained

    assert (run["trigger"], run["schedule"]) == ("cron", "nightly-drained")
    assert (run["state"], len(run["attempts"])) == ("succeeded", 1)


@every
def test_the_same_process_of_a_nightly_run_goes_on_when_its_worker_was_killed(story: Story) -> None:
    run, place = story.runs["adopted"], story.ground.folder / "adopted"

    assert (run["trigger"], run["schedule"]) == ("cron", "nightly-adopted")
    assert (run["state"], len(run["attempts"])) == ("succeeded", 1)
    assert min(story.before) in story.after
    if story.ground.cli.preset in CAN_CALL:
        assert (run["summary"], (place / "draft").read_text()) == (DONE, "whole\n")
    else:
        assert (place / "written").read_text() == "written\n"


@pytest.mark.whole
@callers
def test_a_write_by_mcp_passes_the_gateway_and_is_in_the_ledger(story: Story) -> None:
    run = story.runs["notes"]
    entries = [one for one in story.ground.rows("ledger", "list") if one["run_id"] == run["id"]]

    assert run["state"] == "succeeded"
    assert (story.ground.folder / "notes" / "notes").read_text() == f"{NOTE_LINE}\n"
    assert [(one["state"], "mcp:notes:add" in one["key"]) for one in entries] == [("completed", True)]


@pytest.mark.whole
@pytest.mark.parametrize("story", those(*HOOKED), indirect=True)
def test_its_hook_stops_a_tool_of_a_run_that_nobody_answers_for(story: Story) -> None:
    place = story.ground.folder / "directly"

    stale = story.ground.directly("please STRAY", env={"FENCEPOST_SOCKET": "/nowhere", "FENCEPOST_RUN_ID": "r1"})
    was_stopped = not (place / "stray").exists()
    story.ground.directly("please STRAY", env={})

    assert was_stopped, stale.stdout
    assert (place / "stray").exists(), "outside of a run it may"
