"""The HTTP API: the same operations and field names as the command line, for the key's tenant and nobody else."""

import json
import os
import re
from contextlib import suppress
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from fencepost.cli.main import COMMANDS, main
from fencepost.model.definition import AgentDefinition
from fencepost.model.effect_ledger import EffectCall
from fencepost.model.lease import Granted
from fencepost.model.notice import Wish
from tests.stores.rig import claim
from tests.support.desk import RUN_FIELDS
from tests.support.runtime import SUCCEEDED
from tests.support.webdoor import API, WebDoor, asking

# Commands of machines, terminals and files, which have no meaning over HTTP.
ELSEWHERE = {
    *("init", "demo", "up", "scheduler", "worker", "web", "mcp", "version", "import", "store", "service", "simulate"),
    *("exec", "gate", "hook", "mcp-gate", "worktree", "checkpoint", "progress"),
    *("completion", "crontab", "drain"),
    *("top", "timeline"),  # pictures for a terminal; the dashboard has its own
}
OFFERED = {
    "run": "/runs",
    "ps": "/ps",
    "runs": "/runs",
    "show": "/runs/{run_id}",
    "logs": "/runs/{run_id}/log",
    "cancel": "/runs/{run_id}/cancel",
    "why": "/schedules/{schedule}/why",
    "schedule": "/schedules",
    "queue": "/queue",
    "dead": "/dead",
    "halt": "/halt",
    "unhalt": "/unhalt",
    "lease": "/leases",
    "ledger": "/ledger",
    "dst-check": "/dst-check",
    "prove": "/prove",
    "doctor": "/doctor",
    "audit": "/audit",
    "key": "/keys",
    "notice": "/notices",
    "plan": "/plan",
    "apply": "/apply",
    "ticks": "/ticks",
}
# What each action of a command is here; "" where it belongs to a machine: `ledger once` runs a command.
ACTIONS = {
    "dead": {
        "list": "GET /dead",
        "show": "GET /runs/{run_id}",
        "replay": "POST /runs/{run_id}/replay",
        "discard": "POST /runs/{run_id}/discard",
    },
    "schedule": {
        "list": "GET /schedules",
        "show": "GET /schedules/{schedule}",
        "history": "GET /schedules/{schedule}/history",
        "ticks": "GET /schedules/{schedule}/ticks",
        "pause": "POST /schedules/{schedule}/pause",
        "resume": "POST /schedules/{schedule}/resume",
        "skip-next": "POST /schedules/{schedule}/skip-next",
        "backfill": "POST /schedules/{schedule}/backfill",
    },
    "ledger": {"list": "GET /ledger", "resolve": "POST /ledger/resolve", "once": ""},
    "audit": {
        "list": "GET /audit",
        "verify": "GET /audit/verify",
        "export": "GET /audit/export",
        "accept": "",  # what a machine remembers is told on that machine
    },
    "key": {
        "list": "GET /keys",
        "create": "POST /keys",
        "revoke": "DELETE /keys/{key}",
        "link": "POST /keys/link",
    },
    "notice": {
        "list": "GET /notices",
        "retry": "POST /notices/{target}/retry",
        "test": "POST /notices/{target}/test",
    },
}
# How the other commands are asked for, and which of their options are said in another way, or by another request.
ACTS = dict.fromkeys(("run", "cancel", "halt", "unhalt", "plan", "apply"), "POST")
AUDIT = {"heads", "head", "key", "note", "verb", "subject", "limit"}  # its actions share one parser
OTHERWISE = {
    "plan": {"rollback"},  # of files, which lie about in old copies; what is sent is meant
    "apply": {"rollback"},
    "doctor": {"as_cron"},  # of the machine that it is called on
    "run": {"key", "payloads", "wait"},  # Idempotency-Key; POST /batches; ask again
    "logs": {"follow", "raw"},  # the dashboard's stream; here they are always as they are
    "dead replay": {"all", "schedule", "limit"},  # GET /dead?schedule=, then one by one
    "lease": {"all_tenants", "note", "tick"},  # a key has one tenant; POST /leases/break; of exec --tick
    "ledger resolve": {"completed"},  # answer
    "audit list": AUDIT,
    "audit verify": AUDIT,  # heads: POST /audit/verify
    "audit export": AUDIT,
    "key create": {"all_tenants"},  # an operator is made on the machine alone
    "key list": {"all"},  # kind
    "ticks": {"batch"},  # a file
}


@pytest.fixture
def busy(web_on_both: WebDoor) -> WebDoor:
    runtime = web_on_both.runtime
    runtime.apply(AgentDefinition("digest", command=("true",)))
    runtime.cron("nightly", "0 2 * * *")
    return web_on_both


def test_every_command_is_offered_or_has_no_meaning_here(web: WebDoor) -> None:
    paths = asking(web)("GET", "/openapi.json")["paths"]

    assert {f"{API}{path}" for path in OFFERED.values()} <= set(paths)
    assert set(COMMANDS) - ELSEWHERE == set(OFFERED)


def test_every_action_of_a_command_is_offered_too(web: WebDoor) -> None:
    paths = asking(web)("GET", "/openapi.json")["paths"]
    offered = {f"{method.upper()} {path[len(API) :]}" for path, methods in paths.items() for method in methods}
    commands = {command: actions_of(command) for command in OFFERED}

    assert {command: actions for command, actions in commands.items() if actions} == {
        command: set(actions) for command, actions in ACTIONS.items()
    }
    assert {place for actions in ACTIONS.values() for place in actions.values() if place} <= offered
    assert {"POST /leases/break", "POST /leases/forget"} <= offered, "of `lease`, which reads its words by itself"


def test_every_option_of_a_command_is_a_field_here_or_has_another_name(
    web: WebDoor, capsys: pytest.CaptureFixture[str]
) -> None:
    document = asking(web)("GET", "/openapi.json")
    places = {command: f"{ACTS.get(command, 'GET')} {path}" for command, path in OFFERED.items()}
    for command, actions in ACTIONS.items():
        del places[command]
        places |= {f"{command} {action}": place for action, place in actions.items() if place}
    missing = {
        command: left
        for command, place in places.items()
        if (left := options_of(command, capsys) - fields_of(document, place) - OTHERWISE.get(command, set()))
    }
    assert missing == {}


def options_of(command: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """What a command line may say, as its help has it; which store and how to print is said otherwise here."""
    with suppress(SystemExit):
        main([*command.split(), "--help"])
    told = capsys.readouterr().out.partition("examples:")[0]
    found = {word.replace("-", "_") for word in re.findall(r"(?<![\w-])--([a-z][a-z-]+)", told)}
    assert "json" in found or "help" in found, command
    return found - {"help", "json", "store", "tenant", "config"}


def fields_of(document: dict[str, Any], place: str) -> set[str]:
    """What a request may say."""
    method, path = place.split()
    operation = document["paths"][f"{API}{path}"][method.lower()]
    names = {parameter["name"] for parameter in operation.get("parameters", ())}
    for schema in re.findall(r"schemas/(\w+)", json.dumps(operation.get("requestBody", {}))):
        names |= set(document["components"]["schemas"][schema]["properties"])
    return names


def actions_of(command: str) -> set[str]:
    """What the first word of a command may be, as its parser has it."""
    module = import_module(f"fencepost.cli.{COMMANDS[command][0].partition(':')[0]}")
    own = getattr(module, "parser", None)
    described = own()._actions if own and not signature(own).parameters else []  # `halt` shares its parser
    return {word for one in described if one.dest == "action" for word in one.choices}


def test_a_run_is_asked_for_looked_at_and_cancelled(busy: WebDoor) -> None:
    ask = asking(busy, "trigger")
    made = ask("POST", "/runs", 202, json={"target": "digest", "payload": {"month": 3}})

    assert set(RUN_FIELDS) <= set(made)
    assert (made["state"], made["earlier"]) == ("ready", False)
    assert ask("GET", f"/runs/{made['id']}")["payload"] == {"month": 3}
    assert [one["id"] for one in ask("GET", "/queue")["items"]] == [made["id"]]
    assert [one["id"] for one in ask("GET", "/ps")["items"]] == [made["id"]]
    assert ask("GET", f"/runs/{made['id']}/log")["text"] == ""
    assert ask("POST", f"/runs/{made['id']}/cancel")["state"] == "cancelled"
    assert ask("POST", f"/runs/{made['id']}/replay", json={})["origin"] == made["id"]


def test_a_guarded_command_is_looked_at_by_its_id(web_on_both: WebDoor) -> None:
    answer = web_on_both.store.acquire(claim("lock:digest", id="x", label="make digest")._replace(is_command=True))
    assert isinstance(answer, Granted)
    running = asking(web_on_both)("GET", "/runs/run-of-x")
    web_on_both.store.release(answer.lease, clean=True, code=3)
    ended = asking(web_on_both)("GET", "/runs/run-of")

    assert (running["state"], running["fence"], running["command"]) == ("running", answer.lease.fence, "make digest")
    assert (ended["id"], ended["state"], ended["exit_code"]) == ("run-of-x", "failed", 3)
    stranger = web_on_both.bearer(tenant="other")
    assert web_on_both.ask("GET", f"{API}/runs/run-of-x", headers=stranger).status_code == 404


def test_runs_and_guarded_commands_are_one_list_in_parts(busy: WebDoor) -> None:
    ask = asking(busy)
    runs = [ask("POST", "/runs", 202, json={"target": "digest"})["id"]]
    for name in ("a", "b"):
        answer = busy.store.acquire(claim(f"lock:{name}", id=name, label="make digest")._replace(is_command=True))
        assert isinstance(answer, Granted)
        busy.store.release(answer.lease, clean=True, code=0 if name == "a" else 3)

    listed: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        part = ask("GET", f"/runs?limit=1&cursor={cursor}")
        (row,) = part["items"]
        assert row.keys() >= set(RUN_FIELDS)
        listed.append(row["id"])
        cursor = part["next"]

    assert listed == ["run-of-b", "run-of-a", *runs]
    (failed,) = ask("GET", "/runs?state=dead")["items"]
    assert (failed["id"], failed["state"], failed["command"], failed["agent"]) == (
        "run-of-b",
        "failed",
        "make digest",
        None,
    )
    assert [row["id"] for row in ask("GET", "/runs?agent=digest")["items"]] == runs


def test_why_tells_what_ran_under_a_lock(web_on_both: WebDoor) -> None:
    answer = web_on_both.store.acquire(claim("lock:digest", id="x", label="make digest")._replace(is_command=True))
    assert isinstance(answer, Granted)
    web_on_both.store.release(answer.lease, clean=True, code=3)
    (told,) = asking(web_on_both)("GET", "/schedules/lock:digest/why")["answers"]

    assert "It failed with exit code 3" in " ".join(told["sentences"])
    asking(web_on_both)("GET", "/schedules/lock:nothing/why", 404)


def test_the_same_key_is_the_same_run_and_another_body_a_conflict(busy: WebDoor) -> None:
    ask = asking(busy)
    shown = {"Idempotency-Key": "order-4711"}
    first = ask("POST", "/runs", 202, json={"target": "digest", "payload": {"a": 1}}, headers=shown)
    second = ask("POST", "/runs", 200, json={"target": "digest", "payload": {"a": 1}}, headers=shown)
    other = ask("POST", "/runs", 409, json={"target": "digest", "payload": {"a": 2}}, headers=shown)

    assert second["id"] == first["id"]
    assert second["earlier"] is True
    assert other["code"] == "key_reused"


def test_a_key_that_was_used_for_another_tick_or_without_a_payload_is_a_conflict(busy: WebDoor) -> None:
    ask = asking(busy)
    shown = {"Idempotency-Key": "order-4712"}
    ask("POST", "/runs", 202, json={"target": "digest", "payload": {"a": 1}}, headers=shown)

    assert ask("POST", "/runs", 409, json={"target": "digest"}, headers=shown)["code"] == "key_reused"


def test_whatever_makes_something_makes_it_once_for_each_idempotency_key(busy: WebDoor) -> None:
    ask = asking(busy)
    shown = {"Idempotency-Key": "once"}
    run = ask("POST", "/runs", 202, json={"target": "digest"}, headers=shown)["id"]
    ask("POST", f"/runs/{run}/cancel")
    replays = [ask("POST", f"/runs/{run}/replay", json={"again": True}, headers=shown)["id"] for _ in range(2)]
    keys = [ask("POST", "/keys", code, json={"name": "ci"}, headers=shown) for code in (201, 200)]
    busy.runtime.pass_time(86_400)
    busy.runtime.tick()
    span = {"from": "2000-01-01T00:00:00Z", "until": "2100-01-01T00:00:00Z"}
    fills = [ask("POST", "/schedules/nightly/backfill", json=span, headers=shown) for _ in range(2)]

    assert replays[0] == replays[1] != run
    assert keys[0]["key"].startswith(f"fpk_{keys[0]['id']}_")
    assert (keys[1]["id"], keys[1]["key"]) == (keys[0]["id"], None)
    assert [len(one["run_ids"]) for one in fills] == [1, 0]
    ask("POST", "/keys", 409, json={"name": "other"}, headers=shown)
    others = asking(busy, tenant="theirs")
    assert others("POST", "/keys", 201, json={"name": "ci"}, headers=shown)["key"]


def test_a_batch_is_one_run_for_each_payload_all_or_none_and_once_for_its_key(busy: WebDoor) -> None:
    ask = asking(busy, "trigger")
    wanted = {"agent": "digest", "payloads": [{"n": number} for number in range(3)]}
    shown = {"Idempotency-Key": "batch-1"}
    first = ask("POST", "/batches", 202, json=wanted, headers=shown)["runs"]
    again = ask("POST", "/batches", 202, json=wanted, headers=shown)["runs"]

    assert [one["earlier"] for one in first + again] == [False] * 3 + [True] * 3
    assert [one["id"] for one in first] == [one["id"] for one in again]
    assert [ask("GET", f"/runs/{one['id']}")["payload"] for one in first] == wanted["payloads"]
    assert ask("POST", "/batches", 400, json={**wanted, "agent": "nightly"})["code"] == "invalid"
    assert len(ask("GET", "/runs")["items"]) == 3


def test_pages_neither_miss_nor_repeat_a_run_while_others_are_made(busy: WebDoor) -> None:
    ask = asking(busy)
    made = [ask("POST", "/runs", 202, json={"target": "digest"})["id"] for _ in range(5)]
    seen, cursor = [], ""
    while True:
        part = ask("GET", "/runs", params={"limit": 2, "cursor": cursor})
        seen += [one["id"] for one in part["items"]]
        ask("POST", "/runs", 202, json={"target": "digest"})
        if not (cursor := part["next"] or ""):
            break

    assert seen == made[::-1]


def test_ticks_schedules_and_the_audit_come_in_pages_too(busy: WebDoor) -> None:
    ask = asking(busy)
    for name in ("a", "b", "c"):
        busy.runtime.cron(name, "* * * * *")
    now = busy.runtime.now.replace(second=0, microsecond=0)
    for _ in range(4):
        busy.runtime.pass_time(60)
        busy.runtime.tick()
    for path, field in (("/schedules", "name"), ("/schedules/a/ticks", "tick_at"), ("/audit", "seq")):
        whole = [one[field] for one in ask("GET", path, params={"limit": 1000})["items"]]
        seen, cursor = [], ""
        while True:
            part = ask("GET", path, params={"limit": 2, "cursor": cursor})
            seen += [one[field] for one in part["items"]]
            if not (cursor := part["next"] or ""):
                break
        assert len(whole) >= 4, (path, now)
        assert seen == whole


def parts(ask: Any, path: str, **params: object) -> list[Any]:  # noqa: ANN401
    seen, cursor = [], ""
    for _ in range(100):
        part = ask("GET", path, params={"limit": 2, "cursor": cursor, **params})
        seen += part["items"]
        if not (cursor := part["next"] or ""):
            return seen
    raise AssertionError(path)


def test_every_other_listing_comes_in_pages_as_well(busy: WebDoor) -> None:
    runtime, ask = busy.runtime, asking(busy)
    runtime.store.notices().declare("default", "x", {Wish(f"chat{n}", "succeeded") for n in range(5)})
    for number in range(5):
        ask("POST", "/runs", 202, json={"target": "digest"})
        ask("POST", "/keys", 201, json={"name": f"key {number}"})
    held = [runtime.leased(start=True) for _ in range(3)]
    for number in range(3):
        for one in held:
            runtime.store.ledger().begin(one.lease, EffectCall(f"k{number}", f"c{number}", f"run:{one.run.id}"))
    for path in ("/ps", "/queue", "/leases", "/ledger", "/keys"):
        whole = ask("GET", path, params={"limit": 1000})
        assert len(whole["items"]) > 2 or path == "/queue", path
        assert parts(ask, path) == whole["items"], path
        assert whole["next"] is None
    runtime.settle(held[0], SUCCEEDED)
    notices = ask("GET", "/notices", params={"limit": 1000})["items"]
    assert len(notices) == 5
    assert parts(ask, "/notices") == notices
    assert len(parts(ask, "/notices", target="chat3", state="waiting", event="succeeded")) == 1
    assert parts(ask, "/notices", event="dead") == []
    assert parts(ask, "/leases", resource="lock:none") == []


def test_definitions_are_planned_and_applied_and_retired(busy: WebDoor) -> None:
    ask = asking(busy)
    text = '[agents.sweep]\ncommand = ["true"]\n[schedules.hourly]\nagent = "sweep"\ncron = "0 * * * *"\ntimezone = "UTC"\n'
    before = ask("GET", "/schedules")["items"]
    planned = ask("POST", "/plan", json={"definitions": text})
    assert [(one["name"], one["change"]) for one in planned["schedules"]] == [("hourly", "added")]
    assert len(planned["schedules"][0]["next"]) == 3
    assert ask("GET", "/schedules")["items"] == before, "planning changes nothing"

    applied = ask("POST", "/apply", json={"definitions": text})
    assert applied["source"] == "http:definitions"
    assert ask("GET", "/schedules/hourly")["definition"] == {
        "name": "hourly", "agent": "sweep", "cron": "0 * * * *", "timezone": "UTC"
    }  # fmt: skip
    assert {one["change"] for one in ask("POST", "/apply", json={"definitions": text})["schedules"]} == {"unchanged"}
    gone = ask("POST", "/apply", json={"definitions": text.partition("[schedules")[0]})
    assert [(one["name"], one["change"]) for one in gone["schedules"]] == [("hourly", "retired")]
    assert {one["name"] for one in ask("GET", "/schedules")["items"]} >= {one["name"] for one in before}
    assert ask("GET", "/audit", params={"verb": "apply"})["items"]


def test_definitions_that_are_wrong_are_told_like_a_files_and_change_nothing(busy: WebDoor) -> None:
    ask = asking(busy)
    text = '[agents.sweep]\ncomand = ["true"]\n[schedules.x]\nagent = "sweep"\ncron = "0 0 30 2 *"\ntimezone = "UTC"\n'
    answer = ask("POST", "/apply", 400, json={"definitions": text, "name": "ops"})

    assert answer["code"] == "invalid_config"
    assert "http:ops:2:" in answer["detail"]
    assert "command" in answer["detail"]
    assert "never fires" in answer["detail"]
    assert ask("GET", "/schedules/x", 404)["code"] == "unknown"


def test_definitions_reach_nothing_of_the_servers_machine(busy: WebDoor, tmp_path: Path) -> None:
    ask = asking(busy)
    (tmp_path / "secret.txt").write_text("the server's own")
    text = f'[agents.a]\nengine = "claude"\nprompt_file = "{tmp_path}/secret.txt"\n'
    assert "was not sent" in ask("POST", "/plan", 400, json={"definitions": text})["detail"]
    sent = {"definitions": '[agents.a]\nengine = "claude"\nprompt_file = "p.md"\n', "files": {"p.md": "Do it."}}
    ask("POST", "/apply", json=sent)
    theirs = '[fencepost]\ntenant = "theirs"\n'
    assert "key for 'default'" in ask("POST", "/apply", 400, json={"definitions": theirs})["detail"]
    own = '[fencepost]\nstore = "sqlite:/x.db"\n[tenants.default]\nsecrets = ["env:X"]\n'
    assert ask("POST", "/plan", json={"definitions": own})["ignored"] == ["fencepost.store", "tenants"]


def test_definitions_cannot_give_their_tenant_more_secrets(busy: WebDoor) -> None:
    busy.allow("default", "env:MINE")
    text = '[tenants.default]\nsecrets = ["env:ROOT"]\n[agents.a]\ncommand = ["true"]\nsecrets = {{ X = "env:{}" }}\n'
    ask = asking(busy)

    assert "do not list env:ROOT" in ask("POST", "/apply", 400, json={"definitions": text.format("ROOT")})["detail"]
    ask("POST", "/apply", json={"definitions": text.format("MINE")})


def test_ticks_are_previewed_for_a_schedule_or_an_expression(busy: WebDoor) -> None:
    ask = asking(busy, "read")
    berlin = {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "from": "2026-03-28", "until": "2026-03-30"}
    found = ask("GET", "/ticks", params=berlin)["ticks"]

    assert [one["disposition"] for one in found] == ["fired", "dst_gap"]
    assert len(ask("GET", "/ticks", params={"schedule": "nightly", "limit": 4})["ticks"]) == 4
    assert ask("GET", "/ticks", 400)["code"] == "invalid"
    assert ask("GET", "/ticks", 400, params={"cron": "61 * * * *", "timezone": "UTC"})["code"] == "invalid"


def test_a_history_is_read_part_by_part(busy: WebDoor) -> None:
    ask = asking(busy)
    for hour in (3, 4, 5):
        busy.runtime.cron("nightly", f"0 {hour} * * *")
    for _ in range(2):
        ask("POST", "/schedules/nightly/pause", json={})
        ask("POST", "/schedules/nightly/resume")
    versions: list[int] = []
    pauses = parts = 0
    cursor: str | None = ""
    while cursor is not None:
        part = ask("GET", f"/schedules/nightly/history?limit=1&cursor={cursor}")
        versions += [one["version"] for one in part["versions"]]
        pauses += len(part["pauses"])
        parts, cursor = parts + 1, part["next"]

    assert (versions, pauses, parts) == ([4, 3, 2, 1], 2, 4)


def test_a_schedule_is_paused_resumed_skipped_and_explained(busy: WebDoor) -> None:
    ask = asking(busy)
    paused = ask("POST", "/schedules/nightly/pause", json={"note": "moving", "until": "2100-01-01T00:00:00Z"})
    assert paused["until"] == "2100-01-01T00:00:00Z"
    assert ask("GET", "/schedules/nightly")["state"] == "paused"
    assert ask("POST", "/schedules/nightly/resume")["state"] == "active"
    assert len(ask("POST", "/schedules/nightly/skip-next", json={"count": 2})["skips"]) == 2
    assert ask("GET", "/schedules/nightly/history")["versions"][0]["version"] == 1
    assert ask("GET", "/schedules/nightly/why")["answers"]
    assert ask("GET", "/prove")["missing"] == 0
    assert [one["schedule"] for one in ask("GET", "/prove")["schedules"]] == ["nightly"]
    assert "items" in ask("GET", "/dst-check")
    assert ask("POST", "/halt", json={"note": "stop"})["kind"] == "pause"
    assert ask("POST", "/unhalt") == {"done": True}
    assert ask("GET", "/audit/verify")["good"] is True
    assert {one["verb"] for one in ask("GET", "/audit")["items"]} >= {"pause", "resume", "halt", "unhalt"}


def test_a_key_is_made_shown_once_and_ended(busy: WebDoor) -> None:
    ask = asking(busy)
    made = ask("POST", "/keys", 201, json={"name": "ci", "role": "read"})
    own = {"Authorization": f"Bearer {made['key']}"}

    assert busy.ask("GET", f"{API}/runs", headers=own).status_code == 200
    assert "key" not in ask("GET", "/keys")["items"][0]
    assert ask("DELETE", f"/keys/{made['id']}")["revoked_at"]
    assert busy.ask("GET", f"{API}/runs", headers=own).status_code == 401


def test_doctor_shows_the_machine_only_to_the_tenant_whose_it_is(
    busy: WebDoor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fencepost.toml").write_text("[nonsense]\n")
    monkeypatch.setenv("FENCEPOST_TENANT", "default")

    answers = {tenant: asking(busy, tenant=tenant)("GET", "/doctor")["findings"] for tenant in ("default", "acme")}
    page = busy.ask("GET", "/doctor", headers={**busy.bearer(tenant="acme"), "Accept": "text/html"}).text

    whole, rented = (json.dumps(answers[tenant]) for tenant in ("default", "acme"))
    assert str(tmp_path) in whole
    for shown in (rented, page):
        assert str(tmp_path) not in shown
        assert os.path.expanduser("~") not in shown
        assert "nonsense" not in shown
    assert not re.search(r"(?:^|[\s:\"(])/\w", rented), rented
    assert {one["check"] for one in answers["acme"]} == {one["check"] for one in answers["default"]}
    assert {one["status"] for one in answers["acme"] if one["check"] == "config"} == {"fail"}


def test_tenants_never_see_one_another(busy: WebDoor) -> None:
    ours, theirs = asking(busy), asking(busy, tenant="theirs")
    run = ours("POST", "/runs", 202, json={"target": "digest"})["id"]

    for path in ("/runs", "/ps", "/queue", "/dead", "/schedules", "/leases", "/ledger"):
        assert theirs("GET", path)["items"] == [], path
    assert theirs("GET", f"/runs/{run}", 404)["code"] == "unknown"
    assert theirs("POST", f"/runs/{run}/cancel", 404)["code"] == "unknown"
    assert theirs("POST", "/runs", 404, json={"target": "digest"})["code"] == "unknown"
    assert theirs("GET", "/schedules/nightly", 404)["code"] == "unknown"
    assert {one["tenant"] for one in theirs("GET", "/keys")["items"]} == {"theirs"}


@pytest.mark.parametrize(
    ("path", "body", "status", "word"),
    [
        ("/runs", {"target": "digets"}, 404, "did you mean"),
        ("/runs", {"targett": "digest"}, 422, "targett"),
        ("/runs", {"target": "digest", "overlap": "skip"}, 400, "is an agent"),
        ("/schedules/nightly/pause", {"until": "tomorrow"}, 400, "tomorrow"),
        ("/schedules/nightly/resume", None, 400, "not paused"),
        ("/leases/break", {"resource": "lock:z"}, 404, "there is no lease on"),
    ],
)
def test_an_error_says_what_is_wrong(busy: WebDoor, path: str, body: Any, status: int, word: str) -> None:  # noqa: ANN401
    answer = asking(busy)("POST", path, status, json=body)

    assert word in answer["detail"]
    assert answer["status"] == status


def test_a_cursor_that_is_not_ours_is_refused(busy: WebDoor) -> None:
    for cursor in ("x", "e30", "W10", "WzEsIDJd", "ÿ"):
        assert asking(busy)("GET", "/runs", 400, params={"cursor": cursor})["code"] == "invalid"
