"""`fencepost mcp` with the SDK's own client: what an agent may see and do, and what it is told when it may not."""

import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest

from fencepost.cli.main import main
from tests.support.seldom_meant import DEFINITION, TOML, tells
from tests.support.site import Site, greeted

CLIENT = str(Path(__file__).parent / "door_client.py")
LOOKS = {
    "list_schedules",
    "show_schedule",
    "list_agents",
    "list_runs",
    "show_run",
    "queue",
    "why",
    "list_dead",
    "show_dead",
}
ACTS = {"run", "cancel", "pause", "resume", "skip_next", "backfill", "replay", "discard"}
DEFINES = {"plan", "apply", "put_schedule", "put_agent", "delete_schedule", "delete_agent"}
CONFIG = """
[agents.worker]
command = ["sh", "-c", "echo hello; exit 3"]
[schedules.nightly]
agent = "worker"
cron = "0 3 * * *"
"""
SERVED = re.compile(r"mcp: http://127\.0\.0\.1:(\d+)/mcp, for holders of a key")
Calls = list[tuple[str, dict[str, Any]]]


def talk(
    site: Site, calls: Calls, *words: str, server: str | None = None, key: str = "", mode: str = "auto"
) -> dict[str, Any]:
    argv = [sys.executable, "-m", "fencepost", "mcp", *words]
    ran = subprocess.run(
        [sys.executable, CLIENT],
        input=json.dumps({"server": server or argv, "calls": calls, "key": key, "mode": mode}),
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


def test_the_server_says_which_version_it_is(site: Site) -> None:
    site.configure(CONFIG)
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})

    answer = json.loads(site.fencepost("mcp", data=f"{asked}\n").splitlines()[0])

    assert answer["result"]["serverInfo"] == {"name": "fencepost", "version": version("fencepost")}


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
    found = talk(site, [("apply", {}), ("create_schedule", {"name": "mine"})])
    words = {word for tool in found["tools"] for word in tool["name"].split("_")}
    assert not words & {"create", "make", "add", "apply", "edit", "update", "set", "define"}
    assert all(one["error"] for one in found["answers"])
    assert site.rows("schedule", "history", "nightly") == before
    assert [one["name"] for one in site.rows("schedule", "list")] == ["nightly"]


def test_an_agent_that_may_apply_plans_defines_and_retires(site: Site) -> None:
    site.configure(CONFIG)
    toml = '[agents.writer]\nengine = "claude"\nprompt = "Write."\n'
    hourly = {"agent": "writer", "cron": "0 * * * *", "timezone": "UTC"}
    calls: Calls = [
        ("plan", {"definitions": toml}),
        ("apply", {"definitions": toml}),
        ("put_schedule", {"name": "hourly", "definition": hourly}),
        ("put_schedule", {"name": "hourly", "definition": hourly, "tag": "9-none"}),
        ("skip_next", {"schedule": "hourly"}),
        ("list_agents", {}),
        ("queue", {}),
        ("put_agent", {"name": "shell", "definition": {"command": ["sh", "-c", "id"]}}),
        ("delete_schedule", {"name": "hourly"}),
        ("delete_schedule", {"name": "nightly"}),
    ]
    found = talk(site, calls, "--allow", "apply")

    assert {tool["name"] for tool in found["tools"]} == LOOKS | ACTS | DEFINES
    failed = [call[0] for call, one in zip(calls, found["answers"], strict=True) if one["error"]]
    assert failed == ["put_schedule", "put_agent", "delete_schedule"]
    assert "--allow-commands" in json.dumps(found["answers"][7])
    assert [one["name"] for one in site.rows("schedule", "list")] == ["nightly"]
    allowed = talk(site, [calls[7]], "--allow", "apply", "--allow-commands")
    assert not allowed["answers"][0]["error"]


def test_an_agent_is_told_what_a_cron_line_seldom_means(site: Site) -> None:
    site.configure("[agents.a]\ncommand = ['true']\n")
    put = ("put_schedule", {"name": "alone", "definition": DEFINITION})
    found = talk(site, [("plan", {"definitions": TOML}), ("apply", {"definitions": TOML}), put], "--allow", "apply")

    assert [tells(json.dumps(one["data"])) for one in found["answers"]] == [True, True, True], found["answers"]


def test_an_agent_backfills_a_range(site: Site) -> None:
    site.configure(CONFIG)
    range_ = {"schedule": "nightly", "from_": "2026-01-01", "until": "2026-01-03", "current": True}
    found = talk(site, [("backfill", range_), ("backfill", range_)])

    assert not any(one["error"] for one in found["answers"])
    assert len(site.runs()) == 2


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


def test_an_agent_sees_what_exec_ran_and_why(site: Site) -> None:
    site.configure(CONFIG)
    site.fencepost("exec", "--lock", "digest", "--store", site.store, "--", "false", code=1)
    (row,) = site.rows("runs")
    calls: Calls = [("list_runs", {}), ("show_run", {"run": row["id"]}), ("why", {"schedule": "lock:digest"})]
    listed, shown, why = (one["data"] for one in talk(site, calls)["answers"])

    assert listed["runs"] == [row]
    assert (shown["state"], shown["resource"]) == ("failed", "lock:digest")
    assert "It failed with exit code 1" in " ".join(why["answers"][0]["sentences"])


def test_why_an_agent_discards_a_dead_letter_stays_in_the_audit(site: Site, dead: str) -> None:
    (gone,) = talk(site, [("discard", {"run": dead, "note": "the source was closed"})])["answers"]
    (found,) = site.rows("audit", "list", "--verb", "discard")

    assert gone["data"]["run"]["id"] == dead
    assert "the source was closed" in str(found)


def test_an_agent_steers_a_schedule(site: Site) -> None:
    site.configure(CONFIG)
    calls: Calls = [
        ("pause", {"schedule": "nightly", "note": "moving house"}),
        ("list_schedules", {}),
        ("show_schedule", {"schedule": "nightly"}),
        ("resume", {"schedule": "nightly"}),
        ("why", {"schedule": "nightly"}),
        ("run", {"target": "nightly", "key": "k1"}),
        ("run", {"target": "nightly", "key": "k1"}),
        ("cancel", {"run": ""}),
    ]
    paused, listed, shown, resumed, why, one, two, bad = talk(site, calls)["answers"]
    assert paused["data"]["pause"]["note"] == "moving house"
    assert listed["data"]["schedules"][0]["state"] == "paused"
    assert (shown["data"]["pause_note"], shown["data"]["definition"]["cron"]) == ("moving house", "0 3 * * *")
    assert len(shown["data"]["upcoming"]) == 10
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
    site.fencepost("mcp", "--tenant", "stranger", code=2)  # there is no such tenant yet, which is said at once
    site.fencepost("key", "create", "ci", "--tenant", "stranger")
    listed, shown, gone = talk(site, calls, "--tenant", "stranger")["answers"]
    assert listed["data"] == {"dead": []}
    assert shown["error"]
    assert gone["error"]
    assert site.rows("dead", "list")[0]["id"] == dead


def test_a_store_that_is_not_there_is_said_at_once(site: Site) -> None:
    said = site.fencepost("mcp", "--store", "postgresql://127.0.0.1:1/none", code=69)
    assert said == "", "nothing but the protocol may stand on stdout"


@pytest.fixture
def port(site: Site, request: pytest.FixtureRequest) -> int:
    """The MCP door over HTTP: a room of the web door, or alone."""
    site.configure(CONFIG)
    if request.param == "web":
        site.up("--port", "0", command="web")
        return greeted(site)[0]
    return alone(site)


def alone(site: Site, *words: str) -> int:
    """Serve MCP alone over HTTP, and return its port."""
    site.up("--http", "0", *words, command="mcp")
    site.until(lambda: SERVED.search(site.said()))
    found = SERVED.search(site.said())
    assert found is not None
    return int(found[1])


def over_http(site: Site, port: int, calls: Calls, key: str, mode: str = "auto") -> dict[str, Any]:
    return talk(site, calls, server=f"http://127.0.0.1:{port}/mcp", key=key, mode=mode)


def new_key(site: Site, role: str, *words: str) -> dict[str, str]:
    made = json.loads(site.fencepost("key", "create", f"the {role}", "--role", role, "--json", *words))
    assert isinstance(made, dict)
    return made


def test_alone_over_http_there_is_nothing_but_mcp_and_it_may_be_for_looking_only(site: Site) -> None:
    site.configure(CONFIG)
    port = alone(site, "--read-only")
    key = new_key(site, "admin")["key"]
    shown = {"Authorization": f"Bearer {key}"}
    others = ("/", "/login", "/api/v1/runs", "/api/v1/openapi.json", "/metrics", "/hooks/default/x")

    assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
    for path in others:
        assert httpx.get(f"http://127.0.0.1:{port}{path}").status_code == 401, path
        assert httpx.get(f"http://127.0.0.1:{port}{path}", headers=shown).status_code == 404, path
    found = over_http(site, port, [("run", {"target": "worker"})], key)
    assert {tool["name"] for tool in found["tools"]} == LOOKS
    assert found["answers"][0]["error"]
    assert site.runs() == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--http", "0", "--tenant", "finance"), "over HTTP a key says whose things"),
        (("--allow-host", "example.com"), "--allow-host is for --http"),
        (("--http", "here"), "is no address to listen on"),
    ],
)
def test_what_does_not_go_together_is_said(
    words: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["store", "migrate", "--store", f"sqlite:{tmp_path}/new.db"])

    assert main(["mcp", *words, "--store", f"sqlite:{tmp_path}/new.db"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("port", "mode"), [("web", "auto"), ("mcp", "legacy")], indirect=["port"])
def test_over_http_a_key_gets_as_far_as_its_role(site: Site, port: int, mode: str) -> None:
    calls: Calls = [
        ("list_schedules", {}),
        ("run", {"target": "worker", "key": mode}),
        ("pause", {"schedule": "nightly"}),
    ]
    found = {role: over_http(site, port, calls, new_key(site, role)["key"], mode) for role in ("trigger", "admin")}
    errors = {role: [one["error"] for one in answers["answers"]] for role, answers in found.items()}

    assert errors == {"trigger": [False, False, True], "admin": [False, False, False]}
    assert "needs the role admin" in found["trigger"]["answers"][2]["text"]
    actors = {row["actor"] for row in site.rows("audit", "list") if row["verb"] in ("manual", "pause")}
    assert {actor.split(":")[2] for actor in actors} == {"the trigger", "the admin"}


@pytest.mark.parametrize("port", ["web"], indirect=True)
def test_over_http_a_key_that_may_only_look_is_offered_nothing_else(site: Site, port: int) -> None:
    found = over_http(site, port, [("list_schedules", {}), ("run", {"target": "worker"})], new_key(site, "read")["key"])

    assert {tool["name"] for tool in found["tools"]} == LOOKS
    assert [one["error"] for one in found["answers"]] == [False, True]
    assert site.runs() == []


@pytest.mark.parametrize("port", ["mcp"], indirect=True)
def test_over_http_tenants_do_not_see_one_another_and_a_revoked_key_sees_nothing(site: Site, port: int) -> None:
    theirs = new_key(site, "admin", "--tenant", "theirs")
    found = over_http(site, port, [("list_schedules", {}), ("why", {"schedule": "nightly"})], theirs["key"])
    assert found["answers"][0]["data"] == {"schedules": []}
    assert found["answers"][1]["error"]
    site.fencepost("key", "revoke", theirs["id"], "--tenant", "theirs")
    assert post(port, {"Authorization": f"Bearer {theirs['key']}"}) == 401


@pytest.mark.parametrize("port", ["web", "mcp"], indirect=True)
def test_over_http_another_sites_page_and_another_name_are_refused(site: Site, port: int) -> None:
    shown = {"Authorization": f"Bearer {new_key(site, 'admin')['key']}"}

    assert post(port, {}) == 401
    assert post(port, {**shown, "Host": "rebound.example"}) == 421
    assert post(port, {**shown, "Host": f"127.0.0.1.nip.io:{port}"}) == 421
    assert post(port, {**shown, "Origin": "http://evil.example"}) == 403
    assert post(port, {**shown, "Sec-Fetch-Site": "cross-site"}) == 403
    assert post(port, shown) == 200
    assert httpx.get(f"http://127.0.0.1:{port}/mcp", headers=shown).status_code == 405


def post(port: int, headers: dict[str, str]) -> int:
    ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream"}
    return httpx.post(f"http://127.0.0.1:{port}/mcp", json=ask, headers={**accept, **headers}).status_code
