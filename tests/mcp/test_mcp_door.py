"""`fencepost mcp` with the SDK's own client: what an agent may see and do, and what it is told when it may not."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.site import Site

CLIENT = str(Path(__file__).parent / "door_client.py")
HTTP_DOOR = str(Path(__file__).parent / "http_door.py")
LOOKS = {"list_schedules", "list_runs", "show_run", "why", "list_dead", "show_dead"}
ACTS = {"run", "cancel", "pause", "resume", "replay", "discard"}
CONFIG = """
[agents.worker]
command = ["sh", "-c", "echo hello; exit 3"]
[schedules.nightly]
agent = "worker"
cron = "0 3 * * *"
"""
Calls = list[tuple[str, dict[str, Any]]]


def talk(site: Site, calls: Calls, *words: str, server: str | None = None) -> dict[str, Any]:
    argv = [sys.executable, "-m", "fencepost", "mcp", *words]
    ran = subprocess.run(
        [sys.executable, CLIENT],
        input=json.dumps({"server": server or argv, "calls": calls}),
        cwd=site.folder,
        env=site.environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])  # type: ignore[no-any-return]


@pytest.fixture
def dead(site: Site) -> str:
    """A run that ended badly."""
    site.configure(CONFIG)
    process = site.up("--workers", "1", "--no-web")
    site.fencepost("run", "worker", "--wait", code=3)
    process.terminate()
    process.wait(30)
    return site.runs()[0].id


def test_every_tool_says_all_four_hints(site: Site) -> None:
    site.configure(CONFIG)
    tools = talk(site, [])["tools"]
    assert {tool["name"] for tool in tools} == LOOKS | ACTS
    for tool in tools:
        hints = {name: value for name, value in tool["annotations"].items() if name.endswith("_hint")}
        assert len(hints) == 4, tool["name"]
        assert all(isinstance(value, bool) for value in hints.values()), tool["name"]
        assert hints["read_only_hint"] == (tool["name"] in LOOKS)
        assert tool["description"]


def test_an_agent_has_no_tool_that_makes_or_changes_a_definition(site: Site) -> None:
    site.configure(CONFIG)
    before = site.rows("schedule", "history", "nightly")
    words = {word for tool in talk(site, [])["tools"] for word in tool["name"].split("_")}
    assert not words & {"create", "make", "add", "apply", "edit", "update", "set", "define", "schedule"}
    answers = talk(site, [("apply", {}), ("create_schedule", {"name": "mine"})])["answers"]
    assert all(one["error"] for one in answers)
    assert site.rows("schedule", "history", "nightly") == before
    assert [one["name"] for one in site.rows("schedule", "list")] == ["nightly"]


def test_an_agent_finds_out_what_went_wrong_and_deals_with_it(site: Site, dead: str) -> None:
    calls: Calls = [
        ("list_dead", {}),
        ("show_dead", {"run": dead}),
        ("replay", {"run": dead}),
        ("replay", {"run": dead}),
        ("discard", {"run": dead}),
        ("list_runs", {"agent": "worker", "state": "ready"}),
    ]
    listed, shown, first, again, gone, waiting = (one["data"] for one in talk(site, calls)["answers"])
    assert [one["id"] for one in listed["dead"]] == [dead]
    assert (shown["exit_code"], shown["last_lines"]) == (3, "hello\n")
    assert first["is_new"]
    assert not again["is_new"]
    assert again["run"]["id"] == first["run"]["id"]
    assert gone["run"]["id"] == dead
    assert [one["id"] for one in waiting["runs"]] == [first["run"]["id"]]
    by = {row["actor"] for row in site.rows("audit", "list") if row["verb"] in ("replay", "discard")}
    assert all(actor.endswith("by mcp") for actor in by)


def test_an_agent_steers_a_schedule(site: Site) -> None:
    site.configure(CONFIG)
    calls: Calls = [
        ("pause", {"schedule": "nightly", "note": "moving house"}),
        ("list_schedules", {}),
        ("resume", {"schedule": "nightly"}),
        ("why", {"schedule": "nightly"}),
        ("run", {"target": "nightly", "key": "k1"}),
        ("run", {"target": "nightly", "key": "k1"}),
        ("cancel", {"run": ""}),
    ]
    paused, listed, resumed, why, one, two, bad = talk(site, calls)["answers"]
    assert paused["data"]["pause"]["note"] == "moving house"
    assert listed["data"]["schedules"][0]["state"] == "paused"
    assert resumed["data"]["schedule"]["state"] != "paused"
    assert why["data"]["answers"][0]["sentences"]
    assert one["data"]["run"]["id"] == two["data"]["run"]["id"]
    assert bad["error"]
    (ended,) = talk(site, [("cancel", {"run": one["data"]["run"]["id"]})])["answers"]
    assert ended["data"]["run"]["state"] == "cancelled"


def test_what_goes_wrong_is_an_error_that_helps(site: Site) -> None:
    site.configure(CONFIG)
    calls: Calls = [("why", {"schedule": "nightli"}), ("show_run", {"run": "r0nothere"}), ("run", {"target": "nobody"})]
    answers = talk(site, calls)["answers"]
    assert [one["error"] for one in answers] == [True] * 3
    assert "nightly" in answers[0]["text"], "the nearest name is offered"
    assert "there is no" in answers[1]["text"]


def test_whoever_may_only_look_is_offered_nothing_else(site: Site) -> None:
    site.configure(CONFIG)
    found = talk(site, [("list_schedules", {})], "--read-only")
    assert {tool["name"] for tool in found["tools"]} == LOOKS
    assert not found["answers"][0]["error"]


def test_tenants_do_not_see_one_another(site: Site, dead: str) -> None:
    calls: Calls = [("list_dead", {}), ("show_run", {"run": dead}), ("discard", {"run": dead})]
    listed, shown, gone = talk(site, calls, "--tenant", "stranger")["answers"]
    assert listed["data"] == {"dead": []}
    assert shown["error"]
    assert gone["error"]
    assert site.rows("dead", "list")[0]["id"] == dead


def test_a_store_that_is_not_there_is_said_at_once(site: Site) -> None:
    said = site.fencepost("mcp", "--store", "postgresql://127.0.0.1:1/none", code=69)
    assert said == "", "nothing but the protocol may stand on stdout"


def test_over_http_each_call_is_held_to_the_role_of_its_caller(site: Site) -> None:
    site.configure(CONFIG)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    site.start(sys.executable, HTTP_DOOR, site.store, "trigger", str(port))
    site.until(lambda: _answers(port))
    calls: Calls = [("list_schedules", {}), ("run", {"target": "worker"}), ("pause", {"schedule": "nightly"})]
    answers = talk(site, calls, server=f"http://127.0.0.1:{port}/mcp")["answers"]
    assert [one["error"] for one in answers] == [False, False, True]
    assert all("needs the role" in one["text"] for one in answers if one["error"])


def _answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
