"""The HTTP API: the same operations and field names as the command line, for the key's tenant and nobody else."""

from typing import Any

import pytest

from fencepost.cli.main import COMMANDS
from fencepost.model.definition import AgentDefinition
from tests.support.desk import RUN_FIELDS
from tests.support.webdoor import WebDoor

API = "/api/v1"
# Commands of machines, terminals and files, which have no meaning over HTTP.
ELSEWHERE = {
    *("init", "demo", "up", "scheduler", "worker", "web", "mcp", "version", "import", "store", "service", "simulate"),
    *("exec", "gate", "hook", "mcp-gate", "worktree", "checkpoint", "progress", "ticks", "plan", "apply"),
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
}


@pytest.fixture
def busy(web_on_both: WebDoor) -> WebDoor:
    runtime = web_on_both.runtime
    runtime.apply(AgentDefinition("digest", command=("true",)))
    runtime.cron("nightly", "0 2 * * *")
    return web_on_both


def asking(web: WebDoor, role: str = "admin", tenant: str = "default") -> Any:  # noqa: ANN401
    shown = web.bearer(role, tenant)

    def ask(method: str, path: str, status: int = 200, **more: Any) -> Any:  # noqa: ANN401
        headers = {**shown, **more.pop("headers", {})}
        answer = web.ask(method, f"{API}{path}", headers=headers, **more)
        assert answer.status_code == status, answer.text
        return answer.json()

    return ask


def test_every_command_is_offered_or_has_no_meaning_here(web: WebDoor) -> None:
    paths = asking(web)("GET", "/openapi.json")["paths"]

    assert {f"{API}{path}" for path in OFFERED.values()} <= set(paths)
    assert set(COMMANDS) - ELSEWHERE == set(OFFERED)


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


def test_the_same_key_is_the_same_run_and_another_body_a_conflict(busy: WebDoor) -> None:
    ask = asking(busy)
    shown = {"Idempotency-Key": "order-4711"}
    first = ask("POST", "/runs", 202, json={"target": "digest", "payload": {"a": 1}}, headers=shown)
    second = ask("POST", "/runs", 200, json={"target": "digest", "payload": {"a": 1}}, headers=shown)
    other = ask("POST", "/runs", 409, json={"target": "digest", "payload": {"a": 2}}, headers=shown)

    assert second["id"] == first["id"]
    assert second["earlier"] is True
    assert other["code"] == "key_reused"


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


def test_a_schedule_is_paused_resumed_skipped_and_explained(busy: WebDoor) -> None:
    ask = asking(busy)
    paused = ask("POST", "/schedules/nightly/pause", json={"note": "moving", "until": "2100-01-01T00:00:00Z"})
    assert paused["until"] == "2100-01-01T00:00:00Z"
    assert ask("GET", "/schedules/nightly")["state"] == "paused"
    assert ask("POST", "/schedules/nightly/resume")["state"] == "active"
    assert len(ask("POST", "/schedules/nightly/skip-next", json={"count": 2})["skips"]) == 2
    assert ask("GET", "/schedules/nightly/history")["versions"][0]["version"] == 1
    assert ask("GET", "/schedules/nightly/why")["answers"]
    assert ask("GET", "/prove")["rows"][-1]["missing"] == 0
    assert "rows" in ask("GET", "/dst-check")
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
        ("/leases/break", {"resource": "lock:z"}, 404, "nobody holds"),
    ],
)
def test_an_error_says_what_is_wrong(busy: WebDoor, path: str, body: Any, status: int, word: str) -> None:  # noqa: ANN401
    answer = asking(busy)("POST", path, status, json=body)

    assert word in answer["detail"]
    assert answer["status"] == status


def test_a_cursor_that_is_not_ours_is_refused(busy: WebDoor) -> None:
    for cursor in ("x", "e30", "W10", "WzEsIDJd", "ÿ"):
        assert asking(busy)("GET", "/runs", 400, params={"cursor": cursor})["code"] == "invalid"
