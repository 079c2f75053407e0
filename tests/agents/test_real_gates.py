"""The real agent CLIs before the model gate and a git gate, led there by our recipes alone; frozen, they wake up in vain."""

from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from tests.agents.gated import DECOYS, REAL_KEY, REFUSED, Gated, branch, tell_gated
from tests.agents.model.script import INPUT_TOKENS, OUTPUT_TOKENS
from tests.agents.model.server import Model
from tests.agents.stories import telling, those
from tests.agents.story import CAN_CALL

SILENT = ("gemini", "opencode", "copilot", "qwen", "continue")  # may say nothing before they are ended
pytestmark = pytest.mark.whole
every = pytest.mark.parametrize("gated", those(), indirect=True)
callers = pytest.mark.parametrize("gated", those(*CAN_CALL), indirect=True)


@pytest.fixture(scope="module")
def stories(request: pytest.FixtureRequest, model: Model) -> Iterator[dict[str, Future[Gated]]]:
    with telling(request, model, "gated", tell_gated) as told:
        yield told


@pytest.fixture
def gated(request: pytest.FixtureRequest, stories: dict[str, Future[Gated]]) -> Gated:
    return stories[request.param.name].result()


def asked_of(gated: Gated, name: str) -> list[str]:
    """Return the keys that were shown to the provider in a run."""
    return [one.key for one in gated.ground.model.asked_for(f"to be {name} by {gated.ground.cli.name}.")]


@every
def test_it_thinks_through_the_gate_with_a_key_that_it_never_sees(gated: Gated) -> None:
    run, keys = gated.runs["ship"], asked_of(gated, "ship")

    assert run["state"] == "succeeded", (run["reason"], gated.ground.fencepost("logs", run["id"])[-2000:])
    assert set(keys) == {REAL_KEY}
    if gated.ground.cli.preset in CAN_CALL:
        seen = dict(
            line.partition("=")[::2] for line in (gated.ground.folder / "ship" / "seen").read_text().splitlines()
        )
        assert REAL_KEY not in seen.values()
        assert not {name for name, value in DECOYS.items() if seen.get(name) == value}


@every
def test_what_it_used_is_counted_by_the_gate_where_it_tells_nothing(gated: Gated) -> None:
    run, calls = gated.runs["ship"], len(asked_of(gated, "ship"))

    assert run["cost_usd"] > 0
    if gated.ground.cli.preset == "copilot":  # which tells neither
        assert (run["usage"]["input"], run["usage"]["output"]) == (calls * INPUT_TOKENS, calls * OUTPUT_TOKENS)


@every
def test_a_call_beyond_its_budget_is_not_made_and_the_cli_says_why(gated: Gated) -> None:
    run = gated.runs["poor"]

    assert (run["state"], run["reason"]) == ("dead", "budget")
    assert asked_of(gated, "poor") == []
    log = gated.ground.fencepost("logs", run["id"])
    assert log.count("may cost 0.000001 USD (budget_usd)") > 1, "once by us, and in its own words"


@callers
def test_its_plain_push_goes_through_the_gate(gated: Gated) -> None:
    assert (gated.ground.folder / "ship" / "pushed").read_text().endswith("exit 0\n")
    marks = gated.ground.folder / "ship.git" / "refs" / "fencepost" / "main"
    assert marks.exists()


@callers
def test_frozen_past_its_lease_it_wakes_up_and_neither_pushes_nor_thinks(gated: Gated) -> None:
    said = (gated.ground.folder / "dozer" / "pushed").read_text()

    old, new = (gated.runs[name]["attempts"][0]["fence"] for name in ("dozer", "newer"))
    assert "[remote rejected]" in said
    assert f"has seen fence {new} for" in said, "the remote itself has seen a newer fence"
    assert f"yours is {old}: a newer run has started. Nothing was written; stop)" in said
    assert said.endswith("exit 1\n")
    assert gated.late == gated.landed == branch(gated.ground, "dozer")
    assert gated.asked_late == 0
    assert gated.runs["dozer"]["state"] == "dead"
    assert REFUSED in gated.heard or gated.ground.cli.preset in SILENT, "the CLI was told so"
